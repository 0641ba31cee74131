package reply

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// progressMode returns how tool calls are shown in the chat: off, new, all or
// verbose.
func (r *Reply) progressMode(c *conversation.Conversation) string {
	return cmp.Or(c.Record.Settings.ToolProgress, r.Options.Progress, "off")
}

// SendPreamble sends the text that precedes a tool call as a separate message if tool
// calls are shown; otherwise it discards the text. The step is already on disk, so
// that a resumed turn does not send the text again.
func (r *Reply) SendPreamble(ctx context.Context, stream *delivery.Stream, c *conversation.Conversation) {
	text, preview := "", outbox.ID(0)
	if r.progressMode(c) != "off" {
		text, preview = stream.EndMessage()
	}
	if text == "" {
		stream.EndPreamble()
		return
	}
	f := r.Draft()
	f.Role, f.Quiet = outbox.Notice, true
	_, err := r.Delivery.Enqueue(context.WithoutCancel(ctx), r.Rows(f, text, Preview{preview, true}, c)...)
	if err == nil {
		r.claim.Previews = nil
	} else {
		r.AddPreview(preview) // the answer deletes it
		r.log.Error("cannot send text before tool call", zap.Error(err))
	}
}

// ProgressLine returns the line that shows a tool call in the status, "" if it is not
// shown. previous is the tool of the call before, "" if there was none.
func (r *Reply) ProgressLine(call agent.ToolCall, previous string, c *conversation.Conversation) string {
	switch r.progressMode(c) {
	case "new":
		if previous == call.Name {
			return ""
		}
		return "🔧 " + call.Name
	case "all":
		return strings.TrimSpace("🔧 " + call.Name + " " + tool.InputSummary(call.Input))
	case "verbose":
		return fmt.Sprintf("🔧 %s `%s`", call.Name, strings.ReplaceAll(string(call.Input), "`", "'"))
	}
	return ""
}

// React sets the reaction on the messages of the turn. Commands get none.
func (r *Reply) React(reaction chat.Reaction) {
	for _, e := range r.claim.Entries {
		if !e.Exclusive {
			r.Accounts.React(e.Inbound, reaction)
		}
	}
}

// ShowOutcome sets the reaction for the outcome of the turn.
func (r *Reply) ShowOutcome(o inbox.Outcome) {
	switch o.Result {
	case inbox.Replied:
		r.React(chat.ReactionAnswered)
	case inbox.Failed, inbox.Cancelled:
		r.React(chat.ReactionFailed)
	}
}
