package chat

import (
	"errors"
	"fmt"
	"time"
)

// An Outbound is one message as it leaves: at most one platform message of
// text, or one file with an optional caption.
type Outbound struct {
	// ID is ours, the same for each attempt: where a platform takes an
	// idempotency key, this is it.
	ID      string     `json:"id"`
	To      Address    `json:"to"`
	Text    RichText   `json:"text,omitzero"`
	ReplyTo string     `json:"re,omitempty"` // platform id of the message to quote
	File    *File      `json:"file,omitempty"`
	Buttons [][]Button `json:"btn,omitempty"`
	// Quiet asks for no notification sound, for notices and progress.
	Quiet bool `json:"quiet,omitempty"`
	// ReplyContext is set where Features.Raw is.
	ReplyContext *ReplyContext `json:"about,omitempty"`
}

// A Button is one choice under a message. Data comes back in a Callback and is
// at most 64 bytes.
type Button struct {
	Label string `json:"l"`
	Data  string `json:"d"`
}

// A Receipt proves that the platform has a message.
type Receipt struct {
	ID string `json:"id"` // the platform's message id
}

// A SendError is how an adapter says what became of a send that did not
// succeed. Any other error from Send, Edit or Delete counts as uncertain.
type SendError struct {
	Outcome Outcome
	// RetryAfter is how long the platform asks to wait, to the letter; 0 if it does
	// not say.
	RetryAfter time.Duration
	// AccountWide says that After holds for the whole account and not for one chat.
	AccountWide bool
	// MigratedTo is the chat's new address, when the platform says that it moved.
	MigratedTo *Address
	// Reason is for people: what happened, and where possible what to do.
	Reason string
	Err    error
}

// An Outcome is what is known about a send that did not succeed.
type Outcome int

// The outcomes. Refused may be tried again; Rejected may not: the platform
// will never take this message (blocked by the user, chat gone).
const (
	Uncertain Outcome = iota // it may or may not have arrived
	Transient                // it certainly did not arrive; try again later
	Permanent                // it certainly did not arrive and never will
)

func (e *SendError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

// ErrGone is wrapped by an edit or a deletion of a message that no longer
// exists or can no longer be changed.
var ErrGone = errors.New("chat: message is gone")

// A ConfigError is an error that only the operator can mend, such as a bad
// token. The platform stays down, the others go on.
type ConfigError struct {
	Platform Platform
	Reason   string // one line: what is wrong and what to do
}

func (e *ConfigError) Error() string { return string(e.Platform) + ": " + e.Reason }
