package llm

// Replace replaces all messages by ms, which it takes over, and discards all cached
// encodings. It is used by compactions.
func (t *Transcript) Replace(ms []Message) { *t = Transcript{messages: ms} }
