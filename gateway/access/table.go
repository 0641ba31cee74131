package access

// ToolLevels returns the level of each tool that is not for owners by default,
// by its name.
func ToolLevels() map[string]Level { return toolLevels() }

// A Rule is one of those by which somebody is let in or kept out.
type Rule struct {
	Name  string // as `why` shows it
	Means string
	Level string // of who is let in by it and by nothing else
}

// Entries returns the rules that let people in, in the order in which Check asks
// them.
func Entries() []Rule {
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

// Refusals returns the rules that keep people out.
func Refusals() []Rule {
	return []Rule{
		{Name: RuleBot, Means: "a bot, and `allow_bots` does not admit it"},
		{Name: RuleNoSender, Means: "nobody knows who speaks: an anonymous administrator, a channel's own post"},
		{Name: RuleNotAllowed, Means: "nothing lets this person in"},
		{Name: RuleUnknownDM, Means: "the same, in a direct chat, where strangers get no code (`unauthorized_dm_behavior: ignore`)"},
		{Name: RuleBotLoop, Means: "bots have said 20 things in this chat in five minutes"},
	}
}
