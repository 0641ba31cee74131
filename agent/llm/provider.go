package llm

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// A Request is one call of a model.
type Request struct {
	Model      string
	System     string    // the cached prompt; "" for none
	Tools      []Tool    // in the order in which they are frozen
	Prefill    []Message // between the cached prompt and the transcript
	Transcript *Transcript
	// Overlay is this call's own text. The provider puts it at the very end of
	// the last message, after the last cache mark; it is never stored.
	Overlay string
	// Turn is the text of the turn under way; nil for none.
	Turn *TurnOverlay
	// SystemOverlay stands in a system block of its own behind the cached
	// prompt. It is part of the prefix, but not stored.
	SystemOverlay string
	MaxTokens     int // of the answer; 0: the provider's default
	// NoTools keeps the tools array as it is but forbids their use.
	NoTools bool
	Effort  string // "", "none", "minimal", "low", "medium", "high", "xhigh"
	// DropThinking replays the transcript without its thinking blocks. It is
	// for the one retry after an error of class PrefixCheck.
	DropThinking bool
	// CacheTTL is "", "5m" or "1h"; providers without cache marks ignore it.
	CacheTTL string
}

// A TurnOverlay is an overlay that stays where it is for the calls of one turn:
// at the end of the message with which the turn began, behind its cache mark.
// So thinking of that turn stands behind the same bytes in each of them. The
// turns before it are replayed without their thinking, which was bound to
// overlays that are gone.
type TurnOverlay struct {
	At   int // index in the transcript of the message that began the turn
	Text string
}

// A Provider calls models of one service. Its methods may be called from any
// goroutine.
type Provider interface {
	// Name is how people know the provider: "anthropic", "openrouter".
	Name() string
	// Stream asks for an answer and yields it as it comes. The last event of a
	// complete answer is Done; a sequence that ends in an error, or without
	// Done, is no answer. Errors are *Error, or ctx's cause.
	Stream(ctx context.Context, r *Request) iter.Seq2[Event, error]
}

// A TurnScoped is a Provider that behaves differently over the calls of one turn:
// one that fell back stays with the model that answers until the turn ends.
type TurnScoped interface {
	Provider
	// Turn returns the provider for the calls of one turn.
	Turn() Provider
}

// An Event is one piece of an answer: TextDelta, ThinkingDelta, ToolStart,
// Notice or Done.
type Event interface{ event() }

// A TextDelta is more text for the person.
type TextDelta string

// A ThinkingDelta is more of the model's reasoning. It is never shown unless
// the person asked for it.
type ThinkingDelta string

// ToolStart says that the model has begun to write a call of the named tool.
type ToolStart struct{ Name string }

// A Notice tells what the provider did to get an answer: it tried again, or it
// fell back to another model. What had been streamed before it is void.
type Notice struct {
	Retry    int           // number of the try that follows, from 1
	After    time.Duration // how long it waits before it
	Fallback string        // "provider/model" that takes over; "" for a plain retry
	Err      error         // why
}

// Done ends an answer.
type Done struct {
	Message  Message
	Stop     StopReason
	Usage    Usage
	Model    string // the model that answered
	Provider string // the provider that answered
}

func (TextDelta) event()     {}
func (ThinkingDelta) event() {}
func (ToolStart) event()     {}
func (Notice) event()        {}
func (Done) event()          {}

// A StopReason says why a model stopped.
type StopReason string

// The reasons to stop.
const (
	EndTurn   StopReason = "end_turn"
	CallTools StopReason = "tool_use"
	Length    StopReason = "length"
	Refusal   StopReason = "refusal"
	Paused    StopReason = "pause" // the provider wants to be called again with what it said
)

// Usage counts tokens as the provider reports them. Input excludes what was
// read from or written to a cache.
type Usage struct {
	Input      int `json:"in"`
	CacheRead  int `json:"read,omitempty"`
	CacheWrite int `json:"write,omitempty"`
	Output     int `json:"out"`
	// CacheWrite1h is the part of CacheWrite that is kept for an hour.
	CacheWrite1h int `json:"write_1h,omitempty"`
}

// Prompt is the number of tokens that the model was given.
func (u Usage) Prompt() int { return u.Input + u.CacheRead + u.CacheWrite }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Output: u.Output + v.Output, CacheWrite1h: u.CacheWrite1h + v.CacheWrite1h,
	}
}

// A Class says what kind of failure an Error is; it decides what helps.
type Class string

// The classes of failure.
const (
	Auth            Class = "auth"         // 401, 403: the key
	Billing         Class = "billing"      // 402, spending limits
	RateLimit       Class = "rate_limit"   // 429
	Overloaded      Class = "overloaded"   // 503, 529
	Server          Class = "server_error" // 500, 502, 504
	Timeout         Class = "timeout"      // no answer, or a stream that stopped
	Network         Class = "network"      // no connection, or one that was cut
	ContextOverflow Class = "context_overflow"
	TooLarge        Class = "payload_too_large"
	ImageTooLarge   Class = "image_too_large"
	NotFound        Class = "model_not_found"
	ContentPolicy   Class = "policy"          // refused for its content
	Format          Class = "format_error"    // the request is malformed
	PrefixCheck     Class = "thinking_prefix" // thinking blocks do not fit the prefix
	InvalidResponse Class = "garbage"         // an answer that cannot be understood
	Unknown         Class = "unknown"
)

// An Error is a failed call of a model.
type Error struct {
	Class    Class
	Provider string
	Status   int           // HTTP status; 0 if there was none
	After    time.Duration // the server's hint; 0 if it gave none
	Message  string        // the provider's own words, without secrets
	// Limit is the context length that an overflow error named; 0 if none.
	Limit int
	// MaxTokens is the most that Request.MaxTokens could have been, when that
	// is why the request was refused as malformed; 0 if it is not, or not said.
	MaxTokens int
	Err       error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Provider, e.Class)
	if e.Status != 0 {
		s += fmt.Sprintf(" (%d)", e.Status)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later.
func (e *Error) Temporary() bool {
	switch e.Class {
	case RateLimit, Overloaded, Server, Timeout, Network, InvalidResponse, Unknown:
		return true
	}
	return false
}
