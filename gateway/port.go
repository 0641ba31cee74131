// Package gateway admits messages: it checks who sent an event, decides what it is and
// what it does to a running turn, stores it under its session key and wakes what works on
// it. The main type is Gateway. Turns, delivery, scheduling and storage are implemented in
// other packages; package pipeline connects them.
package gateway

import (
	"context"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/compaction"
	"hermesd/gateway/cron"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/turn"
)

// A Store holds everything that must survive the process. When a method returns
// without an error its change is on disk; a failed write changes nothing and the
// store stays usable. All methods may be called from any goroutine.
type Store interface {
	turn.Store
	compaction.Store
	delivery.Store
	cron.Store
	store.Values

	// Accept adds entries, in order, in one write with what their admissions hold. An
	// entry whose idempotency key was accepted before (on the same platform and
	// account) is reported as not new. Entries whose state is Done are stored for `why`
	// only. A chat.Edit replaces the text and files of the entry that it edits if that
	// entry is waiting and unclaimed, and is done at once: silent "edit_applied", or
	// "edit_too_late". Notices are enqueued as by Enqueue.
	Accept(ctx context.Context, admissions []inbox.Admission) ([]inbox.Acceptance, error)
	// Lanes returns the lanes with entries that are not done, ordered by their oldest
	// entry.
	Lanes(ctx context.Context) ([]inbox.Lane, error)
	// Interrupted returns, for each lane whose next turn was running when a process died,
	// the first entry of that turn, ordered by ID. Turns that run are not among them.
	Interrupted(ctx context.Context) ([]inbox.Entry, error)
	// MigrateChat moves everything of the chat from to the chat to: sessions, whose new
	// key rekey returns, waiting entries and outbox rows.
	MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error

	// Sessions returns the records of all sessions, newest first, at most max.
	Sessions(ctx context.Context, max int) ([]session.Record, error)
	// SessionByID returns one record; ok is false if there is none.
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	// SetTitle sets the title of a session.
	SetTitle(ctx context.Context, id session.ID, title string) error

	// MessageHistory returns the histories of the messages that id names: an entry or
	// row ID ("m12", "o7"), the platform's message ID or the whole idempotency key.
	MessageHistory(ctx context.Context, id string) ([]inbox.MessageHistory, error)
	// Outbox returns the rows that are not sent; with all, also the sent rows that are
	// still stored.
	Outbox(ctx context.Context, all bool) ([]outbox.Row, error)
	// RetryRow makes a dead, uncertain or waiting row due now.
	RetryRow(ctx context.Context, id outbox.ID) error
	// DropRow marks a row that is not sent as dead.
	DropRow(ctx context.Context, id outbox.ID, why string) error

	// Prune deletes what is past its retention: processed keys after 72 h, done entries
	// and terminal rows after 7 days or if there are more than 100,000.
	Prune(ctx context.Context, now time.Time) error
	// Stats returns counts for `status`.
	Stats() inbox.Stats
}
