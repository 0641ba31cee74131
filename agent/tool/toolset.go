package tool

import (
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// Toolsets are the groups of tools by name. Skills say by them what they need, or
// stand in for; so some have tools that hermesd does not.
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
		"context_engine": {"lcm_grep", "lcm_describe", "lcm_expand"},
	}
}

// MeansAll reports whether the name of a toolset means all tools. So do the sets
// of upstream Hermes that are called after it (hermes-cli, hermes-telegram).
func MeansAll(name string) bool {
	return name == "all" || name == "*" || strings.HasPrefix(name, "hermes-")
}

// Select are those of tools that are named, by their own name or that of a
// toolset; all of them if nothing is named.
func Select(tools []llm.Tool, names []string) []llm.Tool {
	if len(names) == 0 {
		return tools
	}
	sets := Toolsets()
	return slices.DeleteFunc(tools, func(t llm.Tool) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return n == t.Name || slices.Contains(sets[n], t.Name) })
	})
}

// ToolsetsOf are the toolsets of which one of the tools is offered, in order. It
// is never nil: a session without tools has none.
func ToolsetsOf(tools []llm.Tool) []string {
	sets := []string{}
	for set, names := range Toolsets() {
		if slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) }) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return sets
}
