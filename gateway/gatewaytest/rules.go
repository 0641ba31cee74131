package gatewaytest

import "hermesd/gateway/access"

// An AccessRule describes a rule of package access that authorizes or denies a sender.
type AccessRule struct {
	Name        string // as shown by `why`
	Description string
	Level       string // of users that only this rule authorizes
}

// AllowRules returns the rules that authorize, in the order in which access.Check
// applies them.
func AllowRules() []AccessRule {
	return []AccessRule{
		{access.RuleConsole, "the local terminal: anyone who can open the socket in the home directory", "owner"},
		{access.RuleHTTPKey, "the HTTP API: anyone with its key", "owner"},
		{access.RulePlatformAllowAll, "`allow_all` of the platform, or `*` in its `allow_from`", "guest"},
		{access.RulePlatformList, "`allow_from` of the platform or the account", "member"},
		{access.RuleRole, "`allowed_roles` of the platform", "guest"},
		{access.RulePaired, "approved with `hermesd pairing approve`", "member"},
		{access.RuleOwner, "`access.owners`, or `allow_admin_from` of the platform", "owner"},
		{access.RuleGlobalList, "`access.allow_from`", "member"},
		{access.RuleGlobalAllowAll, "`access.allow_all`", "guest"},
		{access.RuleAllowedChat, "`group_allowed_chats` of the platform; never a direct chat", "guest"},
	}
}

// DenyRules returns the rules that deny.
func DenyRules() []AccessRule {
	return []AccessRule{
		{Name: access.RuleBot, Description: "a bot, and `allow_bots` does not admit it"},
		{Name: access.RuleNoSender, Description: "the sender is unknown: an anonymous administrator, a channel's own post"},
		{Name: access.RuleNotAllowed, Description: "no rule allows this user"},
		{Name: access.RuleUnknownDM, Description: "the same, in a direct chat without pairing codes (`unauthorized_dm_behavior: ignore`)"},
		{Name: access.RuleNotHeard, Description: "a kind of chat or a topic that is not read (`dm_policy`, `group_policy`, `allowed_topics`, `ignored_threads`, `disable_dms`)"},
		{Name: access.RuleBotLoop, Description: "bots sent 20 messages in this chat in five minutes"},
	}
}
