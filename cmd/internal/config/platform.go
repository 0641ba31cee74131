package config

import (
	"hermesd/adapters/httpapi"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
)

// Platforms configures the chat platforms.
type Platforms struct {
	Telegram Platform       `yaml:"telegram"`
	Discord  Platform       `yaml:"discord" set:"require_mention=true"`
	Slack    Platform       `yaml:"slack" set:"require_mention=true"`
	HTTP     httpapi.Config `yaml:"http"`
}

// A Platform configures one platform: its only account, or the settings that its
// accounts share.
type Platform struct {
	Account  `yaml:",inline"`
	Accounts map[string]Account `yaml:"accounts" doc:"More accounts, by names that you choose, each with the keys above; it has its own allowed users, tokens and webhooks, and inherits other keys from the platform."`
}

// An Account configures one login on one platform.
type Account struct {
	Enabled     bool         `yaml:"enabled" default:"false" own:"true" doc:"Connect. A token is enough, unless this is false."`
	Token       secret.Value `yaml:"token" own:"true" doc:"The bot's token; TELEGRAM_BOT_TOKEN, DISCORD_BOT_TOKEN, SLACK_BOT_TOKEN."`
	AppToken    secret.Value `yaml:"app_token" on:"slack" own:"true" doc:"Token for Socket Mode (xapp-…); SLACK_APP_TOKEN."`
	APIURL      string       `yaml:"api_url" doc:"Address of the platform's API; empty: the public one."`
	HomeChannel string       `yaml:"home_channel" own:"true" doc:"ID of the default chat for messages without another target, as CHAT or CHAT:THREAD."`

	AllowFrom              []string `yaml:"allow_from" own:"true" doc:"Ids of the people who may speak: numeric or U…. * is everybody, as guests."`
	AllowAll               bool     `yaml:"allow_all" default:"false" own:"true" doc:"Everybody on this platform may speak, as a guest."`
	AllowAdminFrom         []string `yaml:"allow_admin_from" own:"true" doc:"Ids of the people of this platform who may do everything; as access.owners."`
	AllowedChats           []string `yaml:"allowed_chats" alias:"allowed_channels" own:"true" doc:"IDs of the groups the bot reads; empty: all. This key does not grant access."`
	GroupAllowedChats      []string `yaml:"group_allowed_chats" own:"true" doc:"Ids of the groups in which everybody may speak, as a guest."`
	AllowedRoles           []string `yaml:"allowed_roles" on:"discord" own:"true" doc:"Ids of the roles whose members may speak, as guests."`
	AllowBots              string   `yaml:"allow_bots" default:"none" enum:"none|mentions|all" doc:"Which other bots get answers, if they are allowed like users: none, those that mention the bot, all."`
	UnauthorizedDMBehavior string   `yaml:"unauthorized_dm_behavior" enum:"|pair|ignore" doc:"As the key of the same name at the top; empty: its value."`

	DMPolicy       string   `yaml:"dm_policy" own:"true" enum:"|open|pairing|allowlist|disabled" doc:"Whose direct messages are read: those of users whom a key allows (empty, open, pairing), of them only listed or paired ones, or none."`
	GroupPolicy    string   `yaml:"group_policy" own:"true" enum:"|open|allowlist|disabled" doc:"As dm_policy, in groups and channels."`
	AllowedTopics  []string `yaml:"allowed_topics" on:"telegram" own:"true" doc:"IDs of the topics of groups that are read; 1 is General. Empty: all."`
	IgnoredThreads []string `yaml:"ignored_threads" on:"telegram" own:"true" doc:"IDs of the topics of groups that are never read."`
	DisableDMs     bool     `yaml:"disable_dms" on:"slack" own:"true" default:"false" doc:"Direct messages are not read."`

	UserCommands      []string `yaml:"user_allowed_commands" own:"true" doc:"Commands that people who are no owners may use in direct chats, besides help; empty: those of their level."`
	GroupUserCommands []string `yaml:"group_user_allowed_commands" own:"true" doc:"As user_allowed_commands, in groups and channels."`

	RequireMention    bool              `yaml:"require_mention" default:"false" doc:"In groups, answer only when mentioned or replied to."`
	FreeResponseChats []string          `yaml:"free_response_chats" alias:"free_response_channels" doc:"Ids of groups in which everything is answered although require_mention is set."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_chats" alias:"native_mention_only_channels" own:"true" doc:"Ids of groups in which mention_patterns do not count: only a mention by the platform does."`
	ReplyToMode       string            `yaml:"reply_to_mode" default:"first" enum:"off|first|all" doc:"Which pieces of a reply in a group quote the message they answer."`
	ChannelPrompts    map[string]string `yaml:"channel_prompts" doc:"Extra prompt by id of the chat or thread; used from the next turn on."`
	Toolsets          []string          `yaml:"toolsets" doc:"Tools that conversations on this platform get; empty: what toolsets at the top says."`

	IgnoredChats  []string `yaml:"ignored_chats" on:"discord|slack" alias:"ignored_channels" own:"true" doc:"IDs of the channels that are never read."`
	AutoThread    bool     `yaml:"auto_thread" on:"discord" default:"true" doc:"A mention in a channel opens a thread, which is a conversation of its own."`
	AllowMentions []string `yaml:"allow_mentions" on:"discord" doc:"What answers may ping in addition to users: everyone, roles. nobody: not even users; no_reply: not the author whom an answer quotes."`
	StrictMention bool     `yaml:"strict_mention" on:"slack" default:"false" doc:"In threads too, answer only when mentioned."`
	ThreadMention bool     `yaml:"thread_require_mention" on:"discord|slack" default:"false" doc:"In threads too, answer only when mentioned."`
	MentionChats  []string `yaml:"require_mention_channels" on:"slack" own:"true" doc:"Ids of channels in which a mention is required whatever else is set."`
	IgnoreOthers  bool     `yaml:"ignore_other_user_mentions" on:"slack" default:"false" doc:"A message that begins with a mention of somebody else is not for the bot."`
	BotsMention   bool     `yaml:"bots_require_mention" alias:"bots_require_inline_mention" on:"telegram|discord" default:"false" doc:"Messages of other bots are read only if they mention the bot: allow_bots all means mentions."`
	ReplyInThread bool     `yaml:"reply_in_thread" on:"slack" default:"true" doc:"A mention in a channel opens a thread, which is a conversation of its own."`
	Reactions     bool     `yaml:"reactions" on:"discord|slack" default:"true" doc:"Mark people's messages with what has become of them."`

	Proxy         secret.Value `yaml:"proxy" doc:"Proxy (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`
	WebhookURL    string       `yaml:"webhook_url" on:"telegram" own:"true" doc:"Public address at which the platform delivers messages; empty: they are fetched."`
	WebhookSecret secret.Value `yaml:"webhook_secret" on:"telegram" own:"true" doc:"Secret that comes with each delivery; needed with webhook_url."`
	WebhookListen string       `yaml:"webhook_listen" on:"telegram" default:"127.0.0.1:8443" own:"true" doc:"Where the webhook listens; its path is that of webhook_url."`
	RateLimit     RateLimit    `yaml:"rate_limit" deprecated:"rate" short:"per_account"`
}

