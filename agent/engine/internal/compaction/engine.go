// Package compaction implements the parts that the built-in context engines
// share: when a compaction is due, which part of the context it replaces, and
// the cooldowns after failures. The main type is Engine. A Summarizer writes
// the summary.
package compaction

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"hermesd/agent"
	"hermesd/agent/engine/internal/redact"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Summarizer writes the summary of the older part of a context. It is used by
// one goroutine at a time, except that Save may be called from any.
type Summarizer interface {
	// Name returns the name of the engine.
	Name() string
	// MaxSize returns the maximum size, in tokens, of what Write returns where it should
	// have at most so many.
	MaxSize(tokens int) int
	// Write returns the text that replaces p.Messages.
	Write(ctx context.Context, w *summary.Writer, p SummaryInput) (string, error)
	// Save returns the state to store, as JSON; Write has updated it. The
	// caller may discard a compaction: then the messages of the next one do not
	// follow those in the state, and the Summarizer must forget the messages
	// that are not archived.
	Save() json.RawMessage
}

// A SummaryInput describes the messages that a summary replaces.
type SummaryInput struct {
	Messages []llm.Message // pruned; without earlier summaries
	Previous string        // the summary so far; "" for none
	// From is the number, in the whole transcript, of the first message that is
	// archived now; To is the number after the last one. Start is the number of
	// the first active message.
	From, To, Start int
	First           int    // number of the first message that Previous covers
	Budget          int    // tokens for the summary of Messages
	Most            int    // tokens for the whole replacement text
	Focus           string // topic that is kept in most detail
	User            string // a sample of the user's text
	WithoutModel    bool   // no model is called
}

// An Engine implements agent.Engine and agent.Lifecycle on top of a Summarizer.
type Engine struct {
	o Options
	s Summarizer

	mu          sync.Mutex // guards what follows
	limits      agent.Limits
	tokenLimits TokenLimits
	state       state
}

// New returns the engine of one session. If o.State has a Summarizer state,
// read is called with it before New returns.
func New(o Options, s Summarizer, read func(json.RawMessage)) *Engine {
	e := &Engine{o: o, s: s, state: loadState(o.State, s.Name())}
	if read != nil && len(e.state.Summarizer) > 0 {
		read(e.state.Summarizer)
	}
	e.Limits(o.Limits)
	return e
}

func (e *Engine) Name() string { return e.s.Name() }

// Update implements agent.Engine. It does nothing: the caller tracks the usage.
func (e *Engine) Update(llm.Usage) {}

func (e *Engine) Limits(l agent.Limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limits, e.tokenLimits = l, e.o.Settings.TokenLimits(contextLength(l))
}

// TokenLimits returns the limits derived from the settings and the model.
func (e *Engine) TokenLimits() TokenLimits {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tokenLimits
}

func (e *Engine) window() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return contextLength(e.limits)
}

// ShouldCompress implements agent.Engine. Compress checks the cooldowns.
func (e *Engine) ShouldCompress(tokens int) bool { return tokens >= e.TokenLimits().Threshold }

func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.endCooldown()
}

// End implements agent.Lifecycle. The engine has no resources.
func (e *Engine) End() {}

func (e *Engine) State() json.RawMessage {
	e.mu.Lock()
	st := e.state
	e.mu.Unlock()
	raw, err := json.Marshal(st)
	if err != nil {
		return nil // the Summarizer's state is not JSON: a bug; the session continues without state
	}
	return raw
}

func (e *Engine) Status() agent.EngineStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return agent.EngineStatus{
		Engine: e.s.Name(), Threshold: e.tokenLimits.Threshold, Passes: e.state.Passes, Archived: e.state.Archived,
		Last: e.state.Last, Cooldown: e.state.cooldownReason(),
	}
}

func (e *Engine) withState(f func(*state)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.state)
}

// Settings are the settings under `compression` that an engine uses.
type Settings struct {
	Threshold          float64 // fraction of the context length from which on a compaction is due
	TargetRatio        float64 // size of the tail, as a fraction of the threshold
	ProtectLastN       int     // minimum number of messages in the tail
	ProtectFirstN      int     // messages at the beginning, including the system prompt
	MinThresholdTokens int     // minimum of the threshold; 0 for none
}

// Options are the parameters of New.
type Options struct {
	Settings Settings
	Limits   agent.Limits
	// Completer writes summaries. Main is called once if it fails; nil if
	// Completer already is the main model.
	Completer, Main summary.Completer
	// State is the result of State of an engine of the same session. Invalid
	// state is ignored.
	State json.RawMessage
	// Redact removes secrets that are known by value; nil for none. Text in the
	// form of a secret is removed in any case.
	Redact func(string) string
}

// TokenLimits are derived from the settings and the context length of a model.
type TokenLimits struct {
	Threshold int // tokens from which on a compaction is due
	Tail      int // size of the tail in tokens
	Summary   int // maximum size of a summary in tokens
}

