// Package outbox defines the life cycle of an outbound message and decides what to
// do after each delivery attempt.
//
//	          ┌────────────── known_not_sent(due) ◄─────┐
//	          ▼                                         │ refused
//	queued ─► attempting(n) ─► sent(receipt)            │
//	              │  └──────────────────────────────────┤
//	              ├─► dead(reason)   rejected, or retried for 24 h
//	              └─► uncertain      the request was sent without a response,
//	                                 or the process died in between
//
// A Row is stored before its first attempt, and an attempt is stored before its
// request is sent, so that after a crash the rows in the state attempting are
// exactly those for which it is unknown whether they arrived. Decide is a pure
// function; only a Throttle has state. Package delivery sends the rows.
package outbox

import (
	"strconv"
	"time"

	"hermesd/gateway/chat"
)

// An ID identifies a row. IDs increase in the order of creation.
type ID uint64

func (id ID) String() string { return "o" + strconv.FormatUint(uint64(id), 10) }

// A State is a stage in the life cycle of a row.
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

// A Role is the function of a row in its turn.
type Role string

// The roles of rows.
const (
	Reply   Role = "reply"   // a part of a turn's answer
	Preview Role = "preview" // the message that shows an answer while it is written
	Notice  Role = "notice"  // a message of the daemon that is no answer
)

// A Row is one outbound message and its delivery state.
type Row struct {
	ID   ID   `json:"id"`
	Role Role `json:"role"`
	// Question is the ID of the question or approval request that the row shows;
	// "" for all other rows.
	Question string        `json:"q,omitempty"`
	Turn     string        `json:"turn,omitempty"`
	Msg      chat.Outbound `json:"msg"`
	// Placeholder reports whether the row is a preview that shows a status, and nothing
	// of an answer.
	Placeholder bool `json:"placeholder,omitempty"`
	// Replaces is the ID of a preview row. If that row was sent, this row is delivered
	// as an edit of its message instead of as a new message.
	Replaces ID `json:"replaces,omitempty"`
	// Delete is the ID of a preview row whose message this row deletes; this row has
	// no text.
	Delete ID `json:"delete,omitempty"`
	// Follows are the IDs of previews of the same answer, and of rows that delete such
	// previews. If a preview stays visible after one of them, this row may repeat it.
	Follows []ID `json:"follows,omitempty"`

	State    State     `json:"state"`
	Attempts int       `json:"n,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"` // of the process that attempts
	Created  time.Time `json:"created"`
	// FirstAttempt is the time of the first attempt. IdleFor is the total time after it
	// in which the row was due but not attempted, because the daemon was down or the
	// clock was set forward.
	FirstAttempt time.Time     `json:"began,omitzero"`
	IdleFor      time.Duration `json:"idle,omitempty"`
	// NextAttempt is the earliest time of the next attempt. A row that is Uncertain
	// with a zero NextAttempt is held: the operator decides about it, and later rows
	// of its queue do not wait for it.
	NextAttempt time.Time `json:"due,omitzero"`
	// Delay is the time until NextAttempt when that was set; see TimeUntilDue.
	Delay   time.Duration `json:"wait,omitempty"`
	Settled time.Time     `json:"settled,omitzero"`
	Receipt *chat.Receipt `json:"receipt,omitempty"`
	Reason  string        `json:"reason,omitempty"` // description of the last failure
	// MayBeRepeat reports whether an earlier attempt may have arrived, or a preview
	// with the same text may be visible. The next attempt is then sent with the
	// RepeatNotice.
	MayBeRepeat bool `json:"repeat,omitempty"`
	// RedactWhenDone reports whether the text is to be deleted once the row is
	// terminal, because the row's conversation was deleted or it contains a secret.
	RedactWhenDone bool `json:"forgotten,omitempty"`
}

// A Query selects rows; the zero Query selects all that are not sent.
type Query struct {
	ID   ID   // only the row with this ID; 0: any
	Sent bool // also rows that are sent and still stored
	Max  int  // only the newest; 0: no limit
}

