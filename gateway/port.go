// Package gateway accepts messages and leads each through its turn.
package gateway

import (
	"context"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// A Store keeps everything that must survive the process. What a method
// reports as done is on disk; of writes that fail nothing has happened, and
// the store stays usable. All methods may be called from any goroutine.
type Store interface {
	turn.Store
	delivery.Store
	schedule.Store

	// StartRuns accepts the entries of scheduled runs, each in one transaction with
	// the record of its slot.
	StartRuns(ctx context.Context, runs []inbox.ScheduledRun) ([]inbox.ScheduledRunResult, error)

	// Accept adds entries, in order and all at once. An entry whose In.Key was
	// accepted before (on the same platform and account) is reported as not
	// fresh. Entries offered as Done are kept for `why` only. An entry whose
	// In.Event is chat.Edit replaces the text and files of the entry that it
	// Amends if that still waits unclaimed, and is done at once: silent
	// "edit_applied", or "edit_too_late". An entry that asks for it is claimed in
	// the same write, if it is alone in its lane. The Notice of a fresh entry is
	// enqueued in that write, as by Enqueue.
	Accept(ctx context.Context, entries []inbox.Entry) ([]inbox.Acceptance, error)
	// Lanes returns the lanes that have entries which are not done, in the order
	// of their oldest entry.
	Lanes(ctx context.Context) ([]inbox.Lane, error)
	// MigrateChat makes what belongs to the chat at from belong to to: session keys by
	// rekey, waiting entries and outbox rows.
	MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error

	// Sessions returns the records of all sessions, newest first, at most max.
	Sessions(ctx context.Context, max int) ([]session.Record, error)
	// SessionByID returns one record.
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	// SetTitle names a session.
	SetTitle(ctx context.Context, id session.ID, title string) error

	// MessageHistory returns what is known of one message by our id ("m12", "o7"), by the
	// platform's message id or by its whole key.
	MessageHistory(ctx context.Context, id string) ([]inbox.MessageHistory, error)
	// Outbox returns the rows that are not sent; all: also the sent ones that are
	// still kept.
	Outbox(ctx context.Context, all bool) ([]outbox.Row, error)
	// RetryRow makes a row that is dead, uncertain or waiting due now.
	RetryRow(ctx context.Context, id outbox.ID) error
	// DropRow makes a row that is not sent dead.
	DropRow(ctx context.Context, id outbox.ID, why string) error

	// Value returns a small value kept under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	// SetValue keeps a small value under key.
	SetValue(ctx context.Context, key string, v []byte) error

	// Prune forgets what is older than its retention: processed keys after 72 h,
	// done entries and terminal rows after 7 days or over 100,000 in number.
	Prune(ctx context.Context, now time.Time) error
	// Stats returns counts for `status`.
	Stats() inbox.Stats
}
