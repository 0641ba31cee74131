package discord

import "time"

// What the platform carries; text counts in code points.
const (
	textLimit   = 2000
	buttonData  = 64
	buttonLabel = 80
	buttonRows  = 5
	rowButtons  = 5
	upLimit     = 100 << 20 // of the best boosted guild; Discord refuses less where less is allowed
	menuLimit   = 100
	menuHelp    = 100
	threadName  = 100
	nonceLength = 25
)

// What waits in memory for the sink, at most.
const (
	feedItems = 8192
	feedBytes = 32 << 20
)

// How long things may take.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	ackTimeout   = 2500 * time.Millisecond // of Discord's three seconds
	// tokenLife is how long an interaction can be answered, a little less than
	// Discord's quarter of an hour.
	tokenLife = 14*time.Minute + 30*time.Second
)
