package slack

import "time"

// What the platform carries, in its own units (UTF-16 units for text).
const (
	textLimit    = 40_000
	sectionLimit = 3000
	blocksLimit  = 12_000 // of all blocks of a message; Slack does not say where it ends
	updateLimit  = 4000   // of the text of a message that is changed
	captionLimit = 4000
	buttonData   = 64
	buttonLabel  = 75
	rowLimit     = 25 // buttons in one row
	upLimit      = 1 << 30
	downLimit    = 1 << 30
)

// How long things may take.
const (
	editInterval = 3 * time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second
	lookTimeout  = 1500 * time.Millisecond // names, before an event is stored
	statusPace   = 25 * time.Second        // between two calls that show that we write
	urlLife      = 29 * time.Minute        // of the address that comes with a slash command
	urlUses      = 5
)

// How histories are asked after time was lost: some apps may ask once a minute,
// and get 15 messages.
const (
	healFirst       = 2500 * time.Millisecond // for which live events wait, so that order is kept
	backfillTimeout = 10 * time.Minute        // for the rest
	toldFor         = 24 * time.Hour          // what could not be seen
	healPause       = 10 * time.Second        // before asking again after a failure
	healDMs         = 200                     // direct chats that are listed
	// healStrangers are direct chats in which we have not spoken yet, the newest
	// first.
	healStrangers = 5
	healMargin    = 10 * time.Second
	healPages     = 3
	healPage      = 100
	healRecent    = 7 * 24 * time.Hour
)
