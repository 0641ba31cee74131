package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermesd/agent/llm"
)

// An Engine is a context engine: it keeps the context of one session within the
// model's context length. The caller archives what a compaction removes;
// nothing is deleted. An Engine is used by one goroutine at a time, except that
// Status may be called from any.
//
// An engine may also implement Preflighter and Lifecycle.
type Engine interface {
	// Name returns the name of the engine in the configuration.
	Name() string
	// Update receives the token usage that the provider reported for the last
	// call.
	Update(llm.Usage)
	// ShouldCompress reports whether a context of so many tokens is to be
	// compacted before the next call. Its cost does not grow with the history.
	ShouldCompress(tokens int) bool
	// Compress compacts a context. It changes nothing that v refers to. On an
	// error the context stays unchanged: ErrCoolingDown if the engine is in its
	// cooldown or has found that compactions do not help; any other error has a
	// text for users. A panic is recovered by the caller.
	Compress(ctx context.Context, v ContextView) (Compaction, error)
	// State returns what is stored with the session, as JSON; nil for nothing.
	State() json.RawMessage
	// Status returns a snapshot for people.
	Status() EngineStatus
}

// A Preflighter decides from the messages whether a context is to be compacted
// before the first call of a turn.
type Preflighter interface {
	Preflight(messages []llm.Message) bool
}

// A Lifecycle is an engine that is notified of events in its session.
type Lifecycle interface {
	// Limits sets the model and its context length after a change of the model.
	Limits(Limits)
	// Reset ends all cooldowns: a user has requested a compaction.
	Reset()
	// End releases the resources of the engine. It is the last call.
	End()
}

// Limits describe the model for which an engine compacts.
type Limits struct {
	Model  string
	Window int // context length in tokens
}

// A ContextView is the context that an engine reads.
type ContextView struct {
	// Messages is the active transcript. It is legal and may end with either
	// role.
	Messages []llm.Message
	// First is the number of Messages[0] within the whole transcript of the
	// session. Later messages follow it. Archived messages are addressed by
	// these numbers.
	First int
	// FixedTokens is the estimated number of tokens sent in addition to
	// Messages.
	FixedTokens int
	// Tokens is the best known size of the whole request, in tokens.
	Tokens int
	// Limit is the number of tokens that the whole request may have after the
	// compaction, as estimated; 0 for no limit. To keep it, an engine gives up
	// whatever else it protects, the newest user message last.
	Limit int
	// Focus names the topic that the summary keeps in most detail; "" for none.
	Focus string
	// Force overrides cooldowns. A request above Limit overrides the pause after
	// compactions that did not help.
	Force bool
	// WithoutModel requests a compaction without a model call: the request is
	// too long, and no summary could be obtained.
	WithoutModel bool
}

// A Compaction is the result of compacting a ContextView.
type Compaction struct {
	// Messages is the complete new list. It is legal if ContextView.Messages
	// was, and contains the newest user message verbatim, unless that message
	// alone exceeds ContextView.Limit: then a note stands in place of its middle.
	Messages []llm.Message `json:"messages"`
	// ContextView.Messages[From:To] are archived. All messages before From and
	// from To on are part of Messages, unless they were shortened.
	From int `json:"from"`
	To   int `json:"to"`
	// PromptNote is appended to the stored system prompt, once per session.
	PromptNote string `json:"note,omitempty"`
	// Explanation says in one sentence what was done, if a user should know it:
	// a summary without a model, a tail that had to be pruned.
	Explanation string `json:"words,omitempty"`
	// Sentences are the parts of Explanation, so that they can be translated;
	// if empty, Explanation is the engine's own text.
	Sentences []Sentence `json:"said,omitempty"`
	// Before and After are the estimated sizes of the request, in tokens.
	Before int `json:"before"`
	After  int `json:"after"`
	// Usage is the token usage of the summary. Model wrote it; "" for none.
	Usage llm.Usage `json:"usage,omitzero"`
	Model string    `json:"model,omitempty"`
}

// A Sentence is an English format string and the values of its %s verbs.
type Sentence struct {
	English string   `json:"english"`
	Args    []string `json:"args,omitempty"`
}

// Explain adds a sentence to the explanation of p.
func (p *Compaction) Explain(english string, args ...string) {
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a
	}
	p.Explanation = strings.TrimSpace(p.Explanation + " " + fmt.Sprintf(english, values...))
	p.Sentences = append(p.Sentences, Sentence{english, args})
}

// EngineStatus describes the state of an engine for people.
type EngineStatus struct {
	Engine    string `json:"engine"`
	Threshold int    `json:"threshold"` // tokens
	Passes    int    `json:"passes"`
	Archived  int    `json:"archived"` // messages
	Last      string `json:"last,omitempty"`
	// Cooldown says why automatic compaction is paused, and until when; "" if
	// it is not.
	Cooldown string `json:"resting,omitempty"`
}

// ErrCoolingDown means that an engine does not compact now: it failed recently,
// or compactions did not help.
var ErrCoolingDown = errors.New("agent: context engine is cooling down")
