package llm

// HasCall reports whether the transcript has a call with this ID. Like Calls, it examines
// only the messages added since the last use.
func (t *Transcript) HasCall(id string) bool {
	t.indexCalls()
	_, ok := t.calls[id]
	return ok
}

// Calls returns the number of distinct call IDs in the transcript.
func (t *Transcript) Calls() int {
	t.indexCalls()
	return len(t.calls)
}

func (t *Transcript) indexCalls() {
	if t.calls == nil {
		t.calls = make(map[string]struct{})
	}
	for ; t.indexedMessages < len(t.messages); t.indexedMessages++ {
		for _, b := range t.messages[t.indexedMessages].Blocks {
			if b.Type == ToolUse {
				t.calls[b.ID] = struct{}{}
			}
		}
	}
}
