// Package inbox holds the life of an inbound message.
//
//	waiting ─► claimed(turn, epoch, lease) ─► done(outcome)
//	   ▲               │
//	   └── released ◄──┘  interrupted before anything was done, or its process died
//
// Accepted means on disk. Each accepted record reaches exactly one outcome.
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

// An ID names an entry; it is the order of acceptance.
type ID uint64

func (id ID) String() string { return "m" + strconv.FormatUint(uint64(id), 10) }

// A Lane is the queue in which an entry waits. The entries of a lane are
// worked on one batch at a time, in order; lanes do not wait for each other.
type Lane string

// LaneOf returns the lane of a session's turns.
func LaneOf(k session.Key) Lane { return Lane(k) }

// ImmediateLaneOf returns the lane of the session's immediate commands, which do not wait
// for its turns.
func ImmediateLaneOf(k session.Key) Lane { return Lane(k) + "!" }

// Immediate reports whether l is a lane of immediate commands.
func (l Lane) Immediate() bool { return strings.HasSuffix(string(l), "!") }

// A State is a stage in the life of an entry.
type State string

// The states of an entry. Done is terminal.
const (
	Waiting State = "waiting"
	Claimed State = "claimed"
	Done    State = "done"
)

// A Mode says what an entry does that arrives while a turn runs in its lane.
type Mode string

// The modes. An entry without one is as an interrupting one.
const (
	Interrupt Mode = "interrupt" // the run stops at the next safe point
	Queue     Mode = "queue"     // it is a turn of its own, in order
	Steer     Mode = "steer"     // it is given to the run after its next tool result
)

// An Entry is one accepted event and what became of it.
type Entry struct {
	ID        ID               `json:"id"`
	Lane      Lane             `json:"lane"`
	Session   session.Key      `json:"session"`
	Inbound   chat.Inbound     `json:"in"`
	Principal access.Principal `json:"by"`
	// Exclusive entries (commands) are claimed alone; a batch ends before one.
	Exclusive bool `json:"solo,omitempty"`
	// Mode is what it does to a turn that runs. Queued entries are claimed alone
	// too, but for pieces of one text.
	Mode Mode `json:"mode,omitempty"`
	// Background says that it is worked on beside the conversation of its chat: what
	// comes of it quotes it.
	Background bool      `json:"aside,omitempty"`
	State      State     `json:"state"`
	Accepted   time.Time `json:"accepted"`
	// ClaimOnAccept asks the store to claim the entry as it is accepted, if nothing else
	// is in its lane. It is not stored.
	ClaimOnAccept bool `json:"-"`
	// Notices is what its sender is told at once: the store enqueues it in the write
	// that accepts the entry, if that is fresh. It is not stored with the entry.
	Notices []outbox.Row `json:"-"`
	// Turn is set by the first claim and stays: the steps of a turn that was cut
	// short are found by it.
	Turn       string    `json:"turn,omitempty"`
	Epoch      uint64    `json:"epoch,omitempty"` // of the claim
	LeaseUntil time.Time `json:"lease,omitzero"`  // end of the claim
	// Crashes counts the processes that died while they worked on the entry.
	Crashes int `json:"crashes,omitempty"`
	// TurnsAtCrash is how many turns were under way when the last of them died. The
	// more there were, the less it says about this one.
	TurnsAtCrash int `json:"company,omitempty"`
	// Occurrence, if set, is the slot of which the entry is the run. It ends in the
	// transaction in which the entry ends.
	Occurrence *schedule.OccurrenceID `json:"slot,omitempty"`
	Outcome    *Outcome               `json:"outcome,omitempty"`
	Ended      time.Time              `json:"ended,omitzero"`
}

// CanMergeWith reports whether b, which follows e, may be part of the same input.
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
	Silent    Result = "silent"    // Why is the rule
	Failed    Result = "failed"    // Why is what the person was told
	Cancelled Result = "cancelled" // Why is by whom
)

