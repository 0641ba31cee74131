package chat

import (
	"errors"
	"fmt"
	"time"
)

// An Outbound is one message to send: text that fits into one platform message, or one
// file with an optional caption.
type Outbound struct {
	// ID is the same for each delivery attempt. It is used as idempotency key on
	// platforms that accept one.
	ID      string     `json:"id"`
	To      Address    `json:"to"`
	Text    RichText   `json:"text,omitzero"`
	ReplyTo string     `json:"re,omitempty"` // platform ID of the message to quote
	File    *File      `json:"file,omitempty"`
	Buttons [][]Button `json:"btn,omitempty"`
	// CreatedAt is set for Find only: the message was not sent before. Zero: unknown.
	CreatedAt time.Time `json:"-"`
	// Quiet sends without notification sound, for notices and progress.
	Quiet bool `json:"quiet,omitempty"`
	// ReplyContext is set for adapters with Capabilities.RawMarkdown.
	ReplyContext *ReplyContext `json:"about,omitempty"`
}

// A Button is one choice below a message. Data is returned in a Callback event and has
// at most 64 bytes.
type Button struct {
	Label string `json:"l"`
	Data  string `json:"d"`
}

// A Receipt is the proof that the platform has a message.
type Receipt struct {
	ID string `json:"id"` // the platform's message ID
}

// A SendError describes a failed send. Any other error from Send, Edit or Delete counts
// as uncertain.
type SendError struct {
	Outcome Outcome
	// RetryAfter is exactly the waiting time that the platform requests; 0 if none.
	RetryAfter time.Duration
	// AccountWide: RetryAfter applies to the whole account, not only to one chat.
	AccountWide bool
	// MigratedTo is the chat's new address, if the platform reports a migration.
	MigratedTo *Address
	// Refused: it is Permanent because of what the message contains. Another message may
	// be accepted, so the user can be told.
	Refused bool
	// Reason says for the user what happened and, where possible, what to do.
	Reason string
	Err    error
}

// An Outcome is what is known about a failed send.
type Outcome int

// The outcomes. A Transient failure is retried. A Permanent one is not: the platform
// will never accept this message, because the user has blocked the bot, for example.
const (
	Uncertain Outcome = iota // it may or may not have arrived
	Transient                // it certainly did not arrive; retry later
	Permanent                // it certainly did not arrive; never retry
)

func (e *SendError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

// ErrGone is wrapped by the error of an edit or a deletion if the message no longer
// exists or can no longer be changed.
var ErrGone = errors.New("chat: message is gone")

// A ConfigError is an error that only the operator can fix, such as an invalid token.
// The platform stays disconnected; the others are not affected.
type ConfigError struct {
	Platform Platform
	Reason   string // one line: what is wrong and what to do
}

func (e *ConfigError) Error() string { return string(e.Platform) + ": " + e.Reason }
