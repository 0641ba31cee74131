package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config holds the settings under `agent`.
type Config struct {
	Name            string        `yaml:"name" default:"Hermes" doc:"Who the agent says it is, unless SOUL.md says otherwise."`
	MaxTurns        int           `yaml:"max_turns" default:"90" range:"1..1000" doc:"Most model calls in one turn; then one more without tools asks for a summary."`
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
