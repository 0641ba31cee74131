// Package inbox defines the life cycle of an inbound event and the records that
// turns and stores exchange about it.
//
//	waiting ─► claimed(turn, epoch, lease) ─► done(outcome)
//	   ▲               │
//	   └── released ◄──┘  interrupted before anything was done, or its process died
//
// Accepted means on disk. Each accepted Entry reaches exactly one Outcome. The
// package has only types and pure functions; package storage/bolt implements the
// transitions.
package inbox

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// An ID identifies an entry. IDs increase in the order of acceptance.
type ID uint64

func (id ID) String() string { return "m" + strconv.FormatUint(uint64(id), 10) }

// A Lane is the queue in which an entry waits. The entries of a lane are
// processed one batch at a time, in order; lanes do not wait for each other.
type Lane string

// LaneOf returns the lane of a session's turns.
func LaneOf(k session.Key) Lane { return Lane(k) }

// ImmediateLaneOf returns the lane of the session's immediate commands, which do
// not wait for its turns.
func ImmediateLaneOf(k session.Key) Lane { return Lane(k) + "!" }

// Immediate reports whether l is a lane for immediate commands.
func (l Lane) Immediate() bool { return strings.HasSuffix(string(l), "!") }

// A State is a stage in the life cycle of an entry.
type State string

// The states of an entry. Done is terminal.
const (
	Waiting State = "waiting"
	Claimed State = "claimed"
	Done    State = "done"
)

// A Mode is the effect of an entry that arrives while a turn runs in its lane.
type Mode string

// The modes. The zero Mode has the effect of Interrupt.
const (
	Interrupt Mode = "interrupt" // the run stops at the next safe point
	Queue     Mode = "queue"     // the entry becomes a separate turn, in order
	Steer     Mode = "steer"     // the entry is added to the run after its next tool result
)

// An Entry is one accepted event and its processing state.
type Entry struct {
	ID      ID           `json:"id"`
	Lane    Lane         `json:"lane"`
	Session session.Key  `json:"session"`
	Inbound chat.Inbound `json:"in"`
	// Grant says in whose name the entry is processed. Only a check of access makes one,
	// so that the entry of an unchecked event has the rights of nobody.
	Grant access.Grant `json:"by"`
	// Exclusive entries (commands) are claimed alone; a batch ends before one.
	Exclusive bool `json:"solo,omitempty"`
	// Mode is the effect on a running turn. Entries with the mode Queue are claimed
	// alone too, except for the parts of one text.
	Mode Mode `json:"mode,omitempty"`
	// Background reports whether the entry is processed outside the conversation of
	// its chat. Replies to it quote it.
	Background bool      `json:"aside,omitempty"`
	State      State     `json:"state"`
	Accepted   time.Time `json:"accepted"`
	// Turn is set by the first claim and then kept: it identifies the steps of an
	// interrupted turn.
	Turn       string    `json:"turn,omitempty"`
	Epoch      uint64    `json:"epoch,omitempty"` // of the claim
	LeaseUntil time.Time `json:"lease,omitzero"`  // end of the claim
	// Crashes counts the processes that died while they processed the entry.
	Crashes int `json:"crashes,omitempty"`
	// TurnsAtCrash is the number of turns that were running at the last of them.
	TurnsAtCrash int `json:"company,omitempty"`
	// CrashesAlone counts those of them at which this entry was the most likely cause:
	// no other turn ran, or this one had been running at an earlier crash and no other
	// one had.
	CrashesAlone int `json:"crashes_alone,omitempty"`
	// Deletions are the outbox rows that delete previews of earlier turns of the entry,
	// which were released.
	Deletions []outbox.ID `json:"deletions,omitempty"`
	// Occurrence is set if the entry is the run of a scheduled occurrence. The
	// occurrence ends in the same transaction as the entry.
	Occurrence *schedule.OccurrenceID `json:"slot,omitempty"`
	Outcome    *Outcome               `json:"outcome,omitempty"`
	Ended      time.Time              `json:"ended,omitzero"`
}

