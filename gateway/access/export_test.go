package access

// RoomsOf returns the number of chats for which c counts messages of bots.
func RoomsOf(c *Checker) int { return len(c.bots) }
