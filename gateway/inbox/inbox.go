// Package inbox defines the life cycle of an inbound event and its record.
//
//	waiting ─► claimed(turn, epoch, lease) ─► done(outcome)
//	   ▲               │
//	   └── released ◄──┘  interrupted before anything was done, or its process died
//
// Accepted means on disk. Each accepted Entry reaches exactly one Outcome. The
// package has only types and pure functions; the ports of package store have the
// transitions.
package inbox

import (
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
