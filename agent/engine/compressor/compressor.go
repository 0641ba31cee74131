// Package compressor implements the default context engine. It keeps the
// beginning and the newest messages of a conversation unchanged and replaces
// the middle by one summary, which later compactions update. The main type is
// Engine, for one session; see agent.Engine for its concurrency.
//
// A compaction has four phases: old tool output is cleared; the boundaries are
// chosen so that no call is separated from its results; the summary is written;
// the list is assembled so that roles alternate. A compaction that fails
// changes nothing. Package compaction has these phases; this package has the
// summary.
package compressor

import (
	"context"
	"encoding/json"

	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/summary"
)

// Name is the name of the engine in the configuration.
const Name = "compressor"

// Settings are the settings under `compression` that the engine uses.
type Settings = compaction.Settings

// Options are the parameters of New.
type Options = compaction.Options

// TokenLimits are derived from the settings and the context length of a model.
type TokenLimits = compaction.TokenLimits

// An Engine is the engine of one session. It implements agent.Engine and
// agent.Lifecycle.
type Engine struct{ *compaction.Engine }

// New returns the engine of one session.
func New(o Options) *Engine { return &Engine{compaction.New(o, summarizer{}, nil)} }

// summarizer keeps one summary up to date.
type summarizer struct{}

func (summarizer) Name() string          { return Name }
func (summarizer) Save() json.RawMessage { return nil }

// MaxSize implements compaction.Summarizer. A summary without a model has headings in
// addition.
func (summarizer) MaxSize(tokens int) int { return tokens + 60 }

func (summarizer) Write(ctx context.Context, w *summary.Writer, p compaction.SummaryInput) (string, error) {
	if p.WithoutModel {
		return w.Redact(summary.WithoutModel(p.Previous, p.Messages, p.Budget)), nil
	}
	return w.Write(ctx, summary.Task{
		Previous: p.Previous, Parts: summary.RenderMessages(p.Messages), Budget: p.Budget, Focus: p.Focus, User: p.User,
	})
}
