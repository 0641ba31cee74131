package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
)

// maxSuggestions is the maximum number of commands that are offered at once.
const maxSuggestions = 6

// layout sets the sizes of the parts of the screen.
func (m *model) layout() {
	bottom := m.scroll.AtBottom()
	m.input.SetWidth(m.width)
	m.scroll.SetWidth(m.width)
	m.scroll.SetHeight(max(1, m.height-m.input.Height()-len(m.suggestions())-2))
	if bottom {
		m.scroll.GotoBottom()
	}
	if m.hint != "" && m.now().Sub(m.hintAt) > hintTimeout {
		m.hint = ""
	}
}

// suggestions returns the lines with the commands that match the input.
func (m *model) suggestions() []string {
	fit := matching(m.hello.Commands, m.input.Value())
	if len(fit) == 1 && "/"+fit[0].Name == m.input.Value() && fit[0].Args == "" {
		return nil
	}
	most := max(0, min(maxSuggestions, m.height-m.input.Height()-4))
	var lines []string
	for i, c := range fit {
		if i == most {
			if most > 0 {
				lines[i-1] = fmt.Sprintf("  and %d more", len(fit)-most+1)
			}
			break
		}
		lines = append(lines, text.Cut(suggestion(c), m.width-2))
		lines[i] = "  " + lines[i]
	}
	return lines
}

func suggestion(c admin.Command) string {
	s := "/" + c.Name
	if c.Args != "" {
		s += " " + c.Args
	}
	return s + " – " + c.Help
}

// View renders the screen.
func (m *model) View() tea.View {
	if m.quitting {
		return tea.NewView("")
	}
	faint := lipgloss.NewStyle().Faint(true)
	parts := []string{m.scroll.View(), faint.Render(m.rule())}
	offers := m.suggestions()
	for _, o := range offers {
		parts = append(parts, faint.Render(o))
	}
	parts = append(parts, m.input.View(), faint.Render(m.status()))
	v := tea.NewView(strings.Join(parts, "\n"))
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "hermesd"
	if c := m.input.Cursor(); c != nil {
		c.Y += m.scroll.Height() + 1 + len(offers)
		v.Cursor = c
	}
	return v
}

// rule returns the line between the conversation and the input.
func (m *model) rule() string {
	if m.scroll.AtBottom() {
		return strings.Repeat("─", m.width)
	}
	s := "── more below, Esc goes there "
	return ansi.Truncate(s+strings.Repeat("─", max(0, m.width-text.Width(s))), m.width, "")
}

var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// status returns the last line: the current activity or a hint on keys, and the
// model.
func (m *model) status() string {
	left := "Enter sends · Alt+Enter new line · /help · Ctrl-D quits"
	switch {
	case m.broken != "":
		left = "✗ " + m.broken + ", trying again"
	case m.hint != "":
		left = m.hint
	case m.working():
		left = spinner[m.frame%len(spinner)] + " working" + m.elapsed() + " · Ctrl-C stops it"
	case m.last != "":
		left = m.last
	}
	right := text.Line(m.hello.Model)
	left = text.Cut(left, m.width)
	if gap := m.width - text.Width(left) - text.Width(right); gap >= 2 && right != "" {
		return left + strings.Repeat(" ", gap) + right
	}
	return left
}

// elapsed returns the time since the oldest line without an outcome was sent.
func (m *model) elapsed() string {
	now := m.now()
	oldest := now
	for _, t := range m.openLines {
		if t.Before(oldest) {
			oldest = t
		}
	}
	if d := now.Sub(oldest); d.Seconds() >= 1 {
		return " " + text.Span(d)
	}
	return ""
}
