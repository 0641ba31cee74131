package provider

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrUnknown means that a provider cannot tell whether it has an event.
var ErrUnknown = errors.New("the provider cannot tell")

// ErrFailed means that a provider has accepted an event and could not process it.
var ErrFailed = errors.New("the provider has accepted this and could not process it")

// ErrImpossible is wrapped by the error of Open for a mode that only upstream's Python
// program has. The text says what to do instead.
var ErrImpossible = errors.New("this mode cannot be used here")

// A Class says what a failed call means.
type Class string

// Classes of errors.
const (
	Auth     Class = "auth"      // the key is missing or refused: 401, 403
	Limit    Class = "limit"     // 429
	Down     Class = "down"      // not reached, too slow, or 5xx
	TooLarge Class = "too_large" // 413
	Refused  Class = "refused"   // any other 4xx: the same call fails again
	Garbage  Class = "garbage"   // the answer has not the form of the API
)

// An Error is a failed call.
type Error struct {
	Class      Class
	Status     int           // of the HTTP answer; 0 if there was none
	RetryAfter time.Duration // that the provider asks for; 0 if it does not
	// Sent: the call may have had an effect, although it failed.
	Sent bool
	Text string // for people: no key, no text of a conversation
	Err  error  // nil if there is none
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d)", e.Text, e.Status)
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.Err }

// StatusOf returns the status of the HTTP answer that err tells of; 0 if there was none.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// IsMissing reports whether err means that the provider does not have what was named.
func IsMissing(err error) bool { return StatusOf(err) == http.StatusNotFound }

// ClassOf returns the class of err; Down for an error that is not an *Error.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Down
}