// IsSuspect reports whether e may be what crashes the process: it must be processed
// while no other suspect is.
func (e Entry) IsSuspect() bool { return e.Crashes >= 2 }

// IsGuilty reports whether e has probably crashed the process repeatedly. One crash
// less is enough if it was the most likely cause of all.
func (e Entry) IsGuilty() bool {
	return e.CrashesAlone >= 3 || e.CrashesAlone == 2 && e.Crashes == 2
}

// CanMergeWith reports whether b, the entry after e, may be part of the same input.
func (e Entry) CanMergeWith(b Entry) bool {
	if e.Exclusive || b.Exclusive {
		return false
	}
	if e.Mode != Queue && b.Mode != Queue {
		return true
	}
	return e.Inbound.Part != nil && e.Inbound.Part.Wait > 0 && b.Inbound.Part != nil && e.Inbound.Part.Group == b.Inbound.Part.Group
}

// A Result is the kind of an outcome.
type Result string

// The results.
const (
	Replied   Result = "replied"
	Silent    Result = "silent"    // Reason is the rule
	Failed    Result = "failed"    // Reason is the text that the user received
	Cancelled Result = "cancelled" // Reason is the principal or command that canceled it
)

// An Outcome is the result of an entry, with its reason.
type Outcome struct {
	Result Result `json:"result"`
	Reason string `json:"why,omitempty"`
	// MergedInto is the newer entry whose turn answered this one as well; 0 if none.
	MergedInto ID `json:"with,omitempty"`
}

// An Admission is an event to accept, with all that the store writes in the transaction
// that accepts it. If the event was accepted before, nothing of it is written.
type Admission struct {
	Entry Entry
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
// store.Values.EditValue does. The edit of a damaged value starts from none, and the
// damage is reported: it must not keep events from being accepted.
type ValueEdit struct {
	Key    string
	Change func(old []byte) ([]byte, error)
}

// A Limit refuses an entry whose lane is full: the entry is stored as done.
type Limit struct {
	MaxWaiting int          // number of unclaimed entries at which the lane is full
	Outcome    Outcome      // of a refused entry
	Notices    []outbox.Row // enqueued if the entry is refused
}

// An Acceptance is the result of an Admission.
type Acceptance struct {
	ID      ID     // of the entry, or of the stored entry with the same idempotency key
	IsNew   bool   // false: an entry with this key was accepted before
	Refused bool   // by the Limit
	Claim   *Claim // the claim that the Admission asked for, nil if none was made
}

// A Claim is the right of one process to process a batch of entries. Its epoch
// fences stale processes: a store rejects the writes of a stale claim with
// ErrStale.
type Claim struct {
	Lane    Lane
	Turn    string // "": no entry waits
	Epoch   uint64
	Entries []Entry
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
var ErrStale = errors.New("inbox: claim is stale")

// ErrConflict means that a commit contradicts the stored state. Retrying the same
// commit cannot succeed.
var ErrConflict = errors.New("inbox: commit conflicts with stored state")

// A MessageHistory is everything stored about one message. `why` prints it.
type MessageHistory struct {
	Entry Entry           `json:"entry"`
	Trace json.RawMessage `json:"trace,omitempty"` // of the turn; see store.Trace
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
	Entry Entry
}

// A ScheduledRunResult is the result of starting a ScheduledRun.
type ScheduledRunResult struct {
	Status schedule.StartStatus
	// Acceptance is that of the entry, if Status is schedule.Started.
	Acceptance Acceptance
}

// RunOutcome returns the outcome of a scheduled run whose entry ended with o.
func (o Outcome) RunOutcome() schedule.RunOutcome {
	switch o.Result {
	case Replied, Silent:
		return schedule.RunOutcome{Result: schedule.OK}
	case Cancelled:
		return schedule.RunOutcome{Result: schedule.Failed, Reason: "cancelled: " + o.Reason}
	case Failed:
	}
	return schedule.RunOutcome{Result: schedule.Failed, Reason: o.Reason}
}
