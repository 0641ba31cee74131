package turn

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/tool"
	"hermesd/gateway/delivery"
	"hermesd/gateway/outbox"
)

// shows is how tool calls are shown in the conversation.
func (t *turn) shows() string {
	return cmp.Or(t.session.record.Settings.ToolProgress, t.runner.opts.Progress, "off")
}

// part makes a message of its own of what the model has written ahead of a tool
// call, where tool calls are shown: what follows begins a new one. The step is on
// disk, so a turn that is resumed does not say it again.
func (t *turn) part(ctx context.Context, stream *delivery.Stream) {
	text, preview := "", outbox.ID(0)
	if t.shows() != "off" {
		text, preview = stream.EndMessage()
	}
	if text == "" {
		stream.EndPreamble()
		return
	}
	f := t.draft()
	f.Role, f.Quiet = outbox.Notice, true
	_, err := t.runner.opts.Delivery.Enqueue(context.WithoutCancel(ctx), t.reply(f, text, preview, true)...)
	switch {
	case err == nil:
		t.claim.Previews = nil
	case preview != 0: // the answer takes it back
		t.claim.Previews = append(t.claim.Previews, outbox.Row{ID: preview})
	}
	if err != nil {
		t.log.Error("say what stands ahead of a tool call", zap.Error(err))
	}
}

// progress is the line that shows a tool call while the answer is on its way;
// "" for none.
func (t *turn) progress(c agent.ToolCall) string {
	n := len(t.trace.Tools)
	switch t.shows() {
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
