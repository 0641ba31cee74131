package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/media"
	"hermesd/gateway/outbox"
	"hermesd/gateway/reply"
	"hermesd/gateway/target"
)

// A sender sends messages of the operator on the command line. It implements
// admin.Sender.
type sender struct {
	attachments
	targets *target.Directory
}

func (s sender) Destinations(ctx context.Context) ([]target.Info, error) {
	return s.targets.Known(ctx)
}

func (s sender) Send(ctx context.Context, m admin.Message) ([]outbox.Row, error) {
	p := target.Message{To: m.To, Text: m.Text}
	for _, f := range m.Files {
		file, err := s.attach(f.Path, reply.AttachScope{Workspace: true, Received: []string{filepath.Base(f.Path)}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		file.Name = media.Name(f.Name)
		p.Files = append(p.Files, file)
	}
	return s.targets.Send(ctx, chat.Address{}, "", p)
}

// Keep stores a file in the media cache, from where Send can send it.
func (s sender) Keep(ctx context.Context, name string, from io.Reader) (string, error) {
	kept, err := s.store(ctx, from, chat.File{Name: name})
	if err != nil {
		return "", errors.New(kept.FetchError)
	}
	return kept.Path, nil
}
