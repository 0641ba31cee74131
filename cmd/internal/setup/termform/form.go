// Package termform implements setup.Asker for a terminal.
package termform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"hermesd/cmd/internal/setup"
	"hermesd/cmd/internal/tui/text"
)

// An Asker asks in a terminal. It implements setup.Asker.
type Asker struct {
	In      io.Reader // *os.File for a real terminal
	Out     io.Writer
	Environ []string // for NO_COLOR and TERM
}

var _ setup.Asker = (*Asker)(nil)

// Ask shows a page until every field is answered. Its text remains visible, so that
// links can be opened. Ctrl-C, a hangup and the end of ctx result in
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
	keys := huh.NewDefaultKeyMap()
	keys.Select.Filter = key.NewBinding() // a filter that fits nothing shows an empty list, which Enter does not leave
	m := &page{form: huh.NewForm(huh.NewGroup(fields...)).WithTheme(huh.ThemeFunc(huh.ThemeBase16)).WithKeyMap(keys)}
	program := tea.NewProgram(m, tea.WithInput(notifyEOF(a.In, cancel)), tea.WithOutput(a.Out), tea.WithEnvironment(a.Environ), tea.WithoutSignalHandler(), tea.WithFilter(dropSizeRequest))
	// A program that is killed by its context leaves a reader behind that would consume
	// the keys of the next page.
	stop := context.AfterFunc(ctx, program.Quit)
	_, err := program.Run()
	stop()
	if m.height > 1 {
		_, _ = io.WriteString(a.Out, ansi.CursorUp(m.height-1)+"\r"+ansi.EraseScreenBelow) // over the lines that are blank now
	}
	switch {
	case ctx.Err() != nil, m.form.State == huh.StateAborted:
		return setup.ErrAborted
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// dropSizeRequest drops the form's request for the size of the terminal: the size is
// reported at the start and at each change, and the goroutine that answers the
// request reads the terminal even after the program has ended.
func dropSizeRequest(_ tea.Model, msg tea.Msg) tea.Msg {
	if msg == tea.RequestWindowSize() {
		return nil
	}
	return msg
}

// A page is a form that is blank after its end.
type page struct {
	form   *huh.Form
	height int // maximum number of lines shown
}

func (p *page) Init() tea.Cmd { return p.form.Init() }

func (p *page) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := p.form.Update(msg)
	if p.form.State != huh.StateNormal {
		return p, tea.Quit
	}
	return p, cmd
}

// View returns the form, or nothing after its end, with at least as many lines as
// before: with fewer lines the renderer does not move up, and old lines remain.
func (p *page) View() tea.View {
	s := p.form.View()
	have := lipgloss.Height(s)
	p.height = max(p.height, have)
	return tea.NewView(cmp.Or(s, " ") + strings.Repeat("\n", p.height-have))
}

// field converts a setup.Field to a field of the library.
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
			Height(len(f.Options) + 2) // the default height shows only one option
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

// Say prints text that remains visible.
func (a *Asker) Say(s string) {
	_, _ = fmt.Fprintln(a.Out, text.Clean(s)) // there is nowhere to report an error
}

// Wait prints what and runs do. It returns setup.ErrAborted if ctx ends.
func (a *Asker) Wait(ctx context.Context, what string, do func(context.Context)) error {
	a.Say(what + " …")
	do(ctx)
	if ctx.Err() != nil {
		return setup.ErrAborted
	}
	return nil
}

// notifyEOF returns in, and calls over once reading fails: after a hangup there is
// nobody to ask.
func notifyEOF(in io.Reader, over func()) io.Reader {
	var once sync.Once
	read := func(b []byte) (int, error) {
		n, err := in.Read(b)
		if err != nil {
			once.Do(over)
		}
		return n, err //nolint:wrapcheck // the error of the reader
	}
	if f, ok := in.(*os.File); ok {
		return &terminal{File: f, read: read}
	}
	return reader(read)
}

// A terminal is a file with a replaced Read method.
type terminal struct {
	*os.File
	read func([]byte) (int, error)
}

func (t *terminal) Read(b []byte) (int, error) { return t.read(b) }

// A reader is a function that implements io.Reader.
type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }
