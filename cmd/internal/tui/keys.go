package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// key takes one press of a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	var cmd tea.Cmd
	switch k.String() {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+d":
		if m.input.Value() == "" {
			return m.quit()
		}
	case "enter":
		return m.enter()
	case "tab":
		m.tab()
		return nil
	case "up":
		if m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0 {
			if s, ok := m.hist.back(m.input.Value()); ok {
				m.put(s)
			}
			return nil
		}
	case "down":
		if m.input.Line() == m.input.LineCount()-1 && m.input.LineInfo().RowOffset+1 >= m.input.LineInfo().Height {
			if s, ok := m.hist.forth(); ok {
				m.put(s)
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

// interrupt stops the turn that runs; else it clears the input; else, the
// second time within a moment, it quits.
func (m *model) interrupt() tea.Cmd {
	now := m.now()
	if now.Sub(m.armed) < armedFor {
		return m.quit()
	}
	m.armed = now
	if m.working() {
		m.say("Stopping. Ctrl-C again quits; what runs then goes on without you.")
		return m.send("/stop")
	}
	if m.input.Value() != "" {
		m.put("")
		m.say("Cleared. Ctrl-C again quits.")
		return nil
	}
	m.say("Ctrl-C again quits, so does Ctrl-D.")
	return nil
}

func (m *model) quit() tea.Cmd {
	m.quitting = true
	return tea.Quit
}

// enter says what stands in the input.
func (m *model) enter() tea.Cmd {
	s := m.expand(m.input.Value())
	if strings.TrimSpace(s) == "" {
		return nil
	}
	if word := strings.TrimSpace(s); word == "/quit" || word == "/exit" {
		return m.quit()
	}
	m.put("")
	if err := m.hist.add(s); err != nil {
		m.say(err.Error())
	}
	return m.send(s)
}

// put makes the input say s.
func (m *model) put(s string) {
	m.input.Reset()
	m.pastes = nil
	m.insert(s)
}

// Pastes of more than this, and those whose tabs would be lost, stand in the
// input by a name.
const (
	longPaste   = 20   // lines
	bigPaste    = 4000 // bytes
	pasteFormat = "[pasted %d: %d lines, %d characters]"
)

func pasteName(i int, s string) string {
	return fmt.Sprintf(pasteFormat, i+1, strings.Count(s, "\n")+1, len([]rune(s)))
}

func (m *model) insert(s string) {
	if strings.Count(s, "\n") >= longPaste || len(s) > bigPaste || strings.Contains(s, "\t") {
		m.pastes = append(m.pastes, s)
		s = pasteName(len(m.pastes)-1, s)
	}
	m.input.InsertString(s)
}

// paste takes what the terminal pastes as it is.
func (m *model) paste(p tea.PasteMsg) tea.Cmd {
	m.insert(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(p.Content, "\uFFFD")))
	return nil
}

// expand puts long pastes back in the place of their names.
func (m *model) expand(s string) string {
	for i, p := range m.pastes {
		s = strings.Replace(s, pasteName(i, p), p, 1)
	}
	return s
}

// tab completes a command.
func (m *model) tab() {
	before := m.input.Value()
	after := complete(m.hello.Commands, before)
	if after != before {
		m.put(after)
		return
	}
	if strings.HasPrefix(before, "/") && len(fitting(m.hello.Commands, before)) == 0 && !strings.Contains(before, " ") {
		m.say("No command begins so.")
	}
}
