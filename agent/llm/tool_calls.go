package llm

// HasCall reports whether a call with this id stands in the transcript, and
// Calls how many ids do. Both cost what is new since they were last asked.
func (t *Transcript) HasCall(id string) bool {
	t.indexCalls()
	_, ok := t.calls[id]
	return ok
}

// Calls returns the number of different ids of calls in the transcript.
func (t *Transcript) Calls() int {
	t.indexCalls()
	return len(t.calls)
}

func (t *Transcript) indexCalls() {
	if t.calls == nil {
		t.calls = make(map[string]struct{})
	}
	for ; t.indexed < len(t.messages); t.indexed++ {
		for _, b := range t.messages[t.indexed].Blocks {
			if b.Type == ToolUse {
				t.calls[b.ID] = struct{}{}
			}
		}
	}
}
