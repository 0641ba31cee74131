package config

import (
	"maps"
	"reflect"

	"hermesd/adapters/discord"
	"hermesd/adapters/httpapi"
	"hermesd/adapters/slack"
	"hermesd/adapters/telegram"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
)

// Platforms configures the chat platforms.
type Platforms struct {
	Telegram Section[telegram.Config] `yaml:"telegram" prefix:"TELEGRAM_"`
	Discord  Section[discord.Config]  `yaml:"discord" prefix:"DISCORD_"`
	Slack    Section[slack.Config]    `yaml:"slack" prefix:"SLACK_"`
	HTTP     httpapi.Config           `yaml:"http"`
}

// A Section configures one platform: its only account, or the settings that its accounts
// share. C is the configuration of its adapter.
type Section[C platforms.Config] struct {
	Login[C] `yaml:",inline"`
	Accounts map[string]Login[C] `yaml:"accounts" doc:"More accounts, by names that you choose, each with the keys above; it has its own allowed users, tokens and webhooks, and inherits other keys from the platform."`
}

// A Login configures one account.
type Login[C platforms.Config] struct {
	Enabled bool `yaml:"enabled" default:"false" own:"true" doc:"Connect. A token is enough, unless this is false."`
	Adapter C    `yaml:",inline"`
	Common  `yaml:",inline"`
}

// Common has the keys that do not depend on the adapter.
type Common struct {
	HomeChannel string `yaml:"home_channel" env:"HOME_CHANNEL" own:"true" doc:"ID of the default chat for messages without another target, as CHAT or CHAT:THREAD."`

	AllowFrom              []string `yaml:"allow_from" env:"ALLOWED_USERS" own:"true" doc:"Ids of the people who may speak: numeric or U…. * is everybody, as guests."`
	AllowAll               bool     `yaml:"allow_all" env:"ALLOW_ALL_USERS" default:"false" own:"true" doc:"Everybody on this platform may speak, as a guest."`
	AllowAdminFrom         []string `yaml:"allow_admin_from" own:"true" doc:"Ids of the people of this platform who may do everything; as access.owners."`
	GroupAllowedChats      []string `yaml:"group_allowed_chats" own:"true" doc:"Ids of the groups in which everybody may speak, as a guest."`
	AllowedRoles           []string `yaml:"allowed_roles" env:"ALLOWED_ROLES" on:"discord" own:"true" doc:"Ids of the roles whose members may speak, as guests."`
	AllowBots              string   `yaml:"allow_bots" env:"ALLOW_BOTS" default:"none" enum:"none|mentions|all" doc:"Which other bots get answers, if they are allowed like users: none, those that mention the bot, all."`
	UnauthorizedDMBehavior string   `yaml:"unauthorized_dm_behavior" enum:"|pair|ignore" doc:"As the key of the same name at the top; empty: its value."`

	DMPolicy       string   `yaml:"dm_policy" own:"true" enum:"|open|pairing|allowlist|disabled" doc:"Whose direct messages are read: those of users whom a key allows (empty, open, pairing), of them only listed or paired ones, or none."`
	GroupPolicy    string   `yaml:"group_policy" own:"true" enum:"|open|allowlist|disabled" doc:"As dm_policy, in groups and channels."`
	AllowedTopics  []string `yaml:"allowed_topics" env:"ALLOWED_TOPICS" on:"telegram" own:"true" doc:"IDs of the topics of groups that are read; 1 is General. Empty: all."`
	IgnoredThreads []string `yaml:"ignored_threads" env:"IGNORED_THREADS" on:"telegram" own:"true" doc:"IDs of the topics of groups that are never read."`
	DisableDMs     bool     `yaml:"disable_dms" env:"DISABLE_DMS" on:"slack" own:"true" default:"false" doc:"Direct messages are not read."`

	UserCommands      []string `yaml:"user_allowed_commands" own:"true" doc:"Commands that people who are no owners may use in direct chats, besides help; empty: those of their level."`
	GroupUserCommands []string `yaml:"group_user_allowed_commands" own:"true" doc:"As user_allowed_commands, in groups and channels."`

	ReplyToMode string   `yaml:"reply_to_mode" env:"REPLY_TO_MODE" default:"first" enum:"off|first|all" doc:"Which pieces of a reply in a group quote the message they answer."`
	Toolsets    []string `yaml:"toolsets" doc:"Tools that conversations on this platform get; empty: what toolsets at the top says."`

	BotsMention bool `yaml:"bots_require_mention" env:"BOTS_REQUIRE_MENTION|BOTS_REQUIRE_INLINE_MENTION" alias:"bots_require_inline_mention" on:"telegram|discord" default:"false" doc:"Messages of other bots are read only if they mention the bot: allow_bots all means mentions."`

	RateLimit RateLimit `yaml:"rate_limit" deprecated:"rate" short:"per_account"`
}

// An Account is the configuration of one account of any platform.
type Account struct {
	Enabled bool
	Secrets map[string]secret.Value // of the adapter, by key
	APIURL  string                  // "": the public one
	Adapter platforms.Config
	Common
}

func (g Login[C]) account() Account {
	a := Account{Enabled: g.Enabled, Secrets: make(map[string]secret.Value), Adapter: g.Adapter, Common: g.Common}
	yamlconf.Walk(&g, func(key string, v any) {
		switch v := v.(type) {
		case secret.Value:
			a.Secrets[key] = v
		case string:
			if key == "api_url" {
				a.APIURL = v
			}
		}
	})
	return a
}

// RateLimit is a fixed ceiling for sends. Without one only the rate limits that
// the platform reports delay sends.
type RateLimit struct {
	PerAccount string `yaml:"per_account" deprecated:"account" doc:"Most sends of the account, such as 30/1s; empty: no ceiling. May be written as rate_limit: 30/1s."`
	PerChat    string `yaml:"per_chat" deprecated:"chat" doc:"Most sends to one chat, such as 20/1m; empty: no ceiling."`
}

type section interface {
	// all returns the accounts by name, also disabled ones. That with the empty name is
	// the section itself.
	all() map[string]Account
	finish(l *loader, path string)
}

func (s *Section[C]) all() map[string]Account {
	m := map[string]Account{"": s.account()}
	for name, g := range s.Accounts {
		m[name] = g.account()
	}
	return m
}

func (p *Platforms) all() map[chat.Platform]section {
	all := make(map[chat.Platform]section)
	for f, v := range reflect.ValueOf(p).Elem().Fields() {
		if s, ok := v.Addr().Interface().(section); ok {
			all[chat.Platform(f.Tag.Get("yaml"))] = s
		}
	}
	return all
}

// platformNames returns the names of the platforms from which people write.
func platformNames() []string {
	var names []string
	for _, p := range platforms.All() {
		names = append(names, string(p.Platform))
	}
	return append(names, string(chat.Console), string(chat.HTTP))
}

// Account returns an account, which may be disabled; the zero Account if there is no
// section for it.
func (c *Config) Account(a chat.Account) Account { return c.allAccounts()[a] }

// Accounts returns the enabled accounts. The account with the empty name is the
// section of the platform itself.
func (c *Config) Accounts() map[chat.Account]Account {
	m := c.allAccounts()
	maps.DeleteFunc(m, func(_ chat.Account, a Account) bool { return !a.Enabled })
	return m
}

func (c *Config) allAccounts() map[chat.Account]Account {
	m := make(map[chat.Account]Account)
	for p, s := range c.Platforms.all() {
		for name, a := range s.all() {
			m[chat.Account{Platform: p, Name: name}] = a
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
	for account, a := range c.allAccounts() {
		p.Accounts[account] = rules(a)
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
