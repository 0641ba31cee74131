package access

// ToolLevel returns the level that a person needs for a tool. It is asked for
// whoever speaks, at each call: the array of tools belongs to the session and is
// the same for all. A tool that is not in the table is for owners.
func ToolLevel(name string) Level {
	if l, ok := toolLevels()[name]; ok {
		return l
	}
	return Owner
}

// toolLevels is the table.
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
