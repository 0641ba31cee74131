// Package termform asks a person in a terminal what package setup wants to know.
package termform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"hermesd/cmd/internal/setup"
	"hermesd/cmd/internal/tui/text"
)

// An Asker is a terminal. It implements setup.Asker.
type Asker struct {
	In      io.Reader // *os.File for a real terminal
	Out     io.Writer
	Environ []string // for NO_COLOR and TERM
}

var _ setup.Asker = (*Asker)(nil)

// Ask shows a page until every field of it is answered; its text stays, so that
// addresses can be opened. Ctrl-C, a hangup and the end of ctx are
// setup.ErrAborted.
func (a *Asker) Ask(ctx context.Context, p setup.Page) error {
	if p.Title != "" {
		a.Say("── " + p.Title + " ──")
	}
	if p.Text != "" {
		a.Say(strings.TrimSuffix(p.Text, "\n"))
	}
	var fields []huh.Field
	for _, f := range p.Fields {
		fields = append(fields, field(f))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &page{form: huh.NewForm(huh.NewGroup(fields...)).WithTheme(huh.ThemeFunc(huh.ThemeBase16))}
	program := tea.NewProgram(m, tea.WithInput(ending(a.In, cancel)), tea.WithOutput(a.Out), tea.WithEnvironment(a.Environ), tea.WithoutSignalHandler(), tea.WithFilter(unasked))
	// A program that is killed by its context leaves a reader behind, which would
	// take the next page's keys.
	stop := context.AfterFunc(ctx, program.Quit)
	_, err := program.Run()
	stop()
	if m.height > 1 {
		_, _ = io.WriteString(a.Out, ansi.CursorUp(m.height-1)+"\r"+ansi.EraseScreenBelow) // over what is blank now
	}
	switch {
	case ctx.Err() != nil, m.form.State == huh.StateAborted:
		return setup.ErrAborted
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// unasked drops the form's question for the size of the terminal: it is told at
// the start and at each change, and who answers the question reads the terminal
// even after the program has ended.
func unasked(_ tea.Model, msg tea.Msg) tea.Msg {
	if msg == tea.RequestWindowSize() {
		return nil
	}
	return msg
}

// A page is a form that is blank at its end.
type page struct {
	form   *huh.Form
	height int // of the most that was shown
}

func (p *page) Init() tea.Cmd { return p.form.Init() }

func (p *page) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := p.form.Update(msg)
	if p.form.State != huh.StateNormal {
		return p, tea.Quit
	}
	return p, cmd
}

// View is what the form shows, and at its end nothing, but never in fewer lines
// than before: then the renderer forgets to go up, and old lines stay.
func (p *page) View() tea.View {
	s := p.form.View()
	have := lipgloss.Height(s)
	p.height = max(p.height, have)
	return tea.NewView(cmp.Or(s, " ") + strings.Repeat("\n", p.height-have))
}

// field makes a question of the library from one of ours.
func field(f *setup.Field) huh.Field {
	check := f.Check
	if check == nil {
		check = func(string) error { return nil }
	}
	switch f.Kind {
	case setup.Select:
		return huh.NewSelect[string]().Title(f.Title).Description(f.Help).Options(options(f)...).Value(&f.Value)
	case setup.MultiSelect:
		return huh.NewMultiSelect[string]().Title(f.Title).Description(f.Help).Options(options(f)...).Value(&f.Values).Filterable(false).
			Height(len(f.Options) + 2) // the library's own choice hides all but one
	case setup.Secret:
		return huh.NewInput().Title(f.Title).Description(f.Help).EchoMode(huh.EchoModePassword).Value(&f.Value).Validate(check)
	}
	return huh.NewInput().Title(f.Title).Description(f.Help).Value(&f.Value).Validate(check)
}

func options(f *setup.Field) (os []huh.Option[string]) {
	for _, o := range f.Options {
		os = append(os, huh.NewOption(o.Label, o.Value))
	}
	return os
}

// Say prints lines that stay.
func (a *Asker) Say(s string) {
	_, _ = fmt.Fprintln(a.Out, text.Clean(s)) // nobody is left to hear of an error here
}

// Wait says what is being waited for while do runs. Ctrl-C ends it.
func (a *Asker) Wait(ctx context.Context, what string, do func(context.Context)) error {
	a.Say(what + " …")
	do(ctx)
	if ctx.Err() != nil {
		return setup.ErrAborted
	}
	return nil
}

// ending returns in, with over called once it has ended: a terminal that hangs
// up leaves nobody to ask.
func ending(in io.Reader, over func()) io.Reader {
	var once sync.Once
	read := func(b []byte) (int, error) {
		n, err := in.Read(b)
		if err != nil {
			once.Do(over)
		}
		return n, err //nolint:wrapcheck // it is the reader's
	}
	if f, ok := in.(*os.File); ok {
		return &terminal{File: f, read: read}
	}
	return reader(read)
}

// A terminal is a file of which the end is noticed.
type terminal struct {
	*os.File
	read func([]byte) (int, error)
}

func (t *terminal) Read(b []byte) (int, error) { return t.read(b) }

// A reader is a function that reads.
type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }
