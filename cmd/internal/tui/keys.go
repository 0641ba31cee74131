package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"hermesd/cmd/internal/admin"
)

func (m *model) handleKey(k tea.KeyPressMsg) tea.Cmd {
	var cmd tea.Cmd
	switch k.String() {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+d":
		if m.input.Value() == "" {
			return m.quit()
		}
	case "enter":
		return m.submit()
	case "tab":
		m.completeCommand()
		return nil
	case "up":
		if m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0 {
			if s, ok := m.history.previous(m.input.Value()); ok {
				m.setInput(s)
			}
			return nil
		}
	case "down":
		if m.input.Line() == m.input.LineCount()-1 && m.input.LineInfo().RowOffset+1 >= m.input.LineInfo().Height {
			if s, ok := m.history.next(); ok {
				m.setInput(s)
			}
			return nil
		}
	case "pgup":
		m.scroll.PageUp()
		return nil
	case "pgdown":
		m.scroll.PageDown()
		return nil
	case "ctrl+up":
		m.scroll.ScrollUp(1)
		return nil
	case "ctrl+down":
		m.scroll.ScrollDown(1)
		return nil
	case "esc", "ctrl+end":
		m.scroll.GotoBottom()
		return nil
	case "ctrl+l":
		return tea.ClearScreen
	case "ctrl+z":
		return tea.Suspend
	}
	m.input, cmd = m.input.Update(k)
	return cmd
}

// interrupt handles Ctrl-C. A second press within interruptTimeout quits. The first one
// stops the running turn or, if none runs, clears the input.
func (m *model) interrupt() tea.Cmd {
	now := m.now()
	if now.Sub(m.interruptedAt) < interruptTimeout {
		return m.quit()
	}
	m.interruptedAt = now
	if m.working() {
		m.showHint("Stopping. Ctrl-C again quits; what runs then goes on without you.")
		return m.queueLine("/stop")
	}
	if m.input.Value() != "" {
		m.setInput("")
		m.showHint("Cleared. Ctrl-C again quits.")
		return nil
	}
	m.showHint("Ctrl-C again quits, so does Ctrl-D.")
	return nil
}

func (m *model) quit() tea.Cmd {
	m.quitting = true
	return tea.Quit
}

func (m *model) submit() tea.Cmd {
	s := m.expand(m.input.Value())
	if strings.TrimSpace(s) == "" {
		return nil
	}
	if word := strings.TrimSpace(s); word == "/quit" || word == "/exit" {
		return m.quit()
	}
	m.setInput("")
	if err := m.history.add(s); err != nil {
		m.showHint(err.Error())
	}
	return m.queueLine(s)
}

func (m *model) setInput(s string) {
	m.input.Reset()
	m.pastes = nil
	m.insert(s)
}

// Larger pastes, and those whose tabs would be lost, are represented in the input by a
// name.
const (
	maxPasteLines = 20   // lines
	maxPasteBytes = 4000 // bytes
	pasteFormat   = "[pasted %d, lines: %d, characters: %d]"
)

func pasteName(i int, s string) string {
	return fmt.Sprintf(pasteFormat, i+1, strings.Count(s, "\n")+1, len([]rune(s)))
}

func (m *model) insert(s string) {
	if strings.Count(s, "\n") >= maxPasteLines || len(s) > maxPasteBytes || strings.Contains(s, "\t") {
		m.pastes = append(m.pastes, s)
		s = pasteName(len(m.pastes)-1, s)
	}
	m.input.InsertString(s)
}

// paste inserts pasted text unchanged, except for line ends.
func (m *model) paste(p tea.PasteMsg) tea.Cmd {
	m.insert(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(p.Content, "\uFFFD")))
	return nil
}

// expand replaces the names of long pastes by their text.
func (m *model) expand(s string) string {
	for i, p := range m.pastes {
		s = strings.Replace(s, pasteName(i, p), p, 1)
	}
	return s
}

func (m *model) completeCommand() {
	before := m.input.Value()
	after := complete(m.hello.Commands, before)
	if after != before {
		m.setInput(after)
		return
	}
	if strings.HasPrefix(before, "/") && len(matching(m.hello.Commands, before)) == 0 && !strings.Contains(before, " ") {
		m.showHint("No command begins so.")
	}
}

// matching returns the commands whose name or alias begins with the input. It
// returns none if the input is anything but the beginning of a command.
func matching(commands []admin.Command, input string) []admin.Command {
	word, ok := strings.CutPrefix(input, "/")
	if !ok || strings.ContainsAny(word, " \n\t/") {
		return nil
	}
	word = strings.ToLower(word)
	var fit []admin.Command
	for _, c := range commands {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if strings.HasPrefix(n, word) {
				fit = append(fit, c)
				break
			}
		}
	}
	return fit
}

// complete returns the input after Tab: the only matching command, or the common
// prefix of all matching ones.
func complete(commands []admin.Command, input string) string {
	fit := matching(commands, input)
	if len(fit) == 0 {
		return input
	}
	if len(fit) == 1 {
		return "/" + fit[0].Name + " "
	}
	common := fit[0].Name
	for _, c := range fit[1:] {
		for !strings.HasPrefix(c.Name, common) {
			common = common[:len(common)-1]
		}
	}
	if grown := "/" + common; len(grown) > len(input) && strings.HasPrefix(grown, strings.ToLower(input)) {
		return grown
	}
	return input
}
