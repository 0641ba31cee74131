package access

// ToolLevels returns the level of each tool that is not for owners by default,
// by its name.
func ToolLevels() map[string]Level { return toolLevels() }

// A Rule is one of those by which somebody is let in or kept out.
type Rule struct {
	Name        string // as `why` shows it
	Description string
	Level       string // of who is let in by it and by nothing else
}

// AllowRules returns the rules that let people in, in the order in which Check asks
// them.
func AllowRules() []Rule {
	return []Rule{
		{RuleConsole, "the local terminal: who may open the socket in the home directory", "owner"},
		{RuleHTTPKey, "the HTTP API: who has its key", "owner"},
		{RulePlatformAllowAll, "`allow_all` of the platform, or `*` in its `allow_from`", "guest"},
		{RulePlatformList, "`allow_from` of the platform or the account", "member"},
		{RuleRole, "`allowed_roles` of the platform (Discord)", "guest"},
		{RulePaired, "approved with `hermesd pairing approve`", "member"},
		{RuleOwner, "`access.owners`, or `allow_admin_from` of the platform", "owner"},
		{RuleGlobalList, "`access.allow_from`", "member"},
		{RuleGlobalAllowAll, "`access.allow_all`", "guest"},
		{RuleAllowedChat, "`group_allowed_chats` of the platform; never a direct chat", "guest"},
	}
}

// DenyRules returns the rules that keep people out.
func DenyRules() []Rule {
	return []Rule{
		{Name: RuleBot, Description: "a bot, and `allow_bots` does not admit it"},
		{Name: RuleNoSender, Description: "nobody knows who speaks: an anonymous administrator, a channel's own post"},
		{Name: RuleNotAllowed, Description: "nothing lets this person in"},
		{Name: RuleUnknownDM, Description: "the same, in a direct chat, where strangers get no code (`unauthorized_dm_behavior: ignore`)"},
		{Name: RuleBotLoop, Description: "bots have said 20 things in this chat in five minutes"},
	}
}