// An Outcome is how an entry ended.
type Outcome struct {
	Result Result `json:"result"`
	Reason string `json:"why,omitempty"`
	// MergedInto is the newer entry whose turn answered this one too.
	MergedInto ID `json:"with,omitempty"`
}

// An Acceptance says what became of an entry that was offered to the store.
type Acceptance struct {
	ID    ID   // of the entry, or of the one that has its key already
	IsNew bool // false: this key was accepted before
	// Claim is the claim that was asked for, nil if there is none.
	Claim *Claim
}

// A Step is one completed piece of a turn, or the start of a tool call that may
// happen only once. The store does not look inside.
type Step = json.RawMessage

// A Claim is the right of one process to work on a batch of entries. Its epoch
// fences a process that comes back from the dead: a store refuses what a stale
// claim wants to write with ErrStale.
type Claim struct {
	Lane    Lane
	Turn    string // "" : nothing waits
	Epoch   uint64
	Entries []Entry
	// Steps are what an earlier, dead claim had completed.
	Steps []Step
	// Crashed says that an earlier claim of the same entries died.
	Crashed bool
	// Previews are the rows of earlier previews of this turn that are not
	// deleted or replaced yet.
	Previews []outbox.Row
	// Remaining is how many entries of the lane stay behind.
	Remaining int
}

// A Commit is all that a finished claim makes true, at once or not at all.
type Commit struct {
	// Outcome of the claim's entries. Each names one by id; entries that are
	// not named get Outcome.
	Outcome  Outcome
	Outcomes map[ID]Outcome
	// Create, if set, is the session's opening; it becomes the key's current one.
	Create *session.Creation
	// Session, if its ID is set, replaces the session's record.
	Session session.Record
	// Compactions are compactions of the transcript of Session, in order. They come
	// before Messages.
	Compactions []Compaction
	// Messages are appended to the transcript of Session, which must have
	// Session.Messages - len(Messages) rows before.
	Messages []json.RawMessage
	// Prompt, if set, takes the place of the frozen prompt of Session, whose
	// Revision counts that.
	Prompt json.RawMessage
	// Engine, if set, is what the context engine of Session wants kept.
	Engine json.RawMessage
	// Calls are appended to the ledger of Session, which must have
	// Session.Calls - len(Calls) before. The store does not look inside, and keeps
	// the newest 5,000 of a session at least.
	Calls []json.RawMessage
	// Rows are new outbox rows, in order. The first one of a queue that is
	// otherwise empty is registered as attempted in the same transaction.
	Rows []outbox.Row
	// Cancel ends the entries of these lanes that wait, and are older than the
	// claim's newest one, with CancelWhy.
	Cancel       []Lane
	CancelReason string
	// SetCurrent, if set, makes keys point to other session ids.
	SetCurrent map[session.Key]session.ID
	// Settings, by session, take the place of what was chosen before. Nothing else
	// changes them, so they can be set beside a turn that runs.
	Settings map[session.ID]session.Settings
	// Accept are entries that begin to wait with this commit.
	Accept []Entry
	// RunOutcome, if set, is how the slots of the claim's entries end, in the place of
	// what their outcomes say.
	RunOutcome *schedule.RunOutcome
	// Trace is kept with the turn for `why`.
	Trace json.RawMessage
}

// A Compaction is one compaction of an active transcript. Nothing is deleted by it.
type Compaction struct {
	// Length is how many rows the transcript must have before.
	Length int
	// Append are rows that are appended first.
	Append []json.RawMessage
	// From and To are the active rows that are archived.
	From, To int
	// Active takes the place of the whole active transcript.
	Active []json.RawMessage
}

// ErrStale says that a claim is no longer its holder's: another process, or a
// later claim, has its entries.
var ErrStale = errors.New("inbox: the claim is stale")

// ErrConflict says that a commit contradicts what is stored. It will never be
// taken, however often it is tried.
var ErrConflict = errors.New("inbox: the commit contradicts what is stored")
