// Package tui runs a conversation in a terminal: on the full screen ([Run]), line by
// line in a pipe ([Lines]), or as a single question ([Once]).
//
// All three use a [Chat], which is attached again whenever it breaks. A line is sent
// under the same ID until it is known to be accepted, so it is accepted once.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
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

const (
	frameInterval    = 120 * time.Millisecond
	typingTimeout    = 6 * time.Second
	interruptTimeout = 2 * time.Second // time between two presses that quit
	hintTimeout      = 4 * time.Second
	maxInput         = 8 // rows
	maxEntries       = 2000
)

// Messages of a model besides those of the terminal.
type (
	tick        time.Time
	linkMessage struct{ msg any }
	lineSent    struct {
		id  string
		err error
	}
)

// A model is the state of the screen. It belongs to the goroutine of the program.
type model struct {
	ctx       context.Context // of the conversation; ends background commands
	l         *link
	history   *history
	colorMode text.ColorMode
	now       func() time.Time

	width, height int
	input         textarea.Model
	scroll        viewport.Model

	hello         admin.Hello
	broken        string // why the link is broken; "" if it is not
	entries       []*entry
	queue         []line               // unsent lines; the first is being sent
	openLines     map[string]time.Time // lines without an outcome
	pastes        []string             // long pastes, represented in the input by names
	typingAt      time.Time
	interruptedAt time.Time
	hint          string
	hintAt        time.Time
	last          string // usage of the last turn
	ticking       bool
	frame         int
	quitting      bool
}

func newModel(ctx context.Context, l *link, hist *history, look text.ColorMode) *model {
	m := &model{ctx: ctx, l: l, history: hist, colorMode: look, now: time.Now, openLines: make(map[string]time.Time), width: 80, height: 24}
	in := textarea.New()
	in.ShowLineNumbers = false
	in.CharLimit = 0
	in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxContentHeight = true, 1, maxInput, 9000
	in.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "› "
		}
		return "  "
	})
	in.KeyMap.InsertNewline.SetKeys("alt+enter", "ctrl+j", "shift+enter")
	in.Placeholder = "Write a message, or / for commands"
	st := textarea.DefaultDarkStyles()
	st.Focused.CursorLine, st.Focused.Text, st.Focused.Prompt = lipgloss.NewStyle(), lipgloss.NewStyle(), lipgloss.NewStyle().Bold(true)
	in.SetStyles(st)
	in.SetVirtualCursor(false)
	in.Focus()
	m.input = in
	m.scroll = viewport.New()
	m.layout()
	return m
}

// Init waits for the first message of the link.
func (m *model) Init() tea.Cmd { return m.listen }

// listen waits for the next message of the link.
func (m *model) listen() tea.Msg {
	select {
	case msg := <-m.l.out:
		return linkMessage{msg}
	case <-m.ctx.Done():
		return tea.Quit()
	}
}

// Update handles one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 10), max(msg.Height, 5)
		m.refresh()
	case tea.KeyPressMsg:
		cmd = m.handleKey(msg)
	case tea.PasteMsg:
		cmd = m.paste(msg)
	case tea.MouseWheelMsg:
		m.scroll, cmd = m.scroll.Update(msg)
	case linkMessage:
		m.handleLinkMessage(msg.msg)
		cmd = m.listen
	case lineSent:
		cmd = m.handleSent(msg)
	case tick:
		m.frame++
		m.ticking = false
	default:
		m.input, cmd = m.input.Update(msg)
	}
	m.layout()
	return m, tea.Batch(cmd, m.animate())
}

// animate schedules the next frame while something on the screen moves.
func (m *model) animate() tea.Cmd {
	if m.ticking || !m.working() && m.hint == "" || m.quitting {
		return nil
	}
	m.ticking = true
	return tea.Tick(frameInterval, func(t time.Time) tea.Msg { return tick(t) })
}

// working reports whether an answer is expected.
func (m *model) working() bool {
	return len(m.openLines) > 0 || m.now().Sub(m.typingAt) < typingTimeout
}

func (m *model) handleLinkMessage(msg any) {
	switch msg := msg.(type) {
	case connected:
		if m.broken != "" {
			m.showHint("The daemon is back.")
		}
		m.hello, m.broken = msg.hello, ""
	case disconnected:
		m.broken = text.Cut(msg.err.Error(), 120)
	case fromDaemon:
		if msg.Outcome != nil {
			m.handleOutcome(msg.Outcome)
		}
		if msg.Event != nil {
			m.handleEvent(*msg.Event)
		}
	}
}

func (m *model) handleEvent(ev console.Event) {
	switch ev.Kind {
	case console.Typing:
		m.typingAt = m.now()
	case console.OtherTerminal:
		m.add(&entry{kind: fromOtherTerminal, id: ev.ID, text: ev.Text})
	case console.Delete:
		m.remove(ev.ID)
	case console.Message, console.Edit:
		t := ev.Text
		if ev.File != nil {
			t.Text = fmt.Sprintf("%s\n[%s: %s]", t.Text, ev.File.Kind, ev.File.Path)
		}
		m.setText(ev.ID, t)
	}
}

func (m *model) handleOutcome(o *admin.Outcome) {
	delete(m.openLines, o.ID)
	if len(m.openLines) == 0 {
		m.typingAt = time.Time{}
	}
	switch o.Result {
	case inbox.Cancelled:
		m.addNotice("stopped")
	case inbox.Failed:
		if len(o.Text) == 0 {
			m.addNotice("no answer: " + o.Reason)
		}
	case inbox.Replied, inbox.Silent:
	}
	if n := len(o.Trace.Calls); n > 0 {
		in, cached, out := 0, 0, 0
		for _, c := range o.Trace.Calls {
			in, cached, out = in+c.Usage.Prompt(), cached+c.Usage.CacheRead, out+c.Usage.Output
		}
		m.last = fmt.Sprintf("%s, %d tokens in (%d cached), %d out", o.Trace.Took.Round(100*time.Millisecond), in, cached, out)
	}
}

func (m *model) queueLine(s string) tea.Cmd {
	ln := line{console.NewID(), s}
	m.add(&entry{kind: fromUser, id: ln.id, text: chat.PlainText(s)})
	m.openLines[ln.id] = m.now()
	m.scroll.GotoBottom()
	m.queue = append(m.queue, ln)
	if len(m.queue) > 1 {
		return nil // one at a time, to preserve the order
	}
	return m.sendNext
}

// sendNext sends the first line of the queue.
func (m *model) sendNext() tea.Msg {
	ln := m.queue[0]
	return lineSent{ln.id, m.l.send(m.ctx, ln)}
}

// handleSent handles the result of a line and sends the next one.
func (m *model) handleSent(s lineSent) tea.Cmd {
	m.queue = m.queue[1:]
	if refused, ok := errors.AsType[*admin.Error](s.err); ok {
		delete(m.openLines, s.id)
		if i := m.find(s.id); i >= 0 {
			m.entries[i].problem = refused.Text
			m.entries[i].rendered = ""
			m.refresh()
		}
	}
	if len(m.queue) == 0 || m.ctx.Err() != nil {
		return nil
	}
	return m.sendNext
}

func (m *model) showHint(hint string) { m.hint, m.hintAt = hint, m.now() }

func (m *model) find(id string) int {
	return slices.IndexFunc(m.entries, func(e *entry) bool { return e.id == id && id != "" })
}