// Limits of a summary, in tokens and fractions.
const (
	summaryShare  = 0.20 // of the messages that it replaces
	minSummary    = 2_000
	maxSummary    = 12_000
	windowSummary = 0.05
	smallWindow   = 0.80
)

// TokenLimits returns the limits for a context length in tokens.
func (s Settings) TokenLimits(window int) TokenLimits {
	t := fraction(s.Threshold, window)
	if t < s.MinThresholdTokens {
		t = min(s.MinThresholdTokens, fraction(smallWindow, window))
	}
	return TokenLimits{
		Threshold: t, Tail: fraction(s.TargetRatio, t),
		Summary: min(fraction(windowSummary, window), maxSummary),
	}
}

// SummaryBudget returns the size of a summary of middle tokens.
func (f TokenLimits) SummaryBudget(middle int) int {
	return min(max(fraction(summaryShare, middle), minSummary), f.Summary)
}

// fraction returns share of n, rounded down. A tolerance hides the rounding
// error of the floating-point share.
func fraction(share float64, n int) int { return int(math.Floor(share*float64(n) + 1e-6)) }

func (o Options) redact(s string) string {
	if o.Redact != nil {
		s = o.Redact(s)
	}
	return redact.Text(s)
}

func contextLength(l agent.Limits) int {
	if l.Window > 0 {
		return l.Window
	}
	return tokens.DefaultContext
}

// state is the part of an engine that is stored with its session.
type state struct {
	Engine      string          `json:"engine"`
	Passes      int             `json:"passes,omitempty"`
	Archived    int             `json:"archived,omitempty"`
	Last        string          `json:"last,omitempty"`
	Failures    int             `json:"failures,omitempty"` // consecutive
	Until       time.Time       `json:"until,omitzero"`     // end of the cooldown after a failure
	Reason      string          `json:"why,omitempty"`      // text of the last failure
	Ineffective int             `json:"ineffective,omitempty"`
	Resume      int             `json:"resume,omitempty"` // number of the message that ends the pause
	Banner      string          `json:"banner,omitempty"` // digest of the newest summary block
	From        int             `json:"from,omitempty"`   // number of the first message that it covers
	Body        string          `json:"body,omitempty"`   // text of the newest summary
	Summarizer  json.RawMessage `json:"scribe,omitempty"` // state of the Summarizer
	HasSummary  bool            `json:"stands,omitempty"` // From and Body are valid
}

// loadState parses raw. It returns an empty state unless raw was stored by an
// engine called name.
func loadState(raw json.RawMessage, name string) state {
	var s state
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.Engine != name || s.Failures < 0 || s.Ineffective < 0 {
		return state{Engine: name}
	}
	return s
}

// Cooldowns after one, two, and more consecutive failures.
var cooldowns = [...]time.Duration{60 * time.Second, 300 * time.Second, 900 * time.Second}

// Compactions that save little pause automatic compaction.
const (
	minSavedPercent  = 10 // percentage of the tokens that a compaction must save
	maxIneffective   = 2  // compactions that saved less
	ineffectivePause = 20 // length of the pause, in messages
)

func (s *state) recordFailure(err error) {
	s.Failures++
	s.Until = time.Now().Add(cooldowns[min(s.Failures, len(cooldowns))-1]).UTC().Round(0)
	s.Reason = err.Error()
}

// recordIneffective counts a compaction that did not help; end is the number of
// the next message.
func (s *state) recordIneffective(end int) {
	if s.Ineffective++; s.Ineffective >= maxIneffective {
		s.Resume = end + ineffectivePause
	}
}

// coolingDown reports whether automatic compaction is paused when the next
// message has the number end. It ends a pause that is over.
func (s *state) coolingDown(end int) bool {
	if s.Ineffective >= maxIneffective && end >= s.Resume {
		s.Ineffective, s.Resume = 0, 0
	}
	return s.Ineffective >= maxIneffective || s.inFailureCooldown()
}

// inFailureCooldown reports whether the cooldown after a failure is running.
// One that is longer than the longest cooldown means that the clock was set
// back.
func (s *state) inFailureCooldown() bool {
	left := time.Until(s.Until)
	return left > 0 && left <= cooldowns[len(cooldowns)-1]
}

func (s *state) endCooldown() {
	s.Failures, s.Until, s.Reason, s.Ineffective, s.Resume = 0, time.Time{}, "", 0, 0
}

// cooldownReason says, for people, why automatic compaction is paused; "" if it
// is not.
func (s *state) cooldownReason() string {
	switch {
	case s.inFailureCooldown():
		return fmt.Sprintf("until %s, because the last pass failed: %s", s.Until.Format(time.RFC3339), s.Reason)
	case s.Ineffective >= maxIneffective:
		return fmt.Sprintf("the last %d passes saved under %d %%; it goes on after %d more messages, /compress or /new", s.Ineffective, minSavedPercent, ineffectivePause)
	}
	return ""
}

// Kept returns the state of the Summarizer of the engine called name from raw,
// an engine state; nil if there is none.
func Kept(raw json.RawMessage, name string) json.RawMessage { return loadState(raw, name).Summarizer }
