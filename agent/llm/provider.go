package llm

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"
)

// A Request is one call of a model.
type Request struct {
	Model      string
	System     string    // the cached prompt; "" for none
	Tools      []Tool    // in their frozen order
	Prefill    []Message // between the cached prompt and the transcript
	Transcript *Transcript
	// Overlay is text of this call only. The provider puts it at the very end of the last
	// message, after the last cache breakpoint; it is never stored.
	Overlay string
	// Turn is the overlay of the current turn; nil for none.
	Turn *TurnOverlay
	// SystemOverlay is sent as a separate system block after the cached prompt. It is part
	// of the prefix, but not stored.
	SystemOverlay string
	MaxTokens     int // limit of the answer; 0: the provider's default
	// OutputLimit is the most that the model can write in one answer, thinking included; 0
	// if it is not known. No request asks for more.
	OutputLimit int
	// NoTools sends the tools unchanged but forbids their use.
	NoTools bool
	Effort  string // "", "none", "minimal", "low", "medium", "high", "xhigh"
	// DropThinking replays the transcript without its thinking blocks. It is for the one
	// retry after an error of class PrefixCheck.
	DropThinking bool
	// CacheTTL is "", "5m" or "1h"; providers without cache breakpoints ignore it.
	CacheTTL string
}

// A TurnOverlay is an overlay that keeps its place for all calls of one turn: at the end of
// the message that began the turn, after its cache breakpoint. The thinking of that turn
// therefore follows the same bytes in each call. Earlier turns are replayed without their
// thinking, which was bound to overlays that no longer exist.
type TurnOverlay struct {
	At   int // index in the transcript of the message that began the turn
	Text string
}

// A Provider calls models of one service. Its methods may be called from any goroutine.
type Provider interface {
	// Name returns the name of the provider in configuration and messages: "anthropic",
	// "openrouter".
	Name() string
	// Stream requests an answer and yields its events as they arrive. The last event of a
	// complete answer is Done; a sequence that ends in an error, or without Done, is not an
	// answer. Errors are *Error, or the cause of ctx.
	Stream(ctx context.Context, r *Request) iter.Seq2[Event, error]
}

// A TurnScoped is a Provider with state that lasts for a turn: after a fallback it keeps
// using the model that answered until the turn ends.
type TurnScoped interface {
	Provider
	// Turn returns the provider for the calls of one turn.
	Turn() Provider
}

// An Event is one piece of an answer: TextDelta, ThinkingDelta, ToolStart,
// Notice or Done.
type Event interface{ event() }

// A TextDelta is the next piece of the answer's text.
type TextDelta string

// A ThinkingDelta is the next piece of the model's reasoning. It is shown only if the user
// asked for it.
type ThinkingDelta string

// ToolStart reports that the model has begun to write a call of the named tool.
type ToolStart struct{ Name string }

// A Notice reports a retry or a fallback to another model. Everything that was streamed
// before it is void.
type Notice struct {
	Retry    int           // number of the retry that follows, from 1
	After    time.Duration // wait before the retry
	Fallback string        // "provider/model" of the fallback; "" for a retry of the same model
	Err      error         // the failure
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

// A StopReason is the reason why a model stopped.
type StopReason string

// The stop reasons.
const (
	EndTurn   StopReason = "end_turn"
	CallTools StopReason = "tool_use"
	Length    StopReason = "length"
	Refusal   StopReason = "refusal"
	Paused    StopReason = "pause" // the provider expects another call with its answer so far
)

// Usage counts tokens as reported by the provider. Input excludes tokens that were read
// from or written to a cache.
type Usage struct {
	Input      int `json:"in"`
	CacheRead  int `json:"read,omitempty"`
	CacheWrite int `json:"write,omitempty"`
	Output     int `json:"out"`
	// CacheWrite1h is the part of CacheWrite with a time to live of one hour.
	CacheWrite1h int `json:"write_1h,omitempty"`
}

// Prompt returns the number of input tokens, cached ones included.
func (u Usage) Prompt() int { return u.Input + u.CacheRead + u.CacheWrite }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Output: u.Output + v.Output, CacheWrite1h: u.CacheWrite1h + v.CacheWrite1h,
	}
}

