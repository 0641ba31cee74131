// Package store defines the ports of the store, one for each kind of reader, and what
// their methods take and return. storage/bolt implements all of them in one type, so the
// names of their methods differ; storage/storagetest is the suite that a store must pass.
//
// When a method returns without an error its change is on disk; after an error nothing
// has changed, and the store stays usable. All methods may be called from any goroutine.
package store

import (
	"context"
	"encoding/json"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// A Store is everything that a store does: the ports by reader, and Upkeep.
type Store interface {
	Inbox
	Turns
	Sessions
	Editor
	Outbox
	Audit
	Jobs
	Values
	Events
	Upkeep
}

// Inbox accepts entries; the gateway and the scheduler use it.
type Inbox interface {
	// Accept adds entries, in order, in one write with what their admissions hold. An
	// entry whose idempotency key was accepted before (on the same platform and
	// account) is reported as not new. Entries whose state is Done are stored for `why`
	// only. A chat.Edit replaces the text and files of the entry that it edits if that
	// entry is waiting and unclaimed, and is done at once: silent "edit_applied", or
	// "edit_too_late". Notices are enqueued as by Enqueue.
	Accept(ctx context.Context, admissions []Admission) ([]Acceptance, error)
	// StartRuns accepts the entries of scheduled runs, each in one transaction with
	// the record of its occurrence, all of them in one write. An entry is accepted only
	// if its occurrence has no record yet (or one in state missed) and its job is
	// unchanged since the run was prepared, so that an occurrence runs at most once.
	// When an entry ends, its occurrence ends with it.
	StartRuns(ctx context.Context, runs []ScheduledRun) ([]ScheduledRunResult, error)
	// Waiting returns the number of unclaimed entries of lane. It does not access the
	// disk.
	Waiting(lane inbox.Lane) int
	// Lanes returns the lanes with entries that are not done, ordered by their oldest
	// entry.
	Lanes(ctx context.Context) ([]inbox.Lane, error)
	// Interrupted returns, for each lane whose next turn was running when a process died,
	// the first entry of that turn, ordered by ID. Turns that run are not among them.
	Interrupted(ctx context.Context) ([]inbox.Entry, error)
	// MigrateChat moves everything of the chat from to the chat to: sessions, whose new
	// key rekey returns, waiting entries and outbox rows.
	MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error
}

// Turns stores what turns do. Methods that write with a stale claim return
// ErrStale.
type Turns interface {
	// Claim claims entries that wait in lane, in order and at most max (0: all).
	// Entries of an interrupted turn come first and alone, with its steps. A claim
	// without a turn means that no entry waits.
	Claim(ctx context.Context, lane inbox.Lane, max int) (Claim, error)
	// Join adds to the claim the entries that have arrived in its lane since, as far
	// as they may be part of the same input, and returns them. If steering is set it
	// joins only entries with the mode inbox.Steer.
	Join(ctx context.Context, c Claim, steering bool) ([]inbox.Entry, error)
	// Release ends the claim: its entries wait again, and its steps are kept. It does
	// not count as a crash.
	Release(ctx context.Context, c Claim) error
	// RecordStep stores s with the claim's turn and renews the claim.
	RecordStep(ctx context.Context, c Claim, s Step) error
	// CommitTurn applies m in one transaction and ends the claim. It returns
	// ErrConflict if m contradicts the stored state. It returns the new rows with
	// their IDs and with the attempts that are already registered.
	CommitTurn(ctx context.Context, c Claim, m Turn) ([]outbox.Row, error)
	// FinishTurn is CommitTurn without a conversation. The rows that delete previews
	// because of m.Cancel come before m.Rows.
	FinishTurn(ctx context.Context, c Claim, m Finish) ([]outbox.Row, error)
}

// A Step is one completed part of a turn, or the start of a tool call that must not be
// repeated.
type Step struct {
	// Create, if set, is the session of the turn; it is created unless it exists.
	Create *Creation
	Doc    json.RawMessage // opaque to the store
}

// Sessions reads sessions.
type Sessions interface {
	// Session returns the current session of key; ok is false if there is none.
	Session(ctx context.Context, key session.Key) (r session.Record, ok bool, err error)
	// SessionByID returns one record; ok is false if there is none.
	SessionByID(ctx context.Context, id session.ID) (r session.Record, ok bool, err error)
	// Sessions returns the records that q selects. Records that cannot be read are
	// omitted.
	Sessions(ctx context.Context, q session.Query) ([]session.Record, error)
	// Prompt returns the cached prompt of a session, byte for byte as it was stored, or
	// session.ErrNotFound.
	Prompt(ctx context.Context, id session.ID) (Doc[prompt.Prefix], error)
	// Rows returns the rows of the transcript with the numbers of span, active or
	// archived, as far as they exist. Rows never change their number.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]Doc[llm.Message], error)
	// Calls returns the records of a session's ledger from number from on, as far as
	// they are still stored.
	Calls(ctx context.Context, id session.ID, from int) ([]Doc[ledger.Record], error)
	// Engine returns the stored state of a session's context engine, nil if there is
	// none.
	Engine(ctx context.Context, id session.ID) (json.RawMessage, error)
}

// Editor changes and deletes sessions outside of their turns.
type Editor interface {
	// SetTitle sets the title of a session on behalf of a user; "" removes it. A running
	// turn does not undo it.
	SetTitle(ctx context.Context, id session.ID, title string) error
	// SuggestTitle sets the title of a session that has none from a user, and reports
	// whether it did.
	SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error)
	// Branch creates the session to as a copy of the session from with its first rows
	// active messages (-1: all), and makes it the current session of its key. It
	// returns the record as stored.
	Branch(ctx context.Context, from session.ID, rows int, to Creation) (session.Record, error)
	// DeleteSession deletes everything about a session. It returns
	// session.ErrNotFound if there is none, and session.ErrBusy while a turn of its
	// conversation runs.
	DeleteSession(ctx context.Context, d Deletion) (session.Deleted, error)
}

