package command

import (
	"context"
	"slices"
	"strings"
)

// effortLevels returns the levels of reasoning effort, in ascending order.
func effortLevels() []string {
	return []string{"none", "minimal", "low", "medium", "high", "xhigh"}
}

// reasoning shows or sets the reasoning effort of the model.
func reasoning(_ context.Context, c Call) (Result, error) {
	level := strings.ToLower(c.Args)
	set := c.Session.Settings
	switch {
	case level == "":
		now := set.Effort
		if now == "" {
			now = c.T("as configured")
		}
		return Result{Text: c.T("The model thinks: %s. `/reasoning <level>` sets it for this conversation: %s, or `default`.", now, strings.Join(effortLevels(), ", "))}, nil
	case level == "default":
		set.Effort = ""
	case !slices.Contains(effortLevels(), level):
		return Result{Text: c.T("I know the levels %s, and `default`.", strings.Join(effortLevels(), ", "))}, nil
	default:
		set.Effort = level
	}
	return Result{Text: c.T("From the next message on the model thinks: %s.", level), Settings: &set}, nil
}

// reload rebuilds the prompt of the session from the current files.
func reload(_ context.Context, c Call) (Result, error) {
	return Result{Text: c.T("Memories, skills, context files and tools are read again."), Rebuild: "reload"}, nil
}

// compress runs a compaction of the session.
func compress(_ context.Context, c Call) (Result, error) {
	return Result{Compress: true, Focus: c.Args}, nil
}
