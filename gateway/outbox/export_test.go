package outbox

// Remembered returns how many things b keeps in memory.
func (b *Throttle) Remembered() int { return len(b.rooms) + len(b.accounts) + len(b.sent) }
