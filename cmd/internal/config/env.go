package config

import (
	"slices"
	"strings"
	"sync"

	"hermesd/cmd/internal/config/yamlconf"
)

// keyVariables returns the variables of the environment or of .env that set keys. An empty
// variable counts as unset.
var keyVariables = sync.OnceValue(func() []yamlconf.Variable { return yamlconf.Variables(new(Config)) })

// secretVariables returns the names of all variables that contain secrets,
// including those that set no key.
func secretVariables() []string {
	ns := []string{"BRAVE_API_KEY", "TAVILY_API_KEY"}
	for _, s := range withKeys() {
		ns = append(ns, s.Variable)
	}
	for _, v := range keyVariables() {
		if v.Secret {
			ns = append(ns, v.Name)
		}
	}
	return ns
}

// variables applies the variables of the environment and of .env.
func (l *loader) variables(c *Config) {
	for _, v := range keyVariables() {
		if s, from, where := l.variable(v.Name); s != "" {
			l.Set(v.Path, s, from, where)
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
