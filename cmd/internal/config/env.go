package config

import (
	"slices"
	"strings"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/cmd/internal/platforms"
)

// A keyVariable is a variable of the environment or of .env that sets a key.
type keyVariable struct {
	name string
	path string
}

// keyVariables returns the variables that set keys. An empty variable counts as
// unset.
func keyVariables() []keyVariable {
	vs := []keyVariable{
		{"GATEWAY_ALLOWED_USERS", "access.allow_from"},
		{"GATEWAY_ALLOW_ALL_USERS", "access.allow_all"},
		{"HERMES_EPHEMERAL_SYSTEM_PROMPT", "agent.ephemeral_system_prompt"},
		{"HERMES_PREFILL_MESSAGES_FILE", "agent.prefill_messages_file"},
		{"HERMES_MAX_ITERATIONS", "agent.max_turns"},
		{"HERMES_TIMEZONE", "timezone"},
		{"HERMES_AGENT_TIMEOUT", "gateway.turn_timeout"},
		{"HERMES_AUTO_CONTINUE_FRESHNESS", "gateway.auto_continue_freshness"},
		{"HERMES_REDACT_SECRETS", "security.redact_secrets"},
		{"HERMES_WRITE_SAFE_ROOT", "security.write_safe_root"},
		{"DELEGATION_MAX_CONCURRENT_CHILDREN", "delegation.max_concurrent_children"},
		{"TERMINAL_CWD", "terminal.cwd"},
		{"STT_API_KEY", "stt.api_key"},
		{"TTS_API_KEY", "tts.api_key"},
		{"TERMINAL_TIMEOUT", "terminal.timeout"},
		{"TERMINAL_DOCKER_NETWORK", "terminal.network"},
		{"TELEGRAM_ALLOWED_CHATS", "platforms.telegram.allowed_chats"},
		{"TELEGRAM_ALLOWED_TOPICS", "platforms.telegram.allowed_topics"},
		{"TELEGRAM_IGNORED_THREADS", "platforms.telegram.ignored_threads"},
		{"TELEGRAM_BOTS_REQUIRE_MENTION", "platforms.telegram.bots_require_mention"},
		{"DISCORD_ALLOWED_CHANNELS", "platforms.discord.allowed_chats"},
		{"DISCORD_IGNORED_CHANNELS", "platforms.discord.ignored_chats"},
		{"DISCORD_ALLOWED_ROLES", "platforms.discord.allowed_roles"},
		{"DISCORD_THREAD_REQUIRE_MENTION", "platforms.discord.thread_require_mention"},
		{"DISCORD_BOTS_REQUIRE_INLINE_MENTION", "platforms.discord.bots_require_mention"},
		{"SLACK_ALLOWED_CHANNELS", "platforms.slack.allowed_chats"},
		{"SLACK_IGNORED_CHANNELS", "platforms.slack.ignored_chats"},
		{"SLACK_DISABLE_DMS", "platforms.slack.disable_dms"},
		{"SLACK_STRICT_MENTION", "platforms.slack.strict_mention"},
		{"SLACK_THREAD_REQUIRE_MENTION", "platforms.slack.thread_require_mention"},
		{"SLACK_REQUIRE_MENTION_CHANNELS", "platforms.slack.require_mention_channels"},
		{"SLACK_IGNORE_OTHER_USER_MENTIONS", "platforms.slack.ignore_other_user_mentions"},
		{"SLACK_NATIVE_MENTION_ONLY_CHANNELS", "platforms.slack.native_mention_only_chats"},
		{"TELEGRAM_WEBHOOK_URL", "platforms.telegram.webhook_url"},
		{"TELEGRAM_WEBHOOK_SECRET", "platforms.telegram.webhook_secret"},
	}
	for _, p := range platforms.All() {
		section := "platforms." + string(p.Platform) + "."
		for _, s := range p.Secrets {
			vs = append(vs, keyVariable{s.Env, section + s.Key})
		}
		for suffix, key := range map[string]string{
			"ALLOWED_USERS": "allow_from", "ALLOW_ALL_USERS": "allow_all", "HOME_CHANNEL": "home_channel",
			"ALLOW_BOTS": "allow_bots", "REQUIRE_MENTION": "require_mention", "REPLY_TO_MODE": "reply_to_mode", "PROXY": "proxy",
		} {
			vs = append(vs, keyVariable{strings.ToUpper(string(p.Platform)) + "_" + suffix, section + key})
		}
	}
	slices.SortFunc(vs, func(a, b keyVariable) int { return strings.Compare(a.name, b.name) })
	return vs
}

// providerKeys returns the names of the variables with API keys, by provider.
func providerKeys() map[string]string {
	return map[string]string{"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY"}
}

// secretVariables returns the names of all variables that contain secrets,
// including those that set no key.
func secretVariables() []string {
	ns := []string{"TELEGRAM_WEBHOOK_SECRET", "STT_API_KEY", "TTS_API_KEY", "BRAVE_API_KEY", "TAVILY_API_KEY"}
	for _, n := range providerKeys() {
		ns = append(ns, n)
	}
	for _, p := range platforms.All() {
		ns = append(ns, strings.ToUpper(string(p.Platform))+"_PROXY")
		for _, s := range p.Secrets {
			ns = append(ns, s.Env)
		}
	}
	return ns
}

// variables applies the variables of the environment and of .env.
func (l *loader) variables(c *Config) {
	for _, v := range keyVariables() {
		if s, from, where := l.variable(v.name); s != "" {
			l.Set(v.path, s, from, where)
		}
	}
	l.mentionVariables(c)
}

// variable returns the value of a variable of the environment or, if it is not set
// there, of .env, and its place.
func (l *loader) variable(name string) (string, Origin, Problem) {
	if s, ok := l.env(name); ok {
		return s, Origin{Kind: yamlconf.FromEnv, Name: name}, Problem{File: "environment", Key: name}
	}
	d := l.dot[name]
	return d.value, Origin{Kind: yamlconf.FromDotenv, Name: name, File: l.dotFile, Line: d.line, Column: d.column},
		Problem{File: l.dotFile, Line: d.line, Column: d.column, Key: name}
}

// mentionVariables applies the variables of upstream Hermes of which each sets one
// element of the list of what answers on Discord may ping.
func (l *loader) mentionVariables(c *Config) {
	for _, v := range []struct {
		name, element string
		on            bool // the value that adds the element; the other one removes it
	}{
		{"DISCORD_ALLOW_MENTION_EVERYONE", "everyone", true}, {"DISCORD_ALLOW_MENTION_ROLES", "roles", true},
		{"DISCORD_ALLOW_MENTION_USERS", "nobody", false}, {"DISCORD_ALLOW_MENTION_REPLIED_USER", "no_reply", false},
	} {
		s, from, where := l.variable(v.name)
		if s == "" {
			continue
		}
		on, ok := yamlconf.ParseBool(s)
		if !ok {
			where.Text = "want true or false"
			l.Problems = append(l.Problems, where)
			continue
		}
		list := slices.DeleteFunc(slices.Clone(c.Platforms.Discord.Adapter.AllowMentions), func(e string) bool { return e == v.element })
		if on == v.on {
			list = append(list, v.element)
		}
		l.Set("platforms.discord.allow_mentions", strings.Join(list, ","), from, where)
	}
}
