// Package compressor is the default context engine. It keeps the beginning and
// the newest messages of a conversation as they are, and has the middle written
// down as one summary, which later passes update.
//
// A pass has four phases: old tool output is cleared; the boundaries are set so
// that no call is parted from its results; the summary is written; the list is
// put together so that roles alternate. A pass that fails changes nothing.
package compressor

import (
	"context"
	"encoding/json"

	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/summary"
)

// Name is what the configuration calls the engine.
const Name = "compressor"

// Settings are those under `compression` that the engine obeys.
type Settings = compaction.Settings

// Options are what the engine is made of.
type Options = compaction.Options

// TokenLimits are derived from the settings and the window of a model.
type TokenLimits = compaction.TokenLimits

// Note is appended to the system prompt of a session that has been compacted.
const Note = compaction.Note

// Defaults returns the settings that hold if nobody sets any.
func Defaults() Settings { return compaction.Defaults() }

// An Engine is the engine of one session. It implements agent.Engine and
// agent.Lifecycle.
type Engine struct{ *compaction.Engine }

// New returns the engine of one session.
func New(o Options) *Engine { return &Engine{compaction.New(o, summarizer{}, nil)} }

// summarizer keeps one summary up to date.
type summarizer struct{}

func (summarizer) Name() string          { return Name }
func (summarizer) Save() json.RawMessage { return nil }

func (summarizer) Write(ctx context.Context, w *summary.Writer, p compaction.SummaryInput) (string, error) {
	if p.WithoutModel {
		return w.Redact(summary.WithoutModel(p.Previous, p.Messages, p.Budget)), nil
	}
	return w.Write(ctx, summary.Task{
		Previous: p.Previous, Parts: summary.RenderMessages(p.Messages), Budget: p.Budget, Focus: p.Focus, User: p.User,
	})
}
