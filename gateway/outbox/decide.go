package outbox

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// MaxRetryTime is how long an outbound message is tried before it is given up.
const MaxRetryTime = 24 * time.Hour

// maxDeleteAttempts bounds how often the deletion of a preview is tried: it stands
// in the queue ahead of replies.
const maxDeleteAttempts = 5

// maxMigrationAttempts is how many attempts follow a chat to its new address without a
// pause; two chats that point to each other must not be followed for ever.
const maxMigrationAttempts = 3

// reasonLimit is the greatest length of a Reason in bytes.
const reasonLimit = 500

// ErrProcessDied is what became of an attempt whose process died: nobody knows.
var ErrProcessDied = errors.New("outbox: the process died during the attempt")

// A UncertainPolicy says what becomes of a message when nobody can say whether it
// arrived.
type UncertainPolicy string

// The policies, as they stand in the configuration at delivery.uncertain.
const (
	Resend UncertainPolicy = "resend" // send it again, marked as a possible repeat
	Hold   UncertainPolicy = "hold"   // keep it until the operator decides
	Drop   UncertainPolicy = "drop"   // give it up
)

// minRetryTime is for how long a row is tried at least, however long it had to wait
// for its first attempt.
const minRetryTime = 15 * time.Minute

// Expired reports whether r was tried for too long to be tried again after a
// failure. Time in which it was due and nobody tried it does not count.
func Expired(r Row, now time.Time) bool {
	now = now.Add(-r.IdleFor)
	return now.Sub(r.Created) >= MaxRetryTime && (r.FirstAttempt.IsZero() || now.Sub(r.FirstAttempt) >= minRetryTime)
}

// Delivered settles a row whose message the platform has.
func Delivered(r Row, receipt chat.Receipt) Settlement {
	return Settlement{ID: r.ID, State: Sent, Receipt: &receipt}
}

// Decide returns what an attempt at r came to, given the error that it ended
// with; nil is a success without a receipt. r is the row with that attempt
// registered.
//
//   - Refused: NotSent, due when the platform says, to the letter, or else after
//     a backoff; Dead once the row has Expired.
//   - Rejected: Dead, unless the chat has moved: then NotSent at its new address.
//   - anything else: Unsure and due at once, for the platform to be asked. A row
//     that is Unsure already, so that asking has failed or is not possible, is
//     settled by Resolve.
//
// Decide never marks a row as a repeat by itself and never takes a mark away: a
// refusal of the second attempt says nothing about the first. Of a Preview only
// its deletion is tried again. An edit whose answer is missing is not uncertain,
// because it can be repeated: callers turn it into a refusal first.
func Decide(r Row, err error, now time.Time, p UncertainPolicy) Settlement {
	s := Settlement{ID: r.ID, MayBeRepeat: r.MayBeRepeat}
	if err == nil || r.Delete != 0 && errors.Is(err, chat.ErrGone) {
		s.State, s.MayBeRepeat = Sent, false
		return s
	}
	s.Reason = reason(err)
	se := known(err)
	switch {
	case se.MigratedTo != nil && *se.MigratedTo != r.Msg.To && se.Outcome != chat.Uncertain:
		s.MigratedTo = se.MigratedTo
		if r.Attempts <= maxMigrationAttempts {
			return retry(s, r, now, now)
		}
		return retry(s, r, now, now.Add(r.Backoff()))
	case se.Outcome == chat.Permanent:
		s.State = Dead
		return s
	case se.Outcome == chat.Transient && se.RetryAfter > 0:
		return retry(s, r, now, now.Add(se.RetryAfter))
	case se.Outcome == chat.Transient:
		return retry(s, r, now, now.Add(r.Backoff()))
	case r.State == Uncertain:
		q := ResolveUncertain(r, now, p)
		q.Reason = s.Reason
		return q
	}
	s.State, s.NextAttempt = Uncertain, now
	return s
}

// ResolveUncertain settles by policy a row of which nobody can say whether it arrived.
// Under Resend it becomes NotSent, due after a backoff and marked as a possible
// repeat. Under Hold it stays Unsure with a zero Due: it is the operator's, and
// later rows of its queue do not wait for it. Under Drop, once it has Expired, or
// if it is a Preview, it is Dead.
func ResolveUncertain(r Row, now time.Time, p UncertainPolicy) Settlement {
	s := Settlement{ID: r.ID, Reason: "no answer: it may or may not have arrived", MayBeRepeat: r.MayBeRepeat}
	switch {
	case r.Delete != 0:
		return retry(s, r, now, now.Add(r.Backoff()))
	case r.Role == Preview:
		s.State = Dead
	case p == Hold:
		s.State, s.MayBeRepeat = Uncertain, true
	case p == Drop:
		s.State, s.Reason = Dead, s.Reason+"; dropped by delivery.uncertain"
	default:
		s.MayBeRepeat = true
		return retry(s, r, now, now.Add(r.Backoff()))
	}
	return s
}

// retry makes s the settlement of a row that needs another attempt, at due,
// or gives it up where there has been enough of them.
func retry(s Settlement, r Row, now, due time.Time) Settlement {
	switch {
	case Expired(r, now):
		s.State, s.Reason = Dead, clip(s.Reason+"; given up after 24 h")
	case r.Role == Preview && (r.Delete == 0 || r.Attempts >= maxDeleteAttempts):
		s.State = Dead
	default:
		s.State, s.NextAttempt = NotSent, due
	}
	return s
}

// known returns what the adapter said of the failed send; an error that says
// nothing is uncertain. An edit of a message that is gone has certainly not
// been made.
func known(err error) chat.SendError {
	var se *chat.SendError
	switch {
	case errors.As(err, &se) && se != nil:
		return *se
	case errors.Is(err, chat.ErrGone):
		return chat.SendError{Outcome: chat.Transient}
	}
	return chat.SendError{Outcome: chat.Uncertain}
}

func reason(err error) string {
	var se *chat.SendError
	if errors.As(err, &se) && se != nil && se.Reason != "" {
		return clip(se.Reason)
	}
	return clip(err.Error())
}

// clip shortens s to what is kept of a reason, on the boundary of a rune.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= reasonLimit {
		return s
	}
	n := reasonLimit - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// RepeatNotice is the line that stands ahead of a text which may be a repeat. In no
// language is it longer.
const RepeatNotice = "(may be a repeat)"

// AddRepeatNotice returns t with mark on a line of its own ahead of it, and every style
// where it was. Marking twice is marking once. The text grows by len(mark)+1
// bytes, all ASCII, which a piece that fills its platform's limit has no room for.
func AddRepeatNotice(t chat.RichText, mark string) chat.RichText {
	lead := mark + "\n"
	if strings.HasPrefix(t.Text, lead) || t.Text == mark {
		return t
	}
	if t.Text == "" {
		return chat.PlainText(mark)
	}
	m := chat.RichText{Text: lead + t.Text}
	for _, s := range t.Spans {
		s.Start += len(lead)
		s.End += len(lead)
		m.Spans = append(m.Spans, s)
	}
	return m
}
