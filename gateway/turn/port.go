// Package turn runs turns: it claims waiting inbox entries, runs the agent or the
// command for them, and commits the result in one transaction.
//
// A Runner runs one turn per call of Run. Several lanes run concurrently, with at
// most one turn per session. The package also handles turns that fail, are
// interrupted or have crashed the process. It does not check access, and it does not
// send messages: replies are rows of the outbox, which package delivery sends.
package turn

import (
	"context"
	"encoding/json"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// A Store stores the data of turns. When a method returns without an error its
// change is on disk; a failed write changes nothing. Methods that write with a stale
// claim return inbox.ErrStale.
type Store interface {
	// Claim claims entries that wait in lane, in order and at most max (0: all).
	// Entries of an interrupted turn come first and alone, with its steps. A claim
	// without a turn means that no entry waits.
	Claim(ctx context.Context, lane inbox.Lane, max int) (inbox.Claim, error)
	// Join adds to the claim the entries that have arrived in its lane since, as far
	// as they may be part of the same input, and returns them. If steering is set it
	// joins only entries with the mode inbox.Steer.
	Join(ctx context.Context, c inbox.Claim, steering bool) ([]inbox.Entry, error)
	// Waiting returns the number of unclaimed entries of lane. It does not access the
	// disk.
	Waiting(lane inbox.Lane) int
	// Release ends the claim: its entries wait again, and its steps are kept. It does
	// not count as a crash.
	Release(ctx context.Context, c inbox.Claim) error
	// RecordStep stores s with the claim's turn, and creates the session if open is
	// not nil and the session does not exist yet.
	RecordStep(ctx context.Context, c inbox.Claim, open *session.Creation, s inbox.Step) error
	// CommitTurn applies m in one transaction and ends the claim. It returns
	// inbox.ErrConflict if m contradicts the stored state. It returns the new
	// rows with their IDs and with the attempts that are already registered: those
	// that delete previews because of m.Cancel, then m.Rows.
	CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error)

	// Branch creates the session to as a copy of the session from with its first rows
	// active messages (-1: all), and makes it the current session of its key. It
	// returns the record as stored.
	Branch(ctx context.Context, from session.ID, rows int, to session.Creation) (session.Record, error)
	// SuggestTitle sets the title of a session that has none yet, and reports whether
	// it did.
	SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error)
	// DeleteSession deletes everything about a session. It returns
	// session.ErrNotFound if there is none, and session.ErrBusy while a turn of its
	// conversation runs.
	DeleteSession(ctx context.Context, id session.ID) (session.Deleted, error)

	// Session returns the current session of key; ok is false if there is none.
	Session(ctx context.Context, key session.Key) (r session.Record, ok bool, err error)
	// SessionByID returns one record; ok is false if there is none.
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	// Prompt returns the cached prompt of a session.
	Prompt(ctx context.Context, id session.ID) (json.RawMessage, error)
	// Calls returns the records of a session's ledger from number from on, as far as
	// they are still stored.
	Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	// Transcript returns the rows of a session's active transcript from index
	// from on.
	Transcript(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error)
	// Rows returns the rows with the numbers of span, active or archived.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
}
