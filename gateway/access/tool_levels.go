package access

// ToolLevel returns the level that a tool requires. It is checked for the actor at each
// call, because the tools of a session are the same for all its users. A tool that is
// not in the table requires an owner.
func ToolLevel(name string) Level {
	if l, ok := toolLevels()[name]; ok {
		return l
	}
	return Owner
}

// toolLevels returns the table of ToolLevel.
func toolLevels() map[string]Level {
	return map[string]Level{
		"todo":           Guest,
		"skills_list":    Guest,
		"skill_view":     Guest,
		"clarify":        Guest,
		"read_file":      Member,
		"search_files":   Member,
		"session_search": Guest,
		"lcm_grep":       Guest,
		"lcm_describe":   Guest,
		"lcm_expand":     Guest,
		"web_extract":    Member,
		"web_search":     Member,
		"delegate_task":  Member,
		"cronjob":        Member,
		"send_message":   Owner,
		"write_file":     Owner,
		"patch":          Owner,
		"terminal":       Owner,
		"process":        Owner,
		"memory":         Owner,
		"skill_manage":   Owner,
	}
}
