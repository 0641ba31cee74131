// Package compaction implements the parts that the built-in context engines
// share: when a compaction is due, which part of the context it replaces, and
// the cooldowns after failures. The main type is Engine. A Summarizer writes
// the summary.
package compaction

import (
	"encoding/json"
	"math"

	"hermesd/agent"
	"hermesd/agent/engine/internal/redact"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm/tokens"
)

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
