// Package agent runs one turn: model, tools, model, until there is an answer.
// It knows of no chats; who runs it persists what it records and shows what it
// says.
//
// A turn is a list of steps, each recorded before anything depends on it:
//
//	answer ──► start(call) ──► result(call) … ──► steer ──► answer ──► … ──► answer (final)
//	   │          only calls that may happen once
//	   └─ the model's message, and ours if we asked it to go on
//
// Whoever runs the turn again with the steps of a dead run continues after the
// last one: answers are not paid for again, results are not made again, and a
// call that may happen only once and had started is not run again.
//
// Whatever happens, the transcript is legal for every provider (llm.Legal)
// when a run ends, except that tool calls of a run whose consumer stopped asking
// for events may be open; Close mends that.
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

// A Turn is what a run works on.
type Turn struct {
	Prefix  prompt.Prefix
	Overlay prompt.PlacedOverlay
	// Prefill stands between the cached prompt and the transcript, in each call.
	Prefill []llm.Message
	// Transcript is what was said before. The run appends to it, and nobody else
	// may use it meanwhile.
	Transcript *llm.Transcript
	Model      string
	Effort     string // "" is the config's
	CacheTTL   string
	MaxTokens  int // of each answer; 0 is the provider's default
	Session    string
	// Input is what is new: it is joined into one message of the user and
	// appended first. It may be empty if the transcript ends with the user.
	Input []llm.Message
	// Steps were recorded by dead runs of the same turn, with the same Input and
	// Transcript.
	Steps []Step
	// ContextWindow keeps the context within what the model can take; nil: nobody does.
	ContextWindow *ContextWindow
	// Provider, if not nil, answers in place of the agent's own.
	Provider llm.Provider
	// CheckTool, if not nil, is asked before each call of a tool. An error refuses it,
	// in words for the model.
	CheckTool func(tool string) error
	// User are whom its tools can reach.
	User tool.UserChannel
	// AfterTool, if not nil, is told of each call that succeeded. What it returns
	// stands behind the result.
	AfterTool func(tool string, input json.RawMessage) string
	// Steer, if not nil, is asked after each batch of tool results for what
	// people have said meanwhile. Its texts must be neutralised.
	Steer func() []llm.Block
}

// An Agent runs turns. Its methods may be called from any goroutine.
type Agent struct {
	cfg      Config
	provider llm.Provider
	tools    tool.Set
	onPanic  func(name string, value any, stack []byte)
	running  sync.WaitGroup // tool calls, also those that were left behind
}

// An Option changes how an Agent works.
type Option func(*Agent)

// OnPanic has f told of each tool that panicked, from any goroutine.
func OnPanic(f func(tool string, value any, stack []byte)) Option {
	return func(a *Agent) { a.onPanic = f }
}

// New returns an agent that calls provider and uses tools. A Config with zero
// MaxTurns gets the default.
func New(cfg Config, provider llm.Provider, tools tool.Set, options ...Option) *Agent {
	if cfg.MaxTurns <= 0 {
		cfg.MaxTurns = defaultMaxTurns
	}
	a := &Agent{cfg: cfg, provider: provider, tools: tools, onPanic: func(string, any, []byte) {}}
	for _, o := range options {
		o(a)
	}
	return a
}

// Wait returns when no tool call runs any more, those included that an
// interrupted run left behind because they would not end. No run may begin
// meanwhile.
func (a *Agent) Wait() { a.running.Wait() }

// Run runs a turn and yields what happens. A run that comes to an answer ends
// with Final; any other ends with an error:
//
//   - one that wraps the cause of ctx, after which the transcript is legal and
//     every tool call in it has a result;
//   - an *llm.Error, as the provider gave it;
//   - *RefusedError, ErrEmpty, ErrBudget, ErrInvalidCalls, ErrSteps, ErrNothing.
//
// A consumer that stops asking ends the run at once; it must not use the
// transcript before it has called Close or truncated it.
func (a *Agent) Run(ctx context.Context, t Turn) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := newRun(a, t, yield)
		if err := r.turn(ctx); err != nil && !r.stopped {
			yield(nil, err)
		}
	}
}

// interrupted is the error of a run whose ctx was cancelled.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("agent: interrupted: %w", context.Cause(ctx))
}
