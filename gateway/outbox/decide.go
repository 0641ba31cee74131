package outbox

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// MaxRetryTime is how long an outbound message is retried before it becomes a dead
// letter.
const MaxRetryTime = 24 * time.Hour

// maxDeleteAttempts bounds the attempts to delete a preview, because replies wait
// behind it in the queue.
const maxDeleteAttempts = 5

// maxMigrationAttempts is the number of attempts that follow a chat to its new
// address without a backoff; two chats that point to each other must not cause an
// endless loop.
const maxMigrationAttempts = 3

// maxReasonSize is the maximum length of a Reason in bytes.
const maxReasonSize = 500

// ErrProcessDied is the error of an attempt whose process died. Whether the message
// arrived is unknown.
var ErrProcessDied = errors.New("outbox: the process died during the attempt")

// An UncertainPolicy selects how to handle a message when it is unknown whether it
// arrived.
type UncertainPolicy string

// The policies: values of the configuration key delivery.uncertain.
const (
	Resend UncertainPolicy = "resend" // send it again, marked as a possible repeat
	Hold   UncertainPolicy = "hold"   // keep it until the operator decides
	Drop   UncertainPolicy = "drop"   // make it a dead letter
)

// minRetryTime is the minimum time from the first attempt of a row to its expiry,
// however long the row waited for that attempt.
const minRetryTime = 15 * time.Minute

// Expired reports whether r was retried for too long to be retried after another
// failure. Time in which r was due but not attempted does not count.
func Expired(r Row, now time.Time) bool {
	now = now.Add(-r.IdleFor)
	return now.Sub(r.Created) >= MaxRetryTime && (r.FirstAttempt.IsZero() || now.Sub(r.FirstAttempt) >= minRetryTime)
}

// Delivered returns the settlement of a row that the platform has received.
func Delivered(r Row, receipt chat.Receipt) Settlement {
	return Settlement{ID: r.ID, State: Sent, Receipt: &receipt}
}

// Decide returns the settlement of an attempt at r that ended with err; a nil err
// is a success without a receipt. r is the row with that attempt registered.
//
//   - Transient failure: NotSent, due exactly at the time that the platform named,
//     or else after a backoff; Dead once the row has Expired.
//   - Permanent failure: Dead, unless the chat has migrated: then NotSent, at its
//     new address.
//   - Anything else: Uncertain and due at once, so that the platform can be asked.
//     A row that is Uncertain already, because asking failed or is not possible, is
//     settled by ResolveUncertain.
//
// Decide never sets MayBeRepeat of a reply by itself and never clears it after a
// failure: a refusal of the second attempt says nothing about the first. Of a Preview
// only the deletion is retried; a Preview, or a deletion, that becomes Dead although
// the message may be visible has MayBeRepeat set, unless it is a Placeholder; one that
// was refused has not, also if it would have repeated another preview. An edit
// without a response is not uncertain, because it can be repeated: callers make it a
// transient failure first.
func Decide(r Row, err error, now time.Time, p UncertainPolicy) Settlement {
	s := Settlement{ID: r.ID, MayBeRepeat: r.MayBeRepeat && (r.Role != Preview || r.Delete != 0)}
	if err == nil || r.Delete != 0 && errors.Is(err, chat.ErrGone) {
		s.State, s.MayBeRepeat = Sent, false
		return s
	}
	s.Reason = failureReason(err)
	se := sendError(err)
	switch {
	case se.MigratedTo != nil && *se.MigratedTo != r.Msg.To && se.Outcome != chat.Uncertain:
		s.MigratedTo = se.MigratedTo
		if r.Attempts <= maxMigrationAttempts {
			return settleRetry(s, r, now, now)
		}
		return settleRetry(s, r, now, now.Add(r.Backoff()))
	case se.Outcome == chat.Permanent:
		s.State = Dead
		s.MayBeRepeat = s.MayBeRepeat || r.Delete != 0
		return s
	case se.Outcome == chat.Transient && se.RetryAfter > 0:
		return settleRetry(s, r, now, now.Add(se.RetryAfter))
	case se.Outcome == chat.Transient:
		return settleRetry(s, r, now, now.Add(r.Backoff()))
	case r.State == Uncertain:
		q := ResolveUncertain(r, now, p)
		q.Reason = s.Reason
		return q
	}
	s.State, s.NextAttempt = Uncertain, now
	return s
}

