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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

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

	tools []llm.Tool // see frozenTools
}

// frozenTools returns the tools of the prefix, which every prefix of a session has. The
// caller must not change them.
func (t *Turn) frozenTools() []llm.Tool {
	if t.tools == nil {
		t.tools = t.Prefix.Tools()
	}
	return t.tools
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

// Config holds the settings under `agent`.
type Config struct {
	Name            string        `yaml:"name" default:"Hermes" doc:"Who the agent says it is, unless SOUL.md says otherwise."`
	MaxTurns        int           `yaml:"max_turns" env:"HERMES_MAX_ITERATIONS" default:"90" range:"1..1000" doc:"Most model calls in one turn; then one more without tools asks for a summary."`
	RunBudget       time.Duration `yaml:"run_budget_seconds" default:"0s" range:"0s..24h" doc:"Most time for a turn, as a duration or in seconds: then no tool runs any more, and one more call asks for a summary; 0: no limit. What runs at that moment is not cut short."`
	ReasoningEffort string        `yaml:"reasoning_effort" default:"" enum:"|none|minimal|low|medium|high|xhigh" doc:"How much the model thinks before it answers; empty leaves thinking off."`
	APIMaxRetries   int           `yaml:"api_max_retries" default:"3" range:"0..20" doc:"How often a failed model call is tried again before a fallback or an error."`
	SystemMessage   string        `yaml:"system_message" default:"" doc:"Text of your own in the cached system prompt, verbatim."`
}

// defaultMaxTurns replaces a MaxTurns of zero.
const defaultMaxTurns = 90

// efforts returns the valid values of ReasoningEffort.
func efforts() []string {
	return []string{"", "none", "minimal", "low", "medium", "high", "xhigh"}
}

// Validate returns an error for the first setting that is invalid.
func (c Config) Validate() error {
	switch {
	case c.MaxTurns < 0:
		return fmt.Errorf("agent.max_turns is %d: it must be at least 1", c.MaxTurns)
	case c.RunBudget < 0:
		return fmt.Errorf("agent.run_budget_seconds is %s: it must not be negative", c.RunBudget)
	case c.APIMaxRetries < 0:
		return fmt.Errorf("agent.api_max_retries is %d: it must not be negative", c.APIMaxRetries)
	case strings.ContainsAny(c.Name, "\r\n"):
		return fmt.Errorf("agent.name must be one line")
	case !slices.Contains(efforts(), c.ReasoningEffort):
		return fmt.Errorf("agent.reasoning_effort is %q: use none, minimal, low, medium, high, xhigh, or leave it empty", c.ReasoningEffort)
	}
	return nil
}

var (
	// ErrEmpty means that the model answered with nothing, even when the
	// request was repeated and the model was asked to continue.
	ErrEmpty = errors.New("agent: empty model answer")
	// ErrBudget means that a turn used all its model calls or time and the model did
	// not even provide a summary.
	ErrBudget = errors.New("agent: budget of the turn is exhausted")
	// ErrInvalidCalls means that the model made invalid tool calls repeatedly.
	ErrInvalidCalls = errors.New("agent: repeated invalid tool calls")
	// ErrSteps means that recorded steps do not belong to the turn, are
	// corrupt, or have an unknown version.
	ErrSteps = errors.New("agent: cannot resume recorded steps")
	// ErrNothing means that a turn has no message to answer.
	ErrNothing = errors.New("agent: no message to answer")
)

// A RefusedError means that the model declined to answer. Nothing of its answer
// is in the transcript.
type RefusedError struct {
	Text     string // the model's answer, as it may be shown; often ""
	Provider string
}

func (e *RefusedError) Error() string {
	s := "agent: " + e.Provider + " declined to answer"
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// errStopped means that the consumer wants no more events. It is not returned
// to callers of the package.
var errStopped = errors.New("agent: consumer stopped")

// DefaultNote is the assistant message that Close appends if the caller gives
// no reason.
const DefaultNote = "[Interrupted.]"

// Close ends a transcript that was cut short so that the user's next message
// can follow: calls without a result get one, and if the last message is the
// user's, an assistant message with the text reason is appended ("" is
// DefaultNote). A transcript that is empty or ends with an assistant message
// without open calls is not changed.
func Close(t *llm.Transcript, reason string) {
	if t.Len() == 0 {
		return
	}
	reason = cmp.Or(reason, DefaultNote)
	last := t.At(t.Len() - 1)
	if calls := last.ToolUses(); last.Role == llm.Assistant && len(calls) > 0 {
		m := llm.Message{Role: llm.User}
		for _, c := range calls {
			m.Blocks = append(m.Blocks, toolFailure(c.ID, textInterrupted))
		}
		t.Append(m)
		last = m
	}
	if last.Role == llm.User {
		t.Append(llm.AssistantText(reason))
	}
}
