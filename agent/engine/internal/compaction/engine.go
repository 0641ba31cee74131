package compaction

import (
	"context"
	"encoding/json"
	"sync"

	"hermesd/agent"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
)

// A Summarizer writes the summary of the older part of a context. It is used by
// one goroutine at a time, except that Save may be called from any.
type Summarizer interface {
	// Name returns the name of the engine.
	Name() string
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

// window returns the context length in tokens.
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

// withState calls f with the locked state.
func (e *Engine) withState(f func(*state)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.state)
}