// ResolveUncertain returns the settlement of a row for which it is unknown whether
// it arrived. Under Resend the row becomes NotSent, due after a backoff and marked
// as a possible repeat. Under Hold it stays Uncertain with a zero NextAttempt: the
// operator decides, and later rows of its queue do not wait for it. Under Drop,
// once it has Expired, or if it is a Preview, it becomes Dead.
func ResolveUncertain(r Row, now time.Time, p UncertainPolicy) Settlement {
	s := Settlement{ID: r.ID, Reason: "no answer: it may or may not have arrived", MayBeRepeat: r.MayBeRepeat}
	switch {
	case r.Delete != 0:
		return settleRetry(s, r, now, now.Add(r.Backoff()))
	case r.Role == Preview:
		s.State, s.MayBeRepeat = Dead, !r.Placeholder
	case p == Hold:
		s.State, s.MayBeRepeat = Uncertain, true
	case p == Drop:
		s.State, s.Reason = Dead, s.Reason+"; dropped by delivery.uncertain"
	default:
		s.MayBeRepeat = true
		return settleRetry(s, r, now, now.Add(r.Backoff()))
	}
	return s
}

// settleRetry completes s for a row that needs another attempt: NotSent until due,
// or Dead if r has no attempts left.
func settleRetry(s Settlement, r Row, now, due time.Time) Settlement {
	switch {
	case Expired(r, now):
		s.State, s.Reason = Dead, clipReason(s.Reason+"; given up after 24 h")
	case r.Role == Preview && (r.Delete == 0 || r.Attempts >= maxDeleteAttempts):
		s.State = Dead
	default:
		s.State, s.NextAttempt = NotSent, due
		return s
	}
	s.MayBeRepeat = s.MayBeRepeat || r.Delete != 0
	return s
}

// sendError returns the *chat.SendError in err. Without one the failure is
// uncertain, except for chat.ErrGone: an edit of a deleted message was certainly not
// made.
func sendError(err error) chat.SendError {
	var se *chat.SendError
	switch {
	case errors.As(err, &se) && se != nil:
		return *se
	case errors.Is(err, chat.ErrGone):
		return chat.SendError{Outcome: chat.Transient}
	}
	return chat.SendError{Outcome: chat.Uncertain}
}

func failureReason(err error) string {
	var se *chat.SendError
	if errors.As(err, &se) && se != nil && se.Reason != "" {
		return clipReason(se.Reason)
	}
	return clipReason(err.Error())
}

// clipReason truncates s to maxReasonSize bytes at a rune boundary.
func clipReason(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= maxReasonSize {
		return s
	}
	n := maxReasonSize - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// RepeatNotice is the line in front of a text that may be a repeat. Its
// translations must not be longer.
const RepeatNotice = "(may be a repeat)"

// AddRepeatNotice returns t with notice as its first line; styles keep covering the
// same text. It is idempotent. The text grows by len(notice)+1 bytes, all ASCII, so
// callers that split texts at a platform's limit must reserve that.
func AddRepeatNotice(t chat.RichText, notice string) chat.RichText {
	lead := notice + "\n"
	if strings.HasPrefix(t.Text, lead) || t.Text == notice {
		return t
	}
	if t.Text == "" {
		return chat.PlainText(notice)
	}
	m := chat.RichText{Text: lead + t.Text}
	for _, s := range t.Spans {
		s.Start += len(lead)
		s.End += len(lead)
		m.Spans = append(m.Spans, s)
	}
	return m
}
