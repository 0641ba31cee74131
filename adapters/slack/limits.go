package slack

import "time"

// Limits of the platform, text in UTF-16 units.
const (
	textLimit    = 40_000
	sectionLimit = 3000
	blocksLimit  = 12_000 // of all blocks of a message; Slack does not document the limit
	updateLimit  = 4000   // of the text of an edited message
	captionLimit = 4000
	buttonData   = 64
	buttonLabel  = 75
	rowLimit     = 25 // buttons in one row
	upLimit      = 1 << 30
	downLimit    = 1 << 30
)

// Timeouts and intervals.
const (
	editInterval = 3 * time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	lookTimeout  = 1500 * time.Millisecond // for name lookups, before an event is stored
	statusPace   = 25 * time.Second        // between two updates of the typing status
	urlLife      = 29 * time.Minute        // of the response URL of a slash command
	urlUses      = 5
)

// Limits of the backfill: some apps may fetch history only once a minute, with
// 15 messages per call.
const (
	healFirst       = 2500 * time.Millisecond // new events wait for this part, so that the order is kept
	backfillTimeout = 10 * time.Minute        // for the rest
	toldFor         = 24 * time.Hour          // how long Health reports what could not be backfilled
	healPause       = 10 * time.Second        // before a retry after a failure
	healDMs         = 200                     // direct chats that are listed
	// healStrangers is the number of direct chats without a conversation so far
	// that are backfilled, the newest first.
	healStrangers = 5
	healMargin    = 10 * time.Second
	healPages     = 3
	healPage      = 100
	healRecent    = 7 * 24 * time.Hour
)
