package outbox

// Remembered returns the number of entries in t.
func (t *Throttle) Remembered() int { return len(t.chats) + len(t.accounts) + len(t.sent) }
