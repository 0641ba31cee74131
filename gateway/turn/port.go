// Package turn makes of waiting inbox entries one agent run and one commit.
package turn

import (
	"context"
	"encoding/json"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// A Store keeps what turns need. What a method reports as done is on disk; of
// writes that fail nothing has happened. Methods that write with a stale claim
// return inbox.ErrStale.
type Store interface {
	// Claim takes entries that wait in lane, in order and at most max (0: all).
	// Entries of a turn that was cut short come first and alone, with its steps.
	// A claim without a turn means that nothing waits.
	Claim(ctx context.Context, lane inbox.Lane, max int) (inbox.Claim, error)
	// Join takes what has come to wait in the claim's lane meanwhile into the
	// same turn, as far as it may be one input with it, and returns it; steering:
	// only what is meant to steer.
	Join(ctx context.Context, c inbox.Claim, steering bool) ([]inbox.Entry, error)
	// Waiting returns how many entries of lane wait unclaimed. It does not touch
	// the disk.
	Waiting(lane inbox.Lane) int
	// Release lets the claim's entries wait again, and keeps its steps. It is not
	// a crash.
	Release(ctx context.Context, c inbox.Claim) error
	// RecordStep keeps s with the claim's turn, and opens the session if open is
	// not nil and it is not open yet.
	RecordStep(ctx context.Context, c inbox.Claim, open *session.Creation, s inbox.Step) error
	// CommitTurn makes all of m true at once, or none, and ends the claim. What
	// contradicts the store it refuses for good with inbox.ErrRefused. It
	// returns the rows with their ids, those attempted already marked so.
	CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error)

	// Branch opens the session to as a copy of another one, up to and without its
	// active message rows (-1: all), and makes the conversation of to point to it.
	// It returns the record as it is stored.
	Branch(ctx context.Context, from session.ID, rows int, to session.Creation) (session.Record, error)
	// SuggestTitle names a session that no person has named, and reports whether it
	// did.
	SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error)
	// DeleteSession forgets all of a session, and returns session.ErrUnknown if
	// there is none, session.ErrBusy while a turn of its conversation is under way.
	DeleteSession(ctx context.Context, id session.ID) (session.Deleted, error)

	// Session returns the session to which key points; ok is false if there is
	// none yet.
	Session(ctx context.Context, key session.Key) (r session.Record, ok bool, err error)
	// SessionByID returns one record.
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	// Prompt returns the frozen prompt of a session.
	Prompt(ctx context.Context, id session.ID) (json.RawMessage, error)
	// Calls returns the records of a session's ledger from number from on, as far
	// as they are kept.
	Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	// Engine returns what the context engine of a session had kept, nil for
	// nothing.
	Engine(ctx context.Context, id session.ID) (json.RawMessage, error)
	// Transcript returns the rows of a session's active transcript from index
	// from on.
	Transcript(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	// Rows returns the rows with the numbers of span, active or archived.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
}
