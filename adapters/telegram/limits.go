package telegram

import "time"

// What the platform carries, in its own units (UTF-16 units for text).
const (
	textLimit    = 4096
	captionLimit = 1024
	buttonData   = 64
	downLimit    = 20 << 20 // getFile on the public server
	upLimit      = 50 << 20
	photoLimit   = 10 << 20
	menuLimit    = 100
)

// How long things may take.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second // getMe, getWebhookInfo
	pollMargin   = 5 * time.Second  // beyond the poll timeout, before a poll counts as black-holed
	nameWait     = time.Second      // between polls while groups wait for the bot's name
	webhookCheck = time.Minute
)
