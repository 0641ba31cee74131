package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

// why tells what became of a message of the conversation.
func (ctl *Control) why(ctx context.Context, c command.Call) (string, error) {
	id := c.Args
	if id == "" && c.Inbound.ReplyTo != nil {
		id = c.Inbound.ReplyTo.ID
	}
	if id == "" {
		return c.T("Say which: `/why <message id>`, or reply with `/why` to the message."), nil
	}
	histories, err := ctl.parts.Store.MessageHistory(ctx, id)
	if err != nil {
		return "", err
	}
	histories = slices.DeleteFunc(histories, func(h store.MessageHistory) bool { return h.Entry.Session != c.Key })
	if len(histories) == 0 {
		return c.T("I know of no such message in this conversation."), nil
	}
	var b strings.Builder
	for _, h := range histories {
		b.WriteString("```\n" + FormatHistory(h) + "```\n")
	}
	return b.String(), nil
}

// StoredAnswer returns the answer to a message from its history, or why there is none,
// for platforms on which clients fetch answers (chat.Capabilities.RawMarkdown). ended
// reports that the message is done.
func StoredAnswer(c store.MessageHistory) (text, why string, ended bool) {
	o := c.Entry.Outcome
	if o == nil {
		return "", "", false
	}
	var failure string
	for _, r := range c.Rows {
		switch a := r.Msg.ReplyContext; {
		case a == nil:
		case a.Purpose == chat.PurposeAnswer:
			text = r.Msg.Text.Text
		case a.Purpose == chat.PurposeFailure:
			failure = r.Msg.Text.Text
		}
	}
	switch {
	case o.Result == inbox.Replied && o.MergedInto != 0:
		return "", "a newer message took its place, and what it says is answered there", true
	case o.Result == inbox.Replied:
		return text, "", true
	case failure != "":
		return "", strings.TrimSuffix(failure, "."), true
	}
	return "", strings.TrimSuffix(strings.TrimSpace(string(o.Result)+" ("+o.Reason+")"), "."), true
}

// FormatHistory renders the history of one message as lines of text.
func FormatHistory(c store.MessageHistory) string {
	var b strings.Builder
	e := c.Entry
	fmt.Fprintf(&b, "%s  message %s from %s (%s) at %s\n", e.ID, e.Inbound.ID, e.Inbound.Sender.ID, e.Inbound.Address, formatTime(e.Inbound.SentAt))
	fmt.Fprintf(&b, "  accepted  %s\n", formatTime(e.Accepted))
	if e.Turn != "" {
		fmt.Fprintf(&b, "  turn      %s\n", e.Turn)
	}
	if e.Crashes > 0 {
		fmt.Fprintf(&b, "  crashes   %d\n", e.Crashes)
	}
	writeTrace(&b, c.Trace)
	for _, r := range c.Rows {
		fmt.Fprintf(&b, "  %-9s %s %s, attempts: %d", r.Role, r.ID, r.State, r.Attempts)
		if r.Receipt != nil {
			fmt.Fprintf(&b, ", receipt %s at %s", r.Receipt.ID, formatTime(r.Settled))
		}
		if r.Reason != "" {
			fmt.Fprintf(&b, ", %s", r.Reason)
		}
		b.WriteString("\n")
	}
	b.WriteString("  outcome   " + formatOutcome(e) + "\n")
	return b.String()
}

func formatOutcome(e inbox.Entry) string {
	switch {
	case e.Outcome == nil:
		return "none yet: " + string(e.State)
	case e.Outcome.MergedInto != 0:
		return fmt.Sprintf("%s(with %s)", e.Outcome.Result, e.Outcome.MergedInto)
	case e.Outcome.Reason != "":
		return fmt.Sprintf("%s(%s)", e.Outcome.Result, e.Outcome.Reason)
	}
	return string(e.Outcome.Result)
}

func writeTrace(b *strings.Builder, raw json.RawMessage) {
	var t store.Trace
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil {
		return
	}
	if t.Resumed {
		b.WriteString("  resumed   after a restart\n")
	}
	for _, c := range t.Calls {
		fmt.Fprintf(b, "  model     %s/%s, %s, %d tokens in, %d cached, %d out\n", c.Provider, c.Model,
			c.Took.Round(time.Millisecond), c.Usage.Prompt(), c.Usage.CacheRead, c.Usage.Output)
	}
	for _, n := range t.Tools {
		fmt.Fprintf(b, "  tool      %s\n", n)
	}
	for _, n := range t.Notices {
		fmt.Fprintf(b, "  notice    %s\n", n)
	}
	if t.Error != "" {
		fmt.Fprintf(b, "  error     %s\n", t.Error)
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}
