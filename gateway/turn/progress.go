package turn

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// progressMode returns how tool calls are shown in the chat: off, new, all or
// verbose.
func (t *turn) progressMode() string {
	return cmp.Or(t.session.Record.Settings.ToolProgress, t.runner.parts.Settings.Progress, "off")
}

// sendPreamble sends the text that precedes a tool call as a separate message if tool
// calls are shown; otherwise it discards the text. The step is already on disk, so
// that a resumed turn does not send the text again.
func (t *turn) sendPreamble(ctx context.Context, stream *delivery.Stream) {
	text, preview := "", outbox.ID(0)
	if t.progressMode() != "off" {
		text, preview = stream.EndMessage()
	}
	if text == "" {
		stream.EndPreamble()
		return
	}
	f := t.draft()
	f.Role, f.Quiet = outbox.Notice, true
	_, err := t.runner.parts.Chat.Delivery.Enqueue(context.WithoutCancel(ctx), t.replyRows(f, text, preview, true)...)
	if err == nil {
		t.claim.Previews = nil
	} else {
		t.addPreview(preview) // the answer deletes it
		t.log.Error("cannot send text before tool call", zap.Error(err))
	}
}

// progressLine returns the line that shows a tool call in the status, "" if it is not
// shown.
func (t *turn) progressLine(c agent.ToolCall) string {
	n := len(t.trace.Tools)
	switch t.progressMode() {
	case "new":
		if n > 0 && t.trace.Tools[n-1] == c.Name {
			return ""
		}
		return "🔧 " + c.Name
	case "all":
		return strings.TrimSpace("🔧 " + c.Name + " " + tool.InputSummary(c.Input))
	case "verbose":
		return fmt.Sprintf("🔧 %s `%s`", c.Name, strings.ReplaceAll(string(c.Input), "`", "'"))
	}
	return ""
}

// react sets the reaction on the messages of the turn. Commands get none.
func (t *turn) react(reaction chat.Reaction) {
	for _, e := range t.claim.Entries {
		if !e.Exclusive {
			t.runner.parts.Chat.Accounts.React(e.Inbound, reaction)
		}
	}
}

// showOutcome sets the reaction for the outcome of the turn.
func (t *turn) showOutcome(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		t.react(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		t.react(chat.ReactionFailed)
	}
}

// messageIDs returns the platform IDs of the turn's messages for which keep returns
// true; a nil keep selects all.
func (t *turn) messageIDs(keep func(inbox.Entry) bool) []string {
	ids := make([]string, 0, len(t.claim.Entries))
	for _, e := range t.claim.Entries {
		if keep == nil || keep(e) {
			ids = append(ids, e.Inbound.ID)
		}
	}
	return ids
}

// isSeen reports whether the model has received e.
func (t *turn) isSeen(e inbox.Entry) bool { return e.ID <= t.lastSeen }

// chatUsage returns the usage of the turn's model calls.
func (t *turn) chatUsage() *chat.Usage {
	return &chat.Usage{Prompt: t.tokenUsage.Prompt(), Cached: t.tokenUsage.CacheRead, Output: t.tokenUsage.Output}
}
