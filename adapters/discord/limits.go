package discord

import "time"

// Limits of the platform; text counts in code points.
const (
	textLimit   = 2000
	buttonData  = 64
	buttonLabel = 80
	buttonRows  = 5
	rowButtons  = 5
	upLimit     = 100 << 20 // of guilds with the highest boost level; Discord rejects less where the limit is lower
	menuLimit   = 100
	menuHelp    = 100
	threadName  = 100
	nonceLength = 25
)

// Limits of the queue in memory.
const (
	feedItems = 8192
	feedBytes = 32 << 20
)

// Timeouts and intervals.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	ackTimeout   = 2500 * time.Millisecond // Discord allows three seconds
	// tokenLife is how long an interaction can be answered, slightly less than
	// Discord's 15 minutes.
	tokenLife = 14*time.Minute + 30*time.Second
)
