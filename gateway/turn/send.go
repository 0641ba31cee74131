package turn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/target"
)

// sendMessage sends the message of a tool call in the turn of e, and returns a
// description of its targets for the model.
func (t *turn) sendMessage(ctx context.Context, e inbox.Entry, m tool.Message) (string, error) {
	files, err := t.filesToSend(m.Files)
	if err != nil {
		return "", err
	}
	out := target.Message{To: m.To, Text: m.Text, Files: files}
	if e.Occurrence != nil {
		out.Creator = e.Principal
	}
	rows, err := t.runner.parts.Chat.Targets.Send(ctx, e.Inbound.Address, t.claim.Turn, out)
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
func (t *turn) filesToSend(paths []string) ([]chat.File, error) {
	var files []chat.File
	for _, p := range paths {
		f, err := t.runner.parts.Chat.Attach(p, t.attachScope())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		files = append(files, f)
	}
	return files, nil
}
