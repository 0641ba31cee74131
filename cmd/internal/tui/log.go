package tui

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
)

type kind int

const (
	fromUser          kind = iota
	fromOtherTerminal      // the same user at another terminal
	fromAgent              // from the daemon
	fromProgram            // from this program
)

type entry struct {
	kind     kind
	id       string
	text     chat.RichText
	problem  string // why it was rejected
	rendered string // rendered for width; "" if outdated
	width    int
}

// add appends e unless it is already there.
func (m *model) add(e *entry) {
	if m.find(e.id) >= 0 {
		return
	}
	m.entries = append(m.entries, e)
	m.entries = m.entries[max(0, len(m.entries)-maxEntries):]
	m.refresh()
}

// addNotice appends a text of this program.
func (m *model) addNotice(s string) {
	if s = strings.TrimSpace(s); s != "" {
		m.add(&entry{kind: fromProgram, text: chat.PlainText(s)})
	}
}

// setText sets the text of a message and appends the message if it is missing.
func (m *model) setText(id string, t chat.RichText) {
	i := m.find(id)
	if i < 0 {
		m.add(&entry{kind: fromAgent, id: id, text: t})
		return
	}
	m.entries[i].text, m.entries[i].rendered = t, ""
	m.refresh()
}

func (m *model) remove(id string) {
	if i := m.find(id); i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
		m.refresh()
	}
}

// refresh renders changed entries, and keeps the scroll position at the end if it
// was there.
func (m *model) refresh() {
	m.layout()
	bottom := m.scroll.AtBottom()
	parts := make([]string, len(m.entries))
	for i, e := range m.entries {
		if e.rendered == "" || e.width != m.width {
			e.rendered, e.width = m.draw(e), m.width
		}
		parts[i] = e.rendered
	}
	m.scroll.SetContent(strings.Join(parts, "\n\n"))
	if bottom {
		m.scroll.GotoBottom()
	}
}

func (m *model) draw(e *entry) string {
	faint := lipgloss.NewStyle().Faint(true)
	body := text.Render(e.text, m.colorMode, m.width-2)
	switch e.kind {
	case fromUser, fromOtherTerminal:
		mark := "› "
		if e.kind == fromOtherTerminal {
			mark = "» "
		}
		body = indent(mark, lipgloss.NewStyle().Bold(true), body)
		if e.problem != "" {
			body += "\n" + indent("✗ ", lipgloss.NewStyle(), text.Render(chat.PlainText("not taken: "+e.problem), m.colorMode, m.width-2))
		}
	case fromAgent:
		body = indent("  ", lipgloss.NewStyle(), body)
	case fromProgram:
		body = faint.Render(indent("· ", lipgloss.NewStyle(), body))
	}
	return body
}

// indent puts mark before the first line and indents the others.
func indent(mark string, st lipgloss.Style, body string) string {
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
