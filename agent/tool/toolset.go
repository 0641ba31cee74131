package tool

import "strings"

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

// AllTools reports whether the name of a toolset means all tools. So do the sets
// of upstream Hermes that are called after it (hermes-cli, hermes-telegram).
func AllTools(name string) bool {
	return name == "all" || name == "*" || strings.HasPrefix(name, "hermes-")
}
