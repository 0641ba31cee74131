package reply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/target"
)

// SendMessage sends the message of a tool call in the turn of e, and returns a
// description of its targets for the model.
func (r *Reply) SendMessage(ctx context.Context, e inbox.Entry, m tool.Message, c *conversation.Conversation) (string, error) {
	files, err := r.filesToSend(m.Files, c)
	if err != nil {
		return "", err
	}
	out := target.Message{To: m.To, Text: m.Text, Files: files}
	if e.Occurrence != nil {
		out.Creator = e.Grant.Principal()
	}
	rows, err := r.Directory.Send(ctx, e.Inbound.Address, r.claim.Turn, out)
	if err != nil {
		return "", err
	}
	var to []string
	for _, r := range rows {
		if at := r.Msg.To.String(); !slices.Contains(to, at) {
			to = append(to, at)
		}
	}
	return "on its way to " + strings.Join(to, ", "), nil
}

// filesToSend returns the files at paths, or an error if the turn may not attach one.
func (r *Reply) filesToSend(paths []string, c *conversation.Conversation) ([]chat.File, error) {
	var files []chat.File
	for _, p := range paths {
		f, err := r.Files.Attach(p, r.attachScope(c))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Speak also sends an answer as a recording.
func (r *Reply) Speak(ctx context.Context, answer string) {
	text := markup.PlainText(markup.Parse(answer))
	if strings.TrimSpace(text) == "" {
		return
	}
	start := time.Now()
	file, err := r.Files.Synthesize(ctx, text)
	r.Options.Observe.Emit(observe.MediaProcessed{Task: observe.SpeechSynthesis, Failed: err != nil, Took: time.Since(start)})
	if err != nil {
		r.log.Warn("cannot synthesize speech", zap.Error(err))
		r.Notify(r.Options.Printer.T("I could not speak this answer: %v.", err))
		return
	}
	row := outbox.Row{Role: outbox.Notice, Turn: r.claim.Turn, Msg: chat.Outbound{To: r.last().Inbound.Address, File: &file}}
	if _, err := r.Delivery.Enqueue(ctx, row); err != nil {
		r.log.Error("cannot send recording", zap.Error(err))
	}
}
