package compaction

import (
	"context"
	"encoding/json"
	"sync"

	"hermesd/agent"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
)

// A Summarizer writes the older part of a context down. One goroutine at a time uses
// it, except that Save may be called from any.
type Summarizer interface {
	// Name is that of the engine.
	Name() string
	// Write returns what takes the place of what p holds.
	Write(ctx context.Context, w *summary.Writer, p SummaryInput) (string, error)
	// Save is what is kept, as JSON; Write has made it. A pass may be discarded
	// by others: then the messages that the next one takes are not behind those
	// that were kept, and the scribe forgets what is not archived.
	Save() json.RawMessage
}

// A SummaryInput is what a summary is to stand for.
type SummaryInput struct {
	Messages []llm.Message // pruned; earlier summaries are not among them
	Previous string        // the summary so far; "" for none
	// From and To are the numbers, in the whole transcript, of the first message
	// that is archived now and of the one behind the last. Start is the number of
	// the first message that is active.
	From, To, Start int
	First           int    // number of the first message that Previous stands for
	Budget          int    // tokens for what is summarised now
	Most            int    // tokens for everything that stands in its place
	Focus           string // what is kept best
	User            string // a sample of what the user writes
	WithoutModel    bool   // no model is asked
}

// An Engine implements agent.Engine and agent.Lifecycle around a Scribe.
type Engine struct {
	o Options
	s Summarizer

	mu     sync.Mutex // guards what follows
	limits agent.Limits
	f      TokenLimits
	st     state
}

// New returns the engine of one session. read is called with what the scribe had
// kept, if anything, before New returns.
func New(o Options, s Summarizer, read func(json.RawMessage)) *Engine {
	e := &Engine{o: o, s: s, st: load(o.State, s.Name())}
	if read != nil && len(e.st.Scribe) > 0 {
		read(e.st.Scribe)
	}
	e.Limits(o.Limits)
	return e
}

// Name implements agent.Engine.
func (e *Engine) Name() string { return e.s.Name() }

// Update implements agent.Engine. The caller keeps the reported figures.
func (e *Engine) Update(llm.Usage) {}

// Limits implements agent.Lifecycle.
func (e *Engine) Limits(l agent.Limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limits, e.f = l, e.o.Settings.TokenLimits(windowOf(l))
}

// TokenLimits returns what is derived from the settings and the model.
func (e *Engine) TokenLimits() TokenLimits {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.f
}

// ShouldCompress implements agent.Engine. Rests are Compress's business.
func (e *Engine) ShouldCompress(tokens int) bool { return tokens >= e.TokenLimits().Threshold }

// Reset implements agent.Lifecycle.
func (e *Engine) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.st.endCooldown()
}

// End implements agent.Lifecycle. The engine holds nothing.
func (e *Engine) End() {}

// State implements agent.Engine.
func (e *Engine) State() json.RawMessage {
	e.mu.Lock()
	st := e.st
	e.mu.Unlock()
	raw, err := json.Marshal(st)
	if err != nil {
		return nil // the scribe's part is not JSON: a broken invariant, and the session goes on without
	}
	return raw
}

// Status implements agent.Engine.
func (e *Engine) Status() agent.EngineStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return agent.EngineStatus{
		Engine: e.s.Name(), Threshold: e.f.Threshold, Passes: e.st.Passes, Archived: e.st.Archived,
		Last: e.st.Last, Cooldown: e.st.why(),
	}
}

// with runs f on the state.
func (e *Engine) with(f func(*state)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.st)
}
