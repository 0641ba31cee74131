package access

// ToolLevels returns the levels of tools by name. Tools that are not in it require an
// owner.
func ToolLevels() map[string]Level { return toolLevels() }

// A Rule describes a rule that authorizes or denies a sender.
type Rule struct {
	Name        string // as shown by `why`
	Description string
	Level       string // of users that only this rule authorizes
}

// AllowRules returns the rules that authorize, in the order in which Check applies
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

// DenyRules returns the rules that deny.
func DenyRules() []Rule {
	return []Rule{
		{Name: RuleBot, Description: "a bot, and `allow_bots` does not admit it"},
		{Name: RuleNoSender, Description: "nobody knows who speaks: an anonymous administrator, a channel's own post"},
		{Name: RuleNotAllowed, Description: "nothing lets this person in"},
		{Name: RuleUnknownDM, Description: "the same, in a direct chat, where strangers get no code (`unauthorized_dm_behavior: ignore`)"},
		{Name: RuleNotHeard, Description: "a kind of chat or a topic that is not listened to (`dm_policy`, `group_policy`, `allowed_topics`, `ignored_threads`, `disable_dms`)"},
		{Name: RuleBotLoop, Description: "bots have said 20 things in this chat in five minutes"},
	}
}
