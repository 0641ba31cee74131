package tool

import (
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// Small is the toolset for models with a small context window. With the short guidance
// (prompt.Inputs.Short) it takes at most 2,000 tokens.
const Small = "small"

// Toolsets returns the groups of tools by name. Skills name the toolsets that they require
// or replace, so some groups contain tools that hermesd does not have.
func Toolsets() map[string][]string {
	return map[string][]string{
		"web":            {"web_search", "web_extract"},
		"terminal":       {"terminal", "process"},
		"file":           {"read_file", "write_file", "patch", "search_files"},
		"vision":         {"vision_analyze"},
		"image_gen":      {"image_generate"},
		"tts":            {"text_to_speech"},
		"browser":        {"browser_navigate"},
		"skills":         {"skills_list", "skill_view", "skill_manage"},
		"todo":           {"todo"},
		"memory":         {"memory"},
		"session_search": {"session_search"},
		"clarify":        {"clarify"},
		"code_execution": {"execute_code"},
		"delegation":     {"delegate_task"},
		"cronjob":        {"cronjob"},
		"messaging":      {"send_message"},
		Small:            {"terminal", "read_file", "write_file", "memory", "session_search"},
		"context_engine": {"lcm_grep", "lcm_describe", "lcm_expand"},
	}
}

// MeansAll reports whether the name of a toolset means all tools. This includes the
// toolsets of upstream Hermes that are named after it (hermes-cli, hermes-telegram).
func MeansAll(name string) bool {
	return name == "all" || name == "*" || strings.HasPrefix(name, "hermes-")
}

// Select returns those of tools that names contains, by their own name or by that of a
// toolset. Empty names select all tools. It may reuse the array of tools.
func Select(tools []llm.Tool, names []string) []llm.Tool {
	if len(names) == 0 {
		return tools
	}
	sets := Toolsets()
	return slices.DeleteFunc(tools, func(t llm.Tool) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return n == t.Name || slices.Contains(sets[n], t.Name) })
	})
}

// Without returns those of tools that names does not contain, by their own name or by
// that of a toolset. A name that means all tools leaves none.
func Without(tools []Tool, names []string) []Tool {
	sets := Toolsets()
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool {
		name := t.Spec().Name
		return slices.ContainsFunc(names, func(n string) bool { return MeansAll(n) || n == name || slices.Contains(sets[n], name) })
	})
}

// ToolsetsOf returns the sorted names of the toolsets that have at least one of tools. The
// result is never nil: a session without tools has an empty list. Small, whose tools are those of
// others, is not among them.
func ToolsetsOf(tools []llm.Tool) []string {
	sets := []string{}
	for set, names := range Toolsets() {
		if set != Small && slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) }) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return sets
}
