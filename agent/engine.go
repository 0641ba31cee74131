package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// An Engine keeps the context of one session small. What it makes smaller is
// archived by whoever runs the turn, never forgotten. One goroutine at a time
// uses an Engine, except that Status may be called from any.
//
// Engines may implement Preflighter, Lifecycle and Toolbox beside it.
type Engine interface {
	// Name is what the configuration calls it.
	Name() string
	// Update tells what a provider reported for the last call.
	Update(llm.Usage)
	// ShouldCompress reports whether a context of so many tokens is to be made
	// smaller before the next call. It costs no more for a long history.
	ShouldCompress(tokens int) bool
	// Compress makes a context smaller. It changes nothing of what v refers to. On
	// an error the context stays as it is: ErrNotNow if the engine rests after
	// failures or has found that it does not help, anything else in words for a
	// person. An error is not wrapped in a panic: the caller has a wall.
	Compress(ctx context.Context, v ContextView) (Compaction, error)
	// State is what is kept with the session, as JSON; nil for nothing.
	State() json.RawMessage
	// Status tells people how it goes.
	Status() EngineStatus
}

// A Preflighter can tell from the messages themselves that a context is to be
// made smaller before the first call of a turn.
type Preflighter interface {
	Preflight(messages []llm.Message) bool
}

// A Lifecycle is told of what happens to its session.
type Lifecycle interface {
	// Limits changes what the engine works with: another model answers now.
	Limits(Limits)
	// Reset forgets pauses and cooldowns: a person asked for a compression.
	Reset()
	// End lets go of what the engine holds. It is the last call.
	End()
}

// A ToolProvider offers tools of the engine's own, such as a search in what it has
// archived.
type ToolProvider interface {
	Tools() []tool.Tool
}

// Limits are what an engine works with.
type Limits struct {
	Model  string
	Window int // tokens of the model's context
}

// A ContextView is the context that an engine looks at.
type ContextView struct {
	// Messages is the active transcript. It is legal, and ends as it may.
	Messages []llm.Message
	// First is the number, in the whole transcript of the session, of Messages[0];
	// later ones follow it. Archived messages are known by these numbers.
	First int
	// FixedTokens is the estimate, in tokens, of what is sent beside Messages.
	FixedTokens int
	// Tokens is the best known size of the whole request.
	Tokens int
	// Focus is what a person wants to be kept best; "" for nothing.
	Focus string
	// Force overrides rests and pauses.
	Force bool
	// WithoutModel asks for a pass without any model call: the provider refuses the
	// request as too long, and a summary could not be had.
	WithoutModel bool
}

// A Compaction is what an engine made of a View.
type Compaction struct {
	// Messages is the whole new list. It is legal wherever View.Messages was, and
	// the newest user message is in it verbatim.
	Messages []llm.Message `json:"messages"`
	// View.Messages[From:To] are archived. All before From and from To on stand in
	// Messages, unless they were shortened.
	From int `json:"from"`
	To   int `json:"to"`
	// PromptNote is to be appended to the stored system prompt, once per session.
	PromptNote string `json:"note,omitempty"`
	// Explanation say in one sentence what was done, where a person should know of it:
	// a summary without a model, a tail that had to be pruned.
	Explanation string `json:"words,omitempty"`
	// Sentences are the sentences of Words, so that they can be said in another language;
	// none: Words are the engine's own.
	Sentences []Sentence `json:"said,omitempty"`
	// Before and After are the estimates of the request, in tokens.
	Before int `json:"before"`
	After  int `json:"after"`
	// Usage is what the summary cost; Model made it, "" for none.
	Usage llm.Usage `json:"usage,omitzero"`
	Model string    `json:"model,omitempty"`
}

// A Sentence is an English text, and what its %s stand for.
type Sentence struct {
	English string   `json:"english"`
	Args    []string `json:"args,omitempty"`
}

// Explain adds a sentence to the Words of p.
func (p *Compaction) Explain(english string, args ...string) {
	said := make([]any, len(args))
	for i, a := range args {
		said[i] = a
	}
	p.Explanation = strings.TrimSpace(p.Explanation + " " + fmt.Sprintf(english, said...))
	p.Sentences = append(p.Sentences, Sentence{english, args})
}

// EngineStatus tells people how compression goes.
type EngineStatus struct {
	Engine    string `json:"engine"`
	Threshold int    `json:"threshold"` // tokens
	Passes    int    `json:"passes"`
	Archived  int    `json:"archived"` // messages
	Last      string `json:"last,omitempty"`
	// Cooldown says why automatic compression rests, and until when.
	Cooldown string `json:"resting,omitempty"`
}

// ErrCoolingDown says that an engine rests: after failures, or because passes did
// not help.
var ErrCoolingDown = errors.New("agent: the context engine rests")
