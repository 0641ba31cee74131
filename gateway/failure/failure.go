// Package failure formats the messages that tell users why there is no answer and
// what they can do. Message is for a chat message, Job for a scheduled prompt, which a
// user cannot send again.
//
// An unknown error gets a general message; its details are only in the log. Texts
// that are stored (in `why`, outcomes and transcripts) use the zero i18n.Printer, which
// prints English. Except for FallbackCounter the package has no state.
package failure

import (
	"errors"
	"strings"
	"sync"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
)

// ErrInactive is the cancellation cause of a turn that makes no progress.
var ErrInactive = errors.New("turn: no progress")

// A JobError is an error in a scheduled prompt itself. Its text, which includes what to
// do about it, is shown to users unchanged.
type JobError struct{ Err error } // made by i18n.Errorf

func (f *JobError) Error() string { return f.Err.Error() }

// Unwrap returns f.Err.
func (f *JobError) Unwrap() error { return f.Err }

// Refused returns the text that follows an answer, or the file of an answer, that a
// platform refuses for reason. file is "" for a text.
func Refused(p i18n.Printer, file, reason string) string {
	if file != "" {
		return p.T("⚠️ I could not send the file `%s`: %s.", strings.ReplaceAll(file, "`", "'"), p.Translate(reason))
	}
	return p.T("⚠️ I could not send an answer: %s.", p.Translate(reason))
}

// Message returns the text for the sender of a message that failed with err: what
// happened and what to do next.
func Message(p i18n.Printer, err error) string {
	var le *llm.Error
	var fault *JobError
	switch {
	case err == nil:
		return p.T("It is not known why.")
	case errors.Is(err, ErrInactive):
		return p.T("Nothing happened for too long, so I gave up. Send the message again to try once more.")
	case errors.Is(err, agent.ErrEmpty):
		return p.T("The model gave an empty answer three times. Ask again, perhaps in other words.")
	case errors.As(err, &le):
		return model(p, le)
	case errors.As(err, &fault):
		return p.LocalizeError(fault.Err)
	case declined(err):
		return p.T("The model declined to answer this. Ask in other words, or start over with `/new`.")
	}
	return p.T("Something went wrong on my side. Send the message again; if it stays, the operator finds the reason in the log.")
}

// Summary returns the first sentence of Message, without the full stop: what happened,
// without what to do.
func Summary(p i18n.Printer, err error) string {
	what, _, _ := strings.Cut(Message(p, err), ". ")
	return strings.TrimSuffix(what, ".")
}

// Job returns the text about a run of the scheduled prompt id that failed with err:
// what happened and what to do next.
func Job(p i18n.Printer, err error, id schedule.JobID) string {
	var le *llm.Error
	var fault *JobError
	short := Summary(p, err) + ". "
	switch {
	case errors.As(err, &le):
		return modelOfJob(p, le, id)
	case errors.As(err, &fault):
		return p.LocalizeError(fault.Err)
	case declined(err):
		return short + reword(p, id)
	case errors.Is(err, ErrInactive), errors.Is(err, agent.ErrEmpty):
		return short + runAgain(p, id)
	}
	return short + runOrAsk(p, id)
}

func runAgain(p i18n.Printer, id schedule.JobID) string {
	return p.T("`/cron run %s` runs it once more.", id)
}

func runOrAsk(p i18n.Printer, id schedule.JobID) string {
	return p.T("`/cron run %s` runs it once more; if it stays, the operator finds the reason in the log.", id)
}

func reword(p i18n.Printer, id schedule.JobID) string {
	return p.T("Have its words changed: tell me, or use `hermesd cron edit %s`.", id)
}

func declined(err error) bool {
	var refused *agent.RefusedError
	return errors.As(err, &refused)
}

func model(p i18n.Printer, e *llm.Error) string {
	provider := e.Provider
	switch e.Class {
	case llm.Auth:
		return p.T("%s refuses the key. The operator must set a valid one (`hermesd config check`).", provider)
	case llm.Billing:
		return p.T("%s says that the account's credit or limit is used up. The operator must top it up.", provider)
	case llm.RateLimit:
		return p.T("%s takes no more requests for now%s. Send the message again then.", provider, formatAfter(p, e.After))
	case llm.Overloaded:
		return p.T("%s is overloaded. Send the message again in a few minutes.", provider)
	case llm.Server, llm.Timeout, llm.Network, llm.InvalidResponse:
		return p.T("%s returned an error (%s). Send the message again in a few minutes.", provider, trouble(p, e.Class))
	case llm.ContextOverflow, llm.TooLarge:
		return p.T("This conversation has become too long for the model. `/new` starts a fresh one; the old one is kept.")
	case llm.ImageTooLarge:
		return p.T("The image is too large for the model. Send a smaller one.")
	case llm.NotFound:
		return p.T("%s does not know the configured model. The operator must set `model.default`.", provider)
	case llm.ContentPolicy:
		return p.T("%s declined this for its content. Ask in other words, or start over with `/new`.", provider)
	}
	return p.T("%s refused the request. Send it again; if it stays, the operator finds the reason in the log.", provider)
}

