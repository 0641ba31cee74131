package conversation

import (
	"strings"

	"hermesd/agent/llm"
)

// Exchange returns the index of the n-th last user message, and the message; -1 if there
// are fewer.
func (c *Conversation) Exchange(n int) (at int, message llm.Message) {
	messages := c.Transcript.Since(0)
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != llm.User || !isUserMessage(m) {
			continue
		}
		if n--; n == 0 {
			return i, m
		}
	}
	return -1, llm.Message{}
}

// isUserMessage reports whether a message with the role llm.User was written by a
// user, and does not hold tool results.
func isUserMessage(m llm.Message) bool {
	for _, b := range m.Blocks {
		if b.Type == llm.ToolResult {
			return false
		}
	}
	return len(m.Blocks) > 0
}

// Quote returns the beginning of a user message for display, "" if it has no text.
func Quote(m llm.Message) string {
	for _, b := range m.Blocks {
		if b.Type != llm.Text {
			continue
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(b.Text, "`", "'")), " ")
		if r := []rune(text); len(r) > 80 {
			text = string(r[:80]) + "…"
		}
		return "`" + text + "`"
	}
	return ""
}
