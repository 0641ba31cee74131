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
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
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

// Now returns the lane of the session's immediate commands, which do not wait
// for its turns.
func Now(k session.Key) Lane { return Lane(k) + "!" }

// A State is a stage in the life of an entry.
type State string

// The states of an entry. Done is terminal.
const (
	Waiting State = "waiting"
	Claimed State = "claimed"
	Done    State = "done"
)

// An Entry is one accepted event and what became of it.
type Entry struct {
	ID      ID               `json:"id"`
	Lane    Lane             `json:"lane"`
	Session session.Key      `json:"session"`
	In      chat.Inbound     `json:"in"`
	By      access.Principal `json:"by"`
	// Solo entries (commands) are claimed alone; a batch ends before one.
	Solo     bool      `json:"solo,omitempty"`
	State    State     `json:"state"`
	Accepted time.Time `json:"accepted"`
	// Claim asks the store to claim the entry as it is accepted, if nothing else
	// is in its lane. It is not stored.
	Claim bool `json:"-"`
	// Turn is set by the first claim and stays: the steps of a turn that was cut
	// short are found by it.
	Turn  string    `json:"turn,omitempty"`
	Epoch uint64    `json:"epoch,omitempty"` // of the claim
	Lease time.Time `json:"lease,omitzero"`  // end of the claim
	// Crashes counts the processes that died while they worked on the entry.
	Crashes int `json:"crashes,omitempty"`
	// Company is how many turns were under way when the last of them died. The
	// more there were, the less it says about this one.
	Company int       `json:"company,omitempty"`
	Outcome *Outcome  `json:"outcome,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
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
	Why    string `json:"why,omitempty"`
	// With is the newer entry whose turn answered this one too.
	With ID `json:"with,omitempty"`
}

// An Acceptance says what became of an entry that was offered to the store.
type Acceptance struct {
	ID    ID   // of the entry, or of the one that has its key already
	Fresh bool // false: this key was accepted before
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
	// Waiting is how many entries of the lane stay behind.
	Waiting int
}

// A Commit is all that a finished claim makes true, at once or not at all.
type Commit struct {
	// Outcome of the claim's entries. Each names one by id; entries that are
	// not named get Outcome.
	Outcome  Outcome
	Outcomes map[ID]Outcome
	// Open, if set, is the session's opening; it becomes the key's current one.
	Open *session.Opening
	// Session, if its ID is set, replaces the session's record.
	Session session.Record
	// Messages are appended to the transcript of Session, which must have
	// Session.Messages - len(Messages) rows before.
	Messages []json.RawMessage
	// Rows are new outbox rows, in order. The first one of a queue that is
	// otherwise empty is registered as attempted in the same transaction.
	Rows []outbox.Row
	// Cancel ends the waiting entries of these lanes with CancelWhy.
	Cancel    []Lane
	CancelWhy string
	// Point, if set, makes keys point to other session ids.
	Point map[session.Key]session.ID
	// Trace is kept with the turn for `why`.
	Trace json.RawMessage
}

// ErrStale says that a claim is no longer its holder's: another process, or a
// later claim, has its entries.
var ErrStale = errors.New("inbox: the claim is stale")

// ErrRefused says that a commit contradicts what is stored. It will never be
// taken, however often it is tried.
var ErrRefused = errors.New("inbox: the commit contradicts what is stored")
