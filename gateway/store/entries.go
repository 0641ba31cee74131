package store

import (
	"encoding/json"
	"errors"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
)

// An Admission is an event to accept, with all that the store writes in the transaction
// that accepts it. If the event was accepted before, nothing of it is written.
type Admission struct {
	Entry inbox.Entry
	// Claim asks the store to claim the entry, if its lane is empty.
	Claim bool
	// Notices are rows for the sender. They are enqueued unless Limit refuses the entry.
	Notices []outbox.Row
	// Edits change small values of the store unless Limit refuses the entry.
	Edits []ValueEdit
	// Limit, if set, says when the entry is refused.
	Limit *Limit
}

// A ValueEdit replaces the value under Key by what Change makes of it, as
// Values.EditValue does. The edit of a damaged value starts from none, and the
// damage is reported: it must not keep events from being accepted.
type ValueEdit struct {
	Key    string
	Change func(old []byte) ([]byte, error)
}

// A Limit refuses an entry whose lane is full: the entry is stored as done.
type Limit struct {
	MaxWaiting int           // number of unclaimed entries at which the lane is full
	Outcome    inbox.Outcome // of a refused entry
	Notices    []outbox.Row  // enqueued if the entry is refused
}

// An Acceptance is the result of an Admission.
type Acceptance struct {
	ID      inbox.ID // of the entry, or of the stored entry with the same idempotency key
	IsNew   bool     // false: an entry with this key was accepted before
	Refused bool     // by the Limit
	Claim   *Claim   // the claim that the Admission asked for, nil if none was made
}

// A Claim is the right of one process to process a batch of entries. Its epoch
// fences stale processes: the store rejects the writes of a stale claim with
// ErrStale.
type Claim struct {
	Lane    inbox.Lane
	Turn    string // "": no entry waits
	Epoch   uint64
	Entries []inbox.Entry
	// Steps are those that an earlier claim of the same turn had recorded.
	Steps []json.RawMessage
	// Crashed reports whether a process died during an earlier claim of the entries.
	Crashed bool
	// Previews are the rows of earlier previews of this turn that are not
	// deleted or replaced yet and may be visible.
	Previews []outbox.Row
	// Deletions are the rows that delete previews of this turn, and those of the entries.
	Deletions []outbox.ID
	// Remaining is the number of entries of the lane that were not claimed.
	Remaining int
}

// ErrStale means that another process or a later claim has the entries of the
// claim.
var ErrStale = errors.New("store: claim is stale")

// ErrConflict means that a commit contradicts the stored state. Retrying the same
// commit cannot succeed.
var ErrConflict = errors.New("store: commit conflicts with stored state")

// A MessageHistory is everything stored about one message. `why` prints it.
type MessageHistory struct {
	Entry inbox.Entry     `json:"entry"`
	Trace json.RawMessage `json:"trace,omitempty"` // of the turn; see Trace
	Rows  []outbox.Row    `json:"rows,omitempty"`
}

// Stats are counters and sizes of the store, as of one moment.
type Stats struct {
	Epoch    uint64 `json:"epoch"`
	Accepted uint64 `json:"accepted"`   // entries since the process started
	Commits  uint64 `json:"commits"`    // transactions since the process started
	Writes   uint64 `json:"operations"` // operations in these transactions
	Waiting  int    `json:"waiting"`
	Claimed  int    `json:"claimed"`
	Outbox   int    `json:"outbox"` // rows that are not terminal
	Dead     int    `json:"dead_letters"`
	Bytes    int64  `json:"bytes"`           // size of the file
	Error    string `json:"error,omitempty"` // of the last failed write, until a write succeeds
}

// A ScheduledRun is a due run for the store to start: its occurrence, and the
// entry that puts it into the inbox.
type ScheduledRun struct {
	Run   schedule.DueRun
	Entry inbox.Entry
}

// A ScheduledRunResult is the result of starting a ScheduledRun.
type ScheduledRunResult struct {
	Status schedule.StartStatus
	// Acceptance is that of the entry, if Status is schedule.Started.
	Acceptance Acceptance
}
