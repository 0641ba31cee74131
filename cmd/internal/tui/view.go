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

// maxOffered is how many commands are offered at once.
const maxOffered = 6

// layout gives the parts of the screen their sizes.
func (m *model) layout() {
	bottom := m.scroll.AtBottom()
	m.input.SetWidth(m.width)
	m.scroll.SetWidth(m.width)
	m.scroll.SetHeight(max(1, m.height-m.input.Height()-len(m.offers())-2))
	if bottom {
		m.scroll.GotoBottom()
	}
	if m.hint != "" && m.now().Sub(m.hinted) > hintFor {
		m.hint = ""
	}
}

// offers are the lines that show which commands fit the input.
func (m *model) offers() []string {
	fit := fitting(m.hello.Commands, m.input.Value())
	if len(fit) == 1 && "/"+fit[0].Name == m.input.Value() && fit[0].Args == "" {
		return nil
	}
	most := max(0, min(maxOffered, m.height-m.input.Height()-4))
	var lines []string
	for i, c := range fit {
		if i == most {
			if most > 0 {
				lines[i-1] = fmt.Sprintf("  and %d more", len(fit)-most+1)
			}
			break
		}
		lines = append(lines, text.Cut(offer(c), m.width-2))
		lines[i] = "  " + lines[i]
	}
	return lines
}

func offer(c admin.Command) string {
	s := "/" + c.Name
	if c.Args != "" {
		s += " " + c.Args
	}
	return s + " – " + c.Help
}

// View draws the screen.
func (m *model) View() tea.View {
	if m.quitting {
		return tea.NewView("")
	}
	faint := lipgloss.NewStyle().Faint(true)
	parts := []string{m.scroll.View(), faint.Render(m.rule())}
	offers := m.offers()
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

// rule is the line between the conversation and the input.
func (m *model) rule() string {
	if m.scroll.AtBottom() {
		return strings.Repeat("─", m.width)
	}
	s := "── more below, Esc goes there "
	return ansi.Truncate(s+strings.Repeat("─", max(0, m.width-text.Width(s))), m.width, "")
}

var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// status is the last line: what goes on, or what can be done; and with whom.
func (m *model) status() string {
	left := "Enter sends · Alt+Enter new line · /help · Ctrl-D quits"
	switch {
	case m.broken != "":
		left = "✗ " + m.broken + ", trying again"
	case m.hint != "":
		left = m.hint
	case m.working():
		left = spinner[m.frame%len(spinner)] + " working" + m.since() + " · Ctrl-C stops it"
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

// since says how long the oldest open line has been open.
func (m *model) since() string {
	now := m.now()
	oldest := now
	for _, t := range m.open {
		if t.Before(oldest) {
			oldest = t
		}
	}
	if d := now.Sub(oldest); d.Seconds() >= 1 {
		return " " + text.Span(d)
	}
	return ""
}