// A Deletion deletes a session, and the waiting events of the group that has its ID.
type Deletion struct {
	ID     session.ID
	Events []Event // added to their queues
}

// Outbox stores the rows that are sent, one queue per address; delivery uses it.
type Outbox interface {
	// Enqueue adds rows, in order, and returns them with their IDs. The first
	// row of a queue that is otherwise empty is registered as attempted in the
	// same transaction.
	Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error)
	// Next returns the first row of an address's queue, with an attempt registered
	// for it: now, or in the transaction that wrote it. ok is false if the queue is
	// empty or its first row is not due; in the latter case wait is the time until it
	// is.
	Next(ctx context.Context, to chat.Address) (r outbox.Row, wait time.Duration, ok bool, err error)
	// Settle stores the result of an attempt and its notices. If the queue's next row is due, its
	// attempt is registered in the same transaction and Next returns it without
	// another write.
	Settle(ctx context.Context, s outbox.Settlement) error
	// Row returns one row.
	Row(ctx context.Context, id outbox.ID) (outbox.Row, error)
	// Queues returns the addresses with rows that are not terminal, ordered by their
	// oldest row.
	Queues(ctx context.Context) ([]chat.Address, error)
}

// Audit is what people ask about messages, and what operators do to rows.
type Audit interface {
	// MessageHistory returns the histories of the messages that id names: an entry or
	// row ID ("m12", "o7"), the platform's message ID or the whole idempotency key.
	MessageHistory(ctx context.Context, id string) ([]MessageHistory, error)
	// MessageByKey returns the history of the message that was accepted from an account
	// under an idempotency key; ok is false if the key is unknown or no longer stored.
	// Unlike MessageHistory it does not search.
	MessageByKey(ctx context.Context, from chat.Account, key string) (h MessageHistory, ok bool, err error)
	// Outbox returns the rows that q selects, ordered by ID, and the number of older ones
	// that q.Max left out. Rows that cannot be read are omitted.
	Outbox(ctx context.Context, q outbox.Query) (rows []outbox.Row, older int, err error)
	// RetryRow makes a dead, uncertain or waiting row due now.
	RetryRow(ctx context.Context, id outbox.ID) error
	// DropRow marks a row that is not sent as dead.
	DropRow(ctx context.Context, id outbox.ID, why string) error
	// Stats returns counts for `status`. It does not wait for writes.
	Stats() Stats
}

// Jobs stores jobs and their occurrences. The methods are declared in package schedule,
// whose Manager and Scheduler use them.
type Jobs interface{ schedule.Store }

// Upkeep maintains the files of the store. Other work continues meanwhile.
type Upkeep interface {
	// Prune deletes what is past its retention: processed keys after 72 h, done entries
	// and terminal rows after 7 days or if there are more than 100,000.
	Prune(ctx context.Context, now time.Time) error
	// Backup writes a consistent copy of the store to a new file.
	Backup(ctx context.Context, path string) error
	// Compact gives free space back to the file system, and with it the bytes of what
	// was deleted.
	Compact(ctx context.Context) error
	// Verify checks the consistency of everything that is stored.
	Verify(ctx context.Context) error
	// Close ends the use of the store.
	Close() error
}
