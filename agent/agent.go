// Package agent runs one turn: it calls the model, runs the tools that the
// model calls, and repeats until there is a final answer.
//
// The main type is Agent; its methods may be called from any goroutine, but one
// run uses its transcript alone. The package knows nothing about chats: the
// consumer of the events stores what a run records and shows what it emits.
//
// A turn is a list of steps, each recorded before anything depends on it:
//
//	answer ──► start(call) ──► result(call) … ──► steer ──► answer ──► … ──► answer (final)
//	   │          only calls that may happen once
//	   └─ the model's message, and the request to continue if there was one
//
// A consumer that runs the turn again with the steps of a run that died
// continues after the last one: answers are not paid for again, results are not
// produced again, and a call that may happen only once and had started is not
// run again.
//
// When a run ends, the transcript is legal for every provider
// (llm.ValidateMessages), except that tool calls of a run whose consumer
// stopped asking for events may be open; Close repairs that.
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// A Turn is the input of one run.
type Turn struct {
	Prefix  prompt.Prefix
	Overlay prompt.PlacedOverlay
	// Prefill is sent between the cached prompt and the transcript, in each
	// call.
	Prefill []llm.Message
	// Transcript holds the earlier messages. The run appends to it; no other
	// goroutine may use it meanwhile.
	Transcript *llm.Transcript
	Model      string
	Effort     string // reasoning effort; "" uses the config
	CacheTTL   string
	MaxTokens  int // per answer; 0 uses the provider's default
	Session    string
	// Input holds the new messages: they are joined into one user message,
	// which is appended first. It may be empty if the transcript ends with a
	// user message. The run does not mask it, since the caller stores it: see
	// Agent.MaskMessage.
	Input []llm.Message
	// Steps are those that runs of the same turn recorded before they died.
	// They need the same Input and Transcript.
	Steps []Step
	// ContextWindow keeps the context within the model's context length; nil
	// disables that.
	ContextWindow *ContextWindow
	// Provider, if not nil, is called instead of the agent's own.
	Provider llm.Provider
	// CheckTool, if not nil, is called before each tool call. An error refuses
	// the call; its text is shown to the model.
	CheckTool func(tool string) error
	// User is the channel through which the tools reach the user.
	User tool.UserChannel
	// AfterTool, if not nil, is called after each successful tool call. Its
	// return value is appended to the result.
	AfterTool func(tool string, input json.RawMessage) string
	// Steer, if not nil, is called after each batch of tool results and returns
	// what users have written meanwhile. Overlay tags in its texts must be
	// escaped.
	Steer func() []llm.Block
}

// An Agent runs turns. Its methods may be called from any goroutine.
type Agent struct {
	cfg      Config
	provider llm.Provider
	tools    tool.Set
	onPanic  func(name string, value any, stack []byte)
	mask     func(string) string
	running  sync.WaitGroup // tool calls, including abandoned ones
}

// An Option changes how an Agent works.
type Option func(*Agent)

// OnPanic sets a function that is called for each tool or context engine that
// panicked, from any goroutine.
func OnPanic(f func(tool string, value any, stack []byte)) Option {
	return func(a *Agent) { a.onPanic = f }
}

// New returns an agent that calls provider and uses tools. If cfg.MaxTurns is
// not positive, the default applies.
func New(cfg Config, provider llm.Provider, tools tool.Set, options ...Option) *Agent {
	if cfg.MaxTurns <= 0 {
		cfg.MaxTurns = defaultMaxTurns
	}
	a := &Agent{cfg: cfg, provider: provider, tools: tools, onPanic: func(string, any, []byte) {}, mask: func(s string) string { return s }}
	for _, o := range options {
		o(a)
	}
	return a
}

// Wait returns when no tool call is running, including those that an
// interrupted run abandoned because they did not end. No run may begin
// meanwhile.
func (a *Agent) Wait() { a.running.Wait() }

// Run runs a turn and yields its events. A run that produces an answer ends
// with Final; any other ends with an error:
//
//   - one that wraps the cause of ctx, after which the transcript is legal and
//     every tool call in it has a result;
//   - an *llm.Error, as the provider returned it;
//   - *RefusedError, ErrEmpty, ErrBudget, ErrInvalidCalls, ErrSteps, ErrNothing.
//
// A consumer that stops asking for events ends the run at once; it must not use
// the transcript before it has called Close or truncated it.
func (a *Agent) Run(ctx context.Context, t Turn) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := newRun(a, t, yield)
		if err := r.execute(ctx); err != nil && !r.stopped {
			yield(nil, err)
		}
	}
}

// interruptedError returns the error of a run whose ctx was canceled.
func interruptedError(ctx context.Context) error {
	return fmt.Errorf("agent: interrupted: %w", context.Cause(ctx))
}
