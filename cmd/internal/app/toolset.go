package app

import (
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// toolsetsOf are the toolsets of which one of the tools is offered, in order. It
// is never nil: a session without tools has none.
func toolsetsOf(tools []llm.Tool) []string {
	sets := []string{}
	for set, names := range tool.Toolsets() {
		if slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) }) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return sets
}