func modelOfJob(p i18n.Printer, e *llm.Error, id schedule.JobID) string {
	short := Summary(p, e) + ". "
	switch e.Class {
	case llm.Auth, llm.Billing, llm.NotFound: // the message says what the operator must do
		return model(p, e) + " " + p.T("After that `/cron run %s` runs it once more.", id)
	case llm.RateLimit, llm.Overloaded, llm.Server, llm.Timeout, llm.Network, llm.InvalidResponse:
		return short + p.T("`/cron run %s` runs it once more, in a few minutes.", id)
	case llm.ContextOverflow, llm.TooLarge:
		return short + p.T("Have its prompt, or what its script writes, made shorter: `hermesd cron edit %s`.", id)
	case llm.ContentPolicy:
		return short + reword(p, id)
	}
	return short + runOrAsk(p, id)
}

// trouble returns a short name of the class of a failed model call.
func trouble(p i18n.Printer, c llm.Class) string {
	switch c {
	case llm.Server:
		return p.T("server error")
	case llm.Timeout:
		return p.T("timeout")
	case llm.Network:
		return p.T("network")
	}
	return p.T("invalid response")
}

// formatAfter returns the wait that a provider asked for, in parentheses, "" if there is
// none.
func formatAfter(p i18n.Printer, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return p.T(" (about %v)", d.Round(time.Second))
}

// An AbandonReason is the reason why a turn is not started or not resumed.
type AbandonReason int

// The reasons.
const (
	Suspended   AbandonReason = iota // the daemon crashed repeatedly during turns of the session
	Interrupted                      // the turn was interrupted too long ago
	TooOld                           // the message is too old; it came while the daemon was down
)

// Message returns the text for the sender of n messages.
func (r AbandonReason) Message(p i18n.Printer, n int) string {
	if n > 1 {
		return r.messages(p, n)
	}
	switch r {
	case Suspended:
		return p.T("⏸ The daemon died three times in a row while it worked in this conversation, so I do not go on with this message by myself. Write again to go on, or start a new conversation with `/new`.")
	case Interrupted:
		return p.T("I was restarted while I worked on this message, too long ago to go on by myself. Send it again if it still matters.")
	}
	return p.T("I was away when this message came, and it is too old to answer by myself now. Send it again if it still matters.")
}

func (r AbandonReason) messages(p i18n.Printer, n int) string {
	switch r {
	case Suspended:
		return p.T("⏸ The daemon died three times in a row while it worked in this conversation, so I do not go on with these %d messages by myself. Write again to go on, or start a new conversation with `/new`.", n)
	case Interrupted:
		return p.T("I was restarted while I worked on these %d messages, too long ago to go on by myself. Send them again if they still matter.", n)
	}
	return p.T("I was away when these %d messages came, and they are too old to answer by myself now. Send them again if they still matter.", n)
}

// Job returns the text for the targets of the scheduled prompt id.
func (r AbandonReason) Job(p i18n.Printer, id schedule.JobID) string {
	var what string
	switch r {
	case Suspended:
		what = p.T("⏸ The daemon died three times in a row while it ran, so I do not go on with it by myself.")
	case Interrupted:
		what = p.T("I was restarted while it ran, too long ago to go on by myself.")
	default:
		what = p.T("I was away when it was due, and it is too late to begin by myself now.")
	}
	return what + " " + runAgain(p, id)
}

// FallbackStats counts how often a fallback model answered since the start of the
// process. Model, Reason and At describe the newest time.
type FallbackStats struct {
	Count  int       `json:"count"`
	Model  string    `json:"model,omitempty"` // provider/model
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// A FallbackCounter counts fallbacks. The zero FallbackCounter is ready for use. Its
// methods may be called from any goroutine.
type FallbackCounter struct {
	mu    sync.Mutex // guards what follows
	stats FallbackStats
}

// Add counts one fallback to model ("provider/model") because of err.
func (c *FallbackCounter) Add(model string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats = FallbackStats{c.stats.Count + 1, model, Summary(i18n.Printer{}, err), time.Now()}
}

// Snapshot returns the current statistics.
func (c *FallbackCounter) Snapshot() FallbackStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
