package tui

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

// A kind says who speaks in an entry.
type kind int

const (
	mine      kind = iota
	elsewhere      // the same person at another terminal
	theirs         // the daemon
	aside          // this program
)

// An entry is one message on the screen.
type entry struct {
	kind    kind
	id      string
	text    chat.RichText
	problem string // why it was not taken
	drawn   string // for width; "" if it must be drawn
	width   int
}

// add puts e at the end.
func (m *model) add(e *entry) {
	if m.find(e.id) >= 0 {
		return
	}
	m.entries = append(m.entries, e)
	m.entries = m.entries[max(0, len(m.entries)-maxEntries):]
	m.refresh()
}

// note puts in what this program itself says.
func (m *model) note(s string) {
	if s = strings.TrimSpace(s); s != "" {
		m.add(&entry{kind: aside, text: chat.PlainText(s)})
	}
}

// show gives the message id the text t; it is put in if it is not there.
func (m *model) show(id string, t chat.RichText) {
	i := m.find(id)
	if i < 0 {
		m.add(&entry{kind: theirs, id: id, text: t})
		return
	}
	m.entries[i].text, m.entries[i].drawn = t, ""
	m.refresh()
}

func (m *model) remove(id string) {
	if i := m.find(id); i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
		m.refresh()
	}
}

// refresh draws what has changed, and stays at the end if it was there.
func (m *model) refresh() {
	m.layout()
	bottom := m.scroll.AtBottom()
	parts := make([]string, len(m.entries))
	for i, e := range m.entries {
		if e.drawn == "" || e.width != m.width {
			e.drawn, e.width = m.draw(e), m.width
		}
		parts[i] = e.drawn
	}
	m.scroll.SetContent(strings.Join(parts, "\n\n"))
	if bottom {
		m.scroll.GotoBottom()
	}
}

func (m *model) draw(e *entry) string {
	faint := lipgloss.NewStyle().Faint(true)
	body := text.Render(e.text, m.look, m.width-2)
	switch e.kind {
	case mine, elsewhere:
		mark := "› "
		if e.kind == elsewhere {
			mark = "» "
		}
		body = hang(mark, lipgloss.NewStyle().Bold(true), body)
		if e.problem != "" {
			body += "\n" + hang("✗ ", lipgloss.NewStyle(), text.Render(chat.PlainText("not taken: "+e.problem), m.look, m.width-2))
		}
	case theirs:
		body = hang("  ", lipgloss.NewStyle(), body)
	case aside:
		body = faint.Render(hang("· ", lipgloss.NewStyle(), body))
	}
	return body
}

// hang puts mark ahead of the first line, and as much space ahead of the others.
func hang(mark string, st lipgloss.Style, body string) string {
	lines := strings.Split(body, "\n")
	for i, l := range lines {
		if i == 0 {
			lines[i] = st.Render(mark) + l
		} else {
			lines[i] = strings.Repeat(" ", text.Width(mark)) + l
		}
	}
	return strings.Join(lines, "\n")
}
