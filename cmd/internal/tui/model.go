package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

const (
	frame       = 120 * time.Millisecond
	typingHolds = 6 * time.Second
	armedFor    = 2 * time.Second // between the two presses that quit
	hintFor     = 4 * time.Second
	maxInput    = 8 // rows
	maxEntries  = 2000
)

// What a model is told besides keys.
type (
	tick     time.Time
	heard    struct{ msg any }
	lineSent struct {
		id  string
		err error
	}
)

// A model is the state of the screen.
type model struct {
	ctx  context.Context // of the conversation; bounds what runs beside the screen
	l    *link
	hist *history
	look text.ColorMode
	now  func() time.Time

	width, height int
	input         textarea.Model
	scroll        viewport.Model

	hello    admin.Hello
	broken   string // why the link is broken
	entries  []*entry
	queue    []line               // not said yet; the first is under way
	open     map[string]time.Time // lines without an outcome
	pastes   []string             // long pastes that stand in the input by a name
	typed    time.Time
	armed    time.Time
	hint     string
	hinted   time.Time
	last     string // what the last turn cost
	ticking  bool
	frame    int
	quitting bool
}

func newModel(ctx context.Context, l *link, hist *history, look text.ColorMode) *model {
	m := &model{ctx: ctx, l: l, hist: hist, look: look, now: time.Now, open: make(map[string]time.Time), width: 80, height: 24}
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

// Init waits for the first word of the daemon.
func (m *model) Init() tea.Cmd { return m.listen }

// listen waits for what the link tells next.
func (m *model) listen() tea.Msg {
	select {
	case msg := <-m.l.out:
		return heard{msg}
	case <-m.ctx.Done():
		return tea.Quit()
	}
}

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 10), max(msg.Height, 5)
		m.refresh()
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		cmd = m.paste(msg)
	case tea.MouseWheelMsg:
		m.scroll, cmd = m.scroll.Update(msg)
	case heard:
		m.hear(msg.msg)
		cmd = m.listen
	case lineSent:
		cmd = m.taken(msg)
	case tick:
		m.frame++
		m.ticking = false
	default:
		m.input, cmd = m.input.Update(msg)
	}
	m.layout()
	return m, tea.Batch(cmd, m.animate())
}

// animate keeps the screen moving for as long as something on it does.
func (m *model) animate() tea.Cmd {
	if m.ticking || !m.working() && m.hint == "" || m.quitting {
		return nil
	}
	m.ticking = true
	return tea.Tick(frame, func(t time.Time) tea.Msg { return tick(t) })
}

// working reports whether an answer is on its way.
func (m *model) working() bool { return len(m.open) > 0 || m.now().Sub(m.typed) < typingHolds }

// hear takes what the link tells.
func (m *model) hear(msg any) {
	switch msg := msg.(type) {
	case connected:
		if m.broken != "" {
			m.say("The daemon is back.")
		}
		m.hello, m.broken = msg.hello, ""
	case disconnected:
		m.broken = reason(msg.err)
	case fromDaemon:
		if msg.Outcome != nil {
			m.ended(msg.Outcome)
		}
		if msg.Event != nil {
			m.event(*msg.Event)
		}
	}
}

func (m *model) event(ev console.Event) {
	switch ev.Kind {
	case console.Typing:
		m.typed = m.now()
	case console.OtherTerminal:
		m.add(&entry{kind: elsewhere, id: ev.ID, text: ev.Text})
	case console.Delete:
		m.remove(ev.ID)
	case console.Message, console.Edit:
		t := ev.Text
		if ev.File != nil {
			t.Text = fmt.Sprintf("%s\n[%s: %s]", t.Text, ev.File.Kind, ev.File.Path)
		}
		m.show(ev.ID, t)
	}
}

// ended takes the outcome of a line.
func (m *model) ended(o *admin.Outcome) {
	delete(m.open, o.ID)
	if len(m.open) == 0 {
		m.typed = time.Time{}
	}
	switch o.Result {
	case inbox.Cancelled:
		m.note("stopped")
	case inbox.Failed:
		if len(o.Text) == 0 {
			m.note("no answer: " + o.Reason)
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

// send puts s into the queue of what is to be said.
func (m *model) send(s string) tea.Cmd {
	ln := line{console.NewID(), s}
	m.add(&entry{kind: mine, id: ln.id, text: chat.PlainText(s)})
	m.open[ln.id] = m.now()
	m.scroll.GotoBottom()
	m.queue = append(m.queue, ln)
	if len(m.queue) > 1 {
		return nil // one after the other, or they could change places
	}
	return m.utter
}

// utter says the first line of the queue.
func (m *model) utter() tea.Msg {
	ln := m.queue[0]
	return lineSent{ln.id, m.l.say(m.ctx, ln)}
}

// taken goes on to the next line.
func (m *model) taken(s lineSent) tea.Cmd {
	m.queue = m.queue[1:]
	var refused *admin.Error
	if errors.As(s.err, &refused) {
		delete(m.open, s.id)
		if i := m.find(s.id); i >= 0 {
			m.entries[i].problem = refused.Text
			m.entries[i].drawn = ""
			m.refresh()
		}
	}
	if len(m.queue) == 0 || m.ctx.Err() != nil {
		return nil
	}
	return m.utter
}

// say shows a hint for a while.
func (m *model) say(hint string) { m.hint, m.hinted = hint, m.now() }

func (m *model) find(id string) int {
	return slices.IndexFunc(m.entries, func(e *entry) bool { return e.id == id && id != "" })
}
