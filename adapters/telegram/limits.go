package telegram

import "time"

// Limits of the platform, text in UTF-16 units.
const (
	textLimit    = 4096
	captionLimit = 1024
	buttonData   = 64
	downLimit    = 20 << 20 // getFile on the public server
	upLimit      = 50 << 20
	photoLimit   = 10 << 20
	menuLimit    = 100
)

// Timeouts and intervals.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second // getMe, getWebhookInfo
	pollMargin   = 5 * time.Second  // added to the poll timeout, after which the connection counts as dead
	nameWait     = time.Second      // between polls while group messages wait for the bot's name
	webhookCheck = time.Minute
)
