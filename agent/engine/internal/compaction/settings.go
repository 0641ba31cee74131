// Package compaction is what the built-in context engines share: when a pass is due,
// what of the context it touches, what happens when it fails. How the older part
// is written down is a Scribe's business.
package compaction

import (
	"encoding/json"
	"math"

	"hermesd/agent"
	"hermesd/agent/engine/internal/redact"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm/tokens"
)

// Settings are those under `compression` that an engine obeys.
type Settings struct {
	Threshold          float64 // share of the window from which on a pass is due
	TargetRatio        float64 // share of the threshold that the tail may have
	ProtectLastN       int     // messages of the tail, at least
	ProtectFirstN      int     // messages at the beginning, the system prompt included
	MinThresholdTokens int     // 0: exactly Threshold of the window
}

// Defaults returns the settings that hold if nobody sets any.
func Defaults() Settings {
	return Settings{Threshold: 0.50, TargetRatio: 0.20, ProtectLastN: 20, ProtectFirstN: 3, MinThresholdTokens: 64_000}
}

// Options are what an engine is made of.
type Options struct {
	Settings Settings
	Limits   agent.Limits
	// Completer writes summaries. Main is asked once if it fails; nil if it is
	// the main model already.
	Completer, Main summary.Completer
	// State is what an engine of the same session returned as its State; what
	// cannot be read counts as nothing.
	State json.RawMessage
	// Redact takes out secrets that are known by their value. What has the form
	// of a secret is taken out anyway. nil: nothing more.
	Redact func(string) string
}

// TokenLimits are derived from the settings and the window of a model.
type TokenLimits struct {
	Threshold int // tokens from which on a pass is due
	Tail      int // tokens that the tail may have
	Summary   int // tokens that a summary may have at most
}

// What bounds a summary, in tokens and shares.
const (
	summaryShare  = 0.20 // of what it stands for
	minSummary    = 2_000
	maxSummary    = 12_000
	windowSummary = 0.05
	smallWindow   = 0.80
)

// TokenLimits returns the figures for a window of so many tokens.
func (s Settings) TokenLimits(window int) TokenLimits {
	t := part(s.Threshold, window)
	if t < s.MinThresholdTokens {
		t = min(s.MinThresholdTokens, part(smallWindow, window))
	}
	return TokenLimits{
		Threshold: t, Tail: part(s.TargetRatio, t),
		Summary: min(part(windowSummary, window), maxSummary),
	}
}

// SummaryBudget is how many tokens a summary of so many tokens may have.
func (f TokenLimits) SummaryBudget(middle int) int {
	return min(max(part(summaryShare, middle), minSummary), f.Summary)
}

// part is share of n, rounded down; what a float is short of a whole by nothing
// but its form is whole.
func part(share float64, n int) int { return int(math.Floor(share*float64(n) + 1e-6)) }

func (o Options) redact(s string) string {
	if o.Redact != nil {
		s = o.Redact(s)
	}
	return redact.Text(s)
}

func windowOf(l agent.Limits) int {
	if l.Window > 0 {
		return l.Window
	}
	return tokens.DefaultContext
}
