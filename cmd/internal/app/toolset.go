package app

import (
	"slices"

	"hermesd/agent/llm"
)

// toolsets are the groups by which skills name the tools that they need, or stand
// in for.
func toolsets() map[string][]string {
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
	}
}

// toolsetsOf are the toolsets of which one of the tools is offered, in order. It
// is never nil: a session without tools has none.
func toolsetsOf(tools []llm.Tool) []string {
	sets := []string{}
	for set, names := range toolsets() {
		if slices.ContainsFunc(tools, func(t llm.Tool) bool { return slices.Contains(names, t.Name) }) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return sets
}
