package llm

// Replace puts ms, which it takes over, in the place of all messages. It is for
// a compaction: what was encoded of the messages before is forgotten.
func (t *Transcript) Replace(ms []Message) { *t = Transcript{messages: ms} }