// RateLimit is a fixed ceiling for sends. Without one only the rate limits that
// the platform reports delay sends.
type RateLimit struct {
	PerAccount string `yaml:"per_account" deprecated:"account" doc:"Most sends of the account, such as 30/1s; empty: no ceiling. May be written as rate_limit: 30/1s."`
	PerChat    string `yaml:"per_chat" deprecated:"chat" doc:"Most sends to one chat, such as 20/1m; empty: no ceiling."`
}

// A named is a platform with its section.
type named struct {
	platform chat.Platform
	*Platform
}

func (p *Platforms) all() []named {
	return []named{{chat.Telegram, &p.Telegram}, {chat.Discord, &p.Discord}, {chat.Slack, &p.Slack}}
}

// Accounts returns the enabled accounts. The account with the empty name is the
// section of the platform itself.
func (c *Config) Accounts() map[chat.Account]Account {
	m := make(map[chat.Account]Account)
	for _, p := range c.Platforms.all() {
		if p.Enabled {
			m[chat.Account{Platform: p.platform}] = p.Account
		}
		for name, a := range p.Accounts {
			if a.Enabled {
				m[chat.Account{Platform: p.platform, Name: name}] = a
			}
		}
	}
	return m
}

// AccessPolicy returns the access rules of the configuration, without pairing.
func (c *Config) AccessPolicy() access.Policy {
	p := access.Policy{Profiles: platforms.Profiles(), Config: c.Access, UnknownDM: access.UnknownDMPolicy(c.UnauthorizedDMBehavior), Accounts: make(map[chat.Account]access.AccountRules)}
	rules := func(a Account) access.AccountRules {
		return access.AccountRules{
			Owners: a.AllowAdminFrom, AllowFrom: a.AllowFrom, AllowAll: a.AllowAll, AllowedChats: a.GroupAllowedChats, Roles: a.AllowedRoles,
			AllowBots: bots(a), UnknownDM: access.UnknownDMPolicy(a.UnauthorizedDMBehavior),
			DMs: hearing(a.DMPolicy, a.DisableDMs), Groups: hearing(a.GroupPolicy, false), Topics: a.AllowedTopics, IgnoredTopics: a.IgnoredThreads,
		}
	}
	for _, s := range c.Platforms.all() {
		p.Accounts[chat.Account{Platform: s.platform}] = rules(s.Account)
		for name, a := range s.Accounts {
			p.Accounts[chat.Account{Platform: s.platform, Name: name}] = rules(a)
		}
	}
	return p
}

// AllowedCommands returns the commands that people who are no owners may use at an
// address; nil: those of their level.
func (c *Config) AllowedCommands(at chat.Address) []string {
	a := c.Accounts()[at.AccountID()]
	if at.Kind == chat.DM {
		return a.UserCommands
	}
	return a.GroupUserCommands
}

// bots returns which other bots are heard.
func bots(a Account) access.BotPolicy {
	if a.BotsMention && a.AllowBots == string(access.AllBots) {
		return access.BotsAddressed
	}
	return access.BotPolicy(a.AllowBots)
}

// hearing returns who is heard according to a policy.
func hearing(policy string, off bool) access.Hearing {
	switch {
	case off || policy == "disabled":
		return access.HearNobody
	case policy == "allowlist":
		return access.HearListed
	}
	return access.HearAllowed
}

// SessionPolicy returns which sessions are per user.
func (c *Config) SessionPolicy() session.KeyPolicy {
	return session.KeyPolicy{Profiles: platforms.Profiles(), GroupPerUser: c.GroupSessionsPerUser, ThreadPerUser: c.ThreadSessionsPerUser}
}

// Ceilings returns the configured rate limits of sends, by account.
func (c *Config) Ceilings() map[chat.Account]outbox.RateLimit {
	m := make(map[chat.Account]outbox.RateLimit)
	for a, s := range c.Accounts() {
		account, err1 := outbox.ParseRate(s.RateLimit.PerAccount)
		room, err2 := outbox.ParseRate(s.RateLimit.PerChat)
		if err1 == nil && err2 == nil && (account.N > 0 || room.N > 0) {
			m[a] = outbox.RateLimit{PerAccount: account, PerChat: room}
		}
	}
	return m
}
