package agent

import "hermesd/agent/llm"

// DefaultNote is what Close says where it is not told why.
const DefaultNote = "[Interrupted.]"

// Close ends a transcript that was cut short so that the user's next message
// can follow: calls without a result get one, and if the user spoke last, the
// assistant says why ("" is DefaultNote). A transcript that ends with the
// assistant's words, or is empty, is left as it is.
func Close(t *llm.Transcript, why string) {
	if t.Len() == 0 {
		return
	}
	if why == "" {
		why = DefaultNote
	}
	last := t.At(t.Len() - 1)
	if calls := last.ToolUses(); last.Role == llm.Assistant && len(calls) > 0 {
		m := llm.Message{Role: llm.User}
		for _, c := range calls {
			m.Blocks = append(m.Blocks, failure(c.ID, textInterrupted))
		}
		t.Append(m)
		last = m
	}
	if last.Role == llm.User {
		t.Append(llm.AssistantText(why))
	}
}
