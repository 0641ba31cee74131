package access

// RoomsOf returns in how many rooms c remembers messages of bots.
func RoomsOf(c *Checker) int { return len(c.bots) }