// clockTolerance is the maximum correction of the system clock that does not count as
// setting the clock back.
const clockTolerance = time.Minute

// TimeUntilDue returns how long r has to wait at now; 0 if it is due. A row whose
// remaining time exceeds its Delay is due, because the clock was set back since.
func (r Row) TimeUntilDue(now time.Time) time.Duration {
	longest := r.Delay + clockTolerance
	if r.Delay == 0 { // stored by a version without Delay
		longest = MaxRetryTime
	}
	left := r.NextAttempt.Sub(now)
	if left < 0 || left > longest {
		return 0
	}
	return left
}

// minUnexplainedDelay is the minimum lateness of an attempt that counts as idle time.
const minUnexplainedDelay = time.Hour

// Attempt returns r with an attempt registered at now by the process with the given
// epoch.
func (r Row) Attempt(now time.Time, epoch uint64) Row {
	switch late := now.Sub(r.NextAttempt); {
	case r.FirstAttempt.IsZero():
		r.FirstAttempt = now
	case !r.NextAttempt.IsZero() && late > minUnexplainedDelay:
		r.IdleFor += late
	}
	r.State, r.Epoch, r.NextAttempt = Attempting, epoch, time.Time{}
	r.Attempts++
	return r
}

// DelayUntil returns the Delay of a row whose NextAttempt is set to due at now; 0 if
// due is zero.
func DelayUntil(due, now time.Time) time.Duration {
	if due.IsZero() {
		return 0
	}
	return max(due.Sub(now), 1)
}

// Terminal reports whether r is not attempted again by itself.
func (r Row) Terminal() bool { return r.State == Sent || r.State == Dead }

// MayStayVisible reports whether r is a preview, or the deletion of one, that is given
// up although the preview may be visible.
func (r Row) MayStayVisible() bool { return r.Role == Preview && r.State == Dead && r.MayBeRepeat }

// DeadLetter reports whether r is a dead letter that an operator may care about. A
// dead preview is none, because the reply follows it, and neither is a row that is
// to be redacted.
func (r Row) DeadLetter() bool { return r.State == Dead && r.Role != Preview && !r.RedactWhenDone }

// DeletePreviewRow returns a row that deletes the message of a preview.
func DeletePreviewRow(to chat.Address, turn string, preview ID) Row {
	return Row{Role: Preview, Turn: turn, Msg: chat.Outbound{To: to}, Delete: preview}
}

// Redacted returns r without its content and without its failure reason, because
// platforms quote the text that they refuse.
func (r Row) Redacted() Row {
	r.Msg = chat.Outbound{ID: r.Msg.ID, To: r.Msg.To, ReplyTo: r.Msg.ReplyTo, Quiet: r.Msg.Quiet}
	r.Question, r.Reason, r.RedactWhenDone = "", "", true
	return r
}

// A Settlement is the recorded result of an attempt.
type Settlement struct {
	ID          ID
	State       State // Sent, NotSent, Uncertain or Dead
	NextAttempt time.Time
	Receipt     *chat.Receipt
	Reason      string
	MayBeRepeat bool          // the next attempt may be a repeat
	MigratedTo  *chat.Address // the chat's new address, for this and all later rows
	Notices     []Row         // enqueued together with the settlement
}

// The bounds between which Backoff doubles.
const (
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// Backoff returns how long to wait after the given number of failed attempts when
// the platform does not name a time: a second, doubled with each attempt up to
// five minutes. The second half of it is jitter; rnd is in [0, 1).
func Backoff(attempts int, rnd float64) time.Duration {
	d := minBackoff
	for i := 1; i < attempts && d < maxBackoff; i++ {
		d *= 2
	}
	d = min(d, maxBackoff)
	return d/2 + time.Duration(rnd*float64(d/2))
}

// Backoff returns how long r waits after its latest attempt. The jitter is derived
// from the row, so that a decision depends only on the row.
func (r Row) Backoff() time.Duration {
	x := uint64(r.ID)<<16 + uint64(r.Attempts) + 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return Backoff(r.Attempts, float64(x>>11)/(1<<53))
}
