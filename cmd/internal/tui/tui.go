// Package tui runs a conversation in a terminal: on the full screen ([Run]), line by
// line in a pipe ([Lines]), or as a single question ([Once]).
//
// All three use a [Chat], which is attached again whenever it breaks. A line is sent
// under the same ID until it is known to be accepted, so it is accepted once.
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

// A Chat is one attachment to a conversation. Its methods may be called
// concurrently.
type Chat interface {
	Hello() admin.Hello
	// Next returns the next message of the daemon, and an error once the chat has ended.
	Next(ctx context.Context) (admin.Down, error)
	// Seen reports that everything up to seq has been shown.
	Seen(seq uint64) error
	// Say returns nil once the line is on disk, an *admin.Error if it is rejected, and
	// any other error if that is unknown.
	Say(ctx context.Context, id, text string) error
	Close() error
}

// Options configure a conversation. Attach and Out are required. Once does not use In,
// and Run does not use Errs.
type Options struct {
	// Attach joins the conversation; has contains the IDs of messages that were already
	// shown. It is called again whenever the chat breaks.
	Attach func(ctx context.Context, has ...string) (Chat, error)
	// History is the file that stores entered lines; "" stores nothing.
	History string
	// Notice is shown once at the beginning, for example that no daemon runs.
	Notice string

	In        io.Reader
	Out, Errs io.Writer
	// Environ is the environment, for NO_COLOR and TERM.
	Environ []string
	// Patience is the time for which a question waits for a lost daemon; 0 means 15 s.
	Patience time.Duration
}

// colorMode returns the color mode of the output.
func (o Options) colorMode() text.ColorMode {
	switch colorprofile.Detect(o.Out, o.Environ) {
	case colorprofile.NoTTY, colorprofile.Unknown:
		return text.Source
	case colorprofile.ASCII:
		return text.Mono
	}
	return text.Colour
}

// Run runs the conversation on the full screen until the user quits or ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := openLink(ctx, o.Attach)
	if err != nil {
		return err
	}
	defer func() { cancel(); l.wait() }()
	hist, err := openHistory(o.History)
	if err != nil {
		o.Notice += fmt.Sprintf("\nWhat you type is not kept: %v", err)
	}
	look := o.colorMode()
	if look == text.Source {
		look = text.Mono
	}
	m := newModel(ctx, l, hist, look)
	m.addNotice(o.Notice)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	_, err = p.Run()
	if ctx.Err() != nil && err != nil {
		return nil // ended by ctx
	}
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}
