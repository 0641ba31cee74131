// Package outbox holds the life of an outbound message.
//
//	          ┌────────────── known_not_sent(due) ◄─────┐
//	          ▼                                         │ refused
//	queued ─► attempting(n) ─► sent(receipt)            │
//	              │  └──────────────────────────────────┤
//	              ├─► dead(reason)   rejected, or 24 h over
//	              └─► uncertain      the request left and no answer came,
//	                                 or we died in between
//
// A row is written before its first attempt and an attempt before the request
// leaves, so that after a crash the rows found attempting are exactly those of
// which it is not known whether they arrived.
package outbox

import (
	"strconv"
	"time"

	"hermesd/gateway/chat"
)

// An ID names a row; it is the order of creation.
type ID uint64

func (id ID) String() string { return "o" + strconv.FormatUint(uint64(id), 10) }

// A State is a stage in the life of a row.
type State string

// The states of a row. Sent and Dead are terminal.
const (
	Queued     State = "queued"
	Attempting State = "attempting"
	NotSent    State = "known_not_sent"
	Uncertain  State = "uncertain"
	Sent       State = "sent"
	Dead       State = "dead"
)

// A Role says what a row is to its turn.
type Role string

// The roles of rows.
const (
	Reply   Role = "reply"   // a piece of a turn's answer
	Preview Role = "preview" // the message that shows an answer while it is written
	Notice  Role = "notice"  // something the daemon says by itself
)

// A Row is one outbound message and what became of it.
type Row struct {
	ID   ID   `json:"id"`
	Role Role `json:"role"`
	// Question is what the row asks of people while a tool waits; "" mostly.
	Question string        `json:"q,omitempty"`
	Turn     string        `json:"turn,omitempty"`
	Msg      chat.Outbound `json:"msg"`
	// Replaces names a preview row: if that arrived, this row is an edit of its
	// message instead of a message of its own.
	Replaces ID `json:"replaces,omitempty"`
	// Delete names a preview row whose message is taken back; the row has no
	// text of its own.
	Delete ID `json:"delete,omitempty"`

	State    State     `json:"state"`
	Attempts int       `json:"n,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"` // of the process that attempts
	Created  time.Time `json:"created"`
	// FirstAttempt is when the row was first tried, and Idle for how long nobody has tried
	// it since although it was due: nothing ran, or the clock was put forward.
	FirstAttempt time.Time     `json:"began,omitzero"`
	IdleFor      time.Duration `json:"idle,omitempty"`
	// NextAttempt is when the row may be worked on again, not before. A row that is
	// Unsure with a zero Due is held: it is the operator's, and later rows of its
	// queue do not wait for it.
	NextAttempt time.Time `json:"due,omitzero"`
	// Delay is how long it was until Due when Due was set; see Left.
	Delay   time.Duration `json:"wait,omitempty"`
	Settled time.Time     `json:"settled,omitzero"`
	Receipt *chat.Receipt `json:"receipt,omitempty"`
	Reason  string        `json:"reason,omitempty"` // last failure, in words
	// MayBeRepeat says that an earlier attempt may have arrived, so the text says
	// that it may be a repeat.
	MayBeRepeat bool `json:"repeat,omitempty"`
	// RedactWhenDone says that the row's conversation was deleted, or that it tells a
	// secret: what it says is gone once it has ended.
	RedactWhenDone bool `json:"forgotten,omitempty"`
}

// clockSlack is by how much the clock may be corrected without anything being
// thought of it.
const clockSlack = time.Minute

// TimeUntilDue returns how long r has to wait at now; 0: it is due. What is to wait for
// longer than it was told to was told by a clock that has been set back since,
// and is due.
func (r Row) TimeUntilDue(now time.Time) time.Duration {
	longest := r.Delay + clockSlack
	if r.Delay == 0 { // it was stored before Wait was
		longest = MaxRetryTime
	}
	left := r.NextAttempt.Sub(now)
	if left < 0 || left > longest {
		return 0
	}
	return left
}

// idleLong is how late an attempt is of which it is not known why.
const idleLong = time.Hour

// Attempt returns r with an attempt registered at now, in the process of that
// epoch.
func (r Row) Attempt(now time.Time, epoch uint64) Row {
	switch late := now.Sub(r.NextAttempt); {
	case r.FirstAttempt.IsZero():
		r.FirstAttempt = now
	case !r.NextAttempt.IsZero() && late > idleLong:
		r.IdleFor += late
	}
	r.State, r.Epoch, r.NextAttempt = Attempting, epoch, time.Time{}
	r.Attempts++
	return r
}

// DelayUntil returns the Wait of a row that is made due at now.
func DelayUntil(due, now time.Time) time.Duration {
	if due.IsZero() {
		return 0
	}
	return max(due.Sub(now), 1)
}

// Terminal reports whether nothing more will happen to r by itself.
func (r Row) Terminal() bool { return r.State == Sent || r.State == Dead }

// DeadLetter reports whether r was given up and somebody may care: a preview
// that was given up is made up for by the reply.
func (r Row) DeadLetter() bool { return r.State == Dead && r.Role != Preview && !r.RedactWhenDone }

// Redacted is r without anything that it says, and without what is known of its
// failures: platforms quote what they refuse.
func (r Row) Redacted() Row {
	r.Msg = chat.Outbound{ID: r.Msg.ID, To: r.Msg.To, ReplyTo: r.Msg.ReplyTo, Quiet: r.Msg.Quiet}
	r.Question, r.Reason, r.RedactWhenDone = "", "", true
	return r
}

// A Settlement is what an attempt came to.
type Settlement struct {
	ID          ID
	State       State // Sent, NotSent, Unsure or Dead
	NextAttempt time.Time
	Receipt     *chat.Receipt
	Reason      string
	MayBeRepeat bool          // the next attempt may be a repeat
	MigratedTo  *chat.Address // the chat's new address, for this and all later rows
}
