// Package tui is the conversation in a terminal: full screen where there is
// one, line by line in a pipe, or a single question.
//
// All three speak through a Chat, which may break and is attached again; a line
// is said under one id until it is known to be taken, so it is taken once.
package tui

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
)

// A Chat is one attachment to a conversation.
type Chat interface {
	Hello() admin.Hello
	// Next returns what the daemon tells next, and an error once it is over.
	Next(ctx context.Context) (admin.Down, error)
	// Seen says that everything up to seq has been shown.
	Seen(seq uint64) error
	// Say returns nil once the line is on disk, an *admin.Error if it is refused,
	// and any other error if that is not known.
	Say(ctx context.Context, id, text string) error
	Close() error
}

// Options are what a conversation needs.
type Options struct {
	// Attach joins the conversation; has names messages that were shown before.
	// It is called again whenever the chat has broken.
	Attach func(ctx context.Context, has ...string) (Chat, error)
	// History is the file that keeps what was typed; "" keeps nothing.
	History string
	// Notice is said once at the beginning, such as that no daemon runs.
	Notice string

	In        io.Reader
	Out, Errs io.Writer
	// Environ is the environment, for NO_COLOR and TERM.
	Environ []string
	// Patience is how long a question outlasts a lost daemon; 0 is 15 s.
	Patience time.Duration
}

// look returns how text is shown on the output.
func (o Options) look() text.ColorMode {
	switch colorprofile.Detect(o.Out, o.Environ) {
	case colorprofile.NoTTY, colorprofile.Unknown:
		return text.Source
	case colorprofile.ASCII:
		return text.Mono
	}
	return text.Colour
}

// Run leads the conversation on the full screen until the person quits or ctx
// ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := open(ctx, o.Attach)
	if err != nil {
		return err
	}
	defer func() { cancel(); l.wait() }()
	hist, err := openHistory(o.History)
	if err != nil {
		o.Notice += fmt.Sprintf("\nWhat you type is not kept: %v", err)
	}
	look := o.look()
	if look == text.Source {
		look = text.Mono
	}
	m := newModel(ctx, l, hist, look)
	m.note(o.Notice)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	_, err = p.Run()
	if ctx.Err() != nil && err != nil {
		return nil // asked to end
	}
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}
