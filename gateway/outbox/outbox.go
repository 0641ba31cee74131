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
	Unsure     State = "uncertain"
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
	ID   ID            `json:"id"`
	Role Role          `json:"role"`
	Turn string        `json:"turn,omitempty"`
	Msg  chat.Outbound `json:"msg"`
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
	// Due is when the row may be worked on again, not before. A row that is
	// Unsure with a zero Due is held: it is the operator's, and later rows of its
	// queue do not wait for it.
	Due     time.Time     `json:"due,omitzero"`
	Settled time.Time     `json:"settled,omitzero"`
	Receipt *chat.Receipt `json:"receipt,omitempty"`
	Reason  string        `json:"reason,omitempty"` // last failure, in words
	// Repeat says that an earlier attempt may have arrived, so the text says
	// that it may be a repeat.
	Repeat bool `json:"repeat,omitempty"`
}

// Terminal reports whether nothing more will happen to r by itself.
func (r Row) Terminal() bool { return r.State == Sent || r.State == Dead }

// DeadLetter reports whether r was given up and somebody may care: a preview
// that was given up is made up for by the reply.
func (r Row) DeadLetter() bool { return r.State == Dead && r.Role != Preview }

// A Settlement is what an attempt came to.
type Settlement struct {
	ID      ID
	State   State // Sent, NotSent, Unsure or Dead
	Due     time.Time
	Receipt *chat.Receipt
	Reason  string
	Repeat  bool          // the next attempt may be a repeat
	MovedTo *chat.Address // the chat's new address, for this and all later rows
}