// A Class is the kind of failure of an Error. It decides which remedy is tried.
type Class string

// The classes of failure.
const (
	Auth            Class = "auth"         // 401, 403: invalid key
	Billing         Class = "billing"      // 402, spending limits
	RateLimit       Class = "rate_limit"   // 429
	Overloaded      Class = "overloaded"   // 503, 529
	Server          Class = "server_error" // 500, 502, 504
	Timeout         Class = "timeout"      // no answer, or a stream that stopped
	Network         Class = "network"      // no connection, or one that broke
	ContextOverflow Class = "context_overflow"
	TooLarge        Class = "payload_too_large"
	ImageTooLarge   Class = "image_too_large"
	NotFound        Class = "model_not_found"
	ContentPolicy   Class = "policy"          // refused for its content
	Format          Class = "format_error"    // the request is malformed
	PrefixCheck     Class = "thinking_prefix" // thinking blocks do not match the prefix
	InvalidResponse Class = "garbage"         // an answer that cannot be decoded
	Unknown         Class = "unknown"
)

// An Error is a failed call of a model.
type Error struct {
	Class    Class
	Provider string
	Status   int           // HTTP status; 0 if there was none
	After    time.Duration // delay that the server asked for; 0 if none
	Message  string        // the provider's own text, without secrets
	// Limit is the context length that an error of class ContextOverflow named; 0 if none.
	Limit int
	// MaxTokens is the largest Request.MaxTokens that the provider would accept, if the
	// request was rejected as malformed for that reason; 0 otherwise.
	MaxTokens int
	// OutputLimit is the model's own limit of output tokens, if the error named it, whatever
	// the length of the request; 0 otherwise.
	OutputLimit int
	Err         error
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

// CacheBreakpoints reports whether calls of model carry cache breakpoints. source names the
// owner of the cache, or the reason why there are none. It is evaluated for each call, so
// that a model switch or a fallback decides again.
//
// provider is the name of the provider; "anthropic" is every endpoint of the Messages API.
// baseURL may be empty for the provider's own address.
func CacheBreakpoints(provider, model, baseURL string) (on bool, source string) {
	claude := strings.Contains(strings.ToLower(model), "claude")
	switch host := hostOf(baseURL); {
	case provider == "anthropic" && (host == "" || isHost(host, "anthropic.com")):
		return true, "native Anthropic"
	case provider == "anthropic" && claude:
		return true, "Anthropic-compatible endpoint"
	case provider == "anthropic":
		return false, model + " is no claude model, and " + host + " is not Anthropic's"
	case provider == "openrouter" || isHost(host, "openrouter.ai"):
		if claude {
			return true, "Claude via OpenRouter"
		}
		return false, "OpenRouter takes marks only for claude models; others keep equal prefixes by themselves, or not at all"
	}
	return false, provider + " keeps equal prefixes by itself, or not at all"
}

// ValidTTL reports whether ttl is a time to live that a cache supports: "5m" or "1h".
func ValidTTL(ttl string) bool { return ttl == "5m" || ttl == "1h" }

// CachingLine returns the line about prompt caching that is shown at start-up and in the
// status. ttl "" means that cache breakpoints are switched off.
func CachingLine(provider, model, baseURL, ttl string) string {
	on, source := CacheBreakpoints(provider, model, baseURL)
	switch {
	case !on:
		return "Prompt caching: off (" + source + ")"
	case !ValidTTL(ttl):
		return "Prompt caching: off (prompt_caching.cache_ttl is neither 5m nor 1h)"
	}
	return fmt.Sprintf("💾 Prompt caching: ENABLED (%s, %s TTL)", source, ttl)
}

func hostOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return baseURL // matches no known service
	}
	return strings.ToLower(u.Hostname())
}

func isHost(host, domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
