package agent

import "hermesd/agent/llm"

// DefaultNote is the assistant message that Close appends if the caller gives
// no reason.
const DefaultNote = "[Interrupted.]"

// Close ends a transcript that was cut short so that the user's next message
// can follow: calls without a result get one, and if the last message is the
// user's, an assistant message with the text reason is appended ("" is
// DefaultNote). A transcript that is empty or ends with an assistant message
// without open calls is not changed.
func Close(t *llm.Transcript, reason string) {
	if t.Len() == 0 {
		return
	}
	if reason == "" {
		reason = DefaultNote
	}
	last := t.At(t.Len() - 1)
	if calls := last.ToolUses(); last.Role == llm.Assistant && len(calls) > 0 {
		m := llm.Message{Role: llm.User}
		for _, c := range calls {
			m.Blocks = append(m.Blocks, toolFailure(c.ID, textInterrupted))
		}
		t.Append(m)
		last = m
	}
	if last.Role == llm.User {
		t.Append(llm.AssistantText(reason))
	}
}
