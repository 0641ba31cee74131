package config

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
	"hermesd/internal/spawn"
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
	if d.inConfig {
		return d.value, Origin{Kind: yamlconf.FromFile, Name: l.file, Line: d.line, Column: d.column}, Problem{File: l.file, Line: d.line, Column: d.column, Key: name}
	}
	return d.value, Origin{Kind: yamlconf.FromDotenv, Name: name, File: l.dotFile, Line: d.line, Column: d.column},
		Problem{File: l.dotFile, Line: d.line, Column: d.column, Key: name}
}

// environmentName matches keys at the top of the config file that are variables.
var environmentName = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)

// topVariables adds the plain values at the top of the config file whose keys are names of
// variables, as upstream Hermes does: as if they stood in .env, unless it has them too.
func (l *loader) topVariables(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		k, v := root.Content[i], yamlconf.Deref(root.Content[i+1])
		if _, ok := l.dot[k.Value]; ok || v.Kind != yaml.ScalarNode || empty(v) || !environmentName.MatchString(k.Value) {
			continue
		}
		s, err := yamlconf.Expand(v.Value, l.look)
		if err != nil {
			l.WarnNode(v, k.Value, "%v: it has no effect", err)
			continue
		}
		if l.dot == nil {
			l.dot = make(map[string]dotVar)
		}
		l.dot[k.Value] = dotVar{name: k.Value, value: s, line: k.Line, column: k.Column, inConfig: true}
	}
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

// learnSecrets registers every secret that was read with the masker: of the
// configuration, and of variables that hermesd or commands read.
func (l *loader) learnSecrets(c *Config) {
	settings := make(map[string]bool) // values of c that are no secrets
	yamlconf.Walk(c, func(_ string, v any) {
		switch v := v.(type) {
		case secret.Value:
			l.secrets.Add(v)
		case string:
			settings[v] = true
		}
	})
	for _, name := range secretVariables() {
		if v, ok := l.look(name); ok {
			l.secrets.Add(secret.Value(v))
		}
	}
	add := func(name, value string) {
		if !settings[value] && maybeSecret(name, value) {
			l.secrets.Add(secret.Value(value))
		}
	}
	for name, v := range l.dot {
		add(name, v.value)
	}
	for _, name := range c.Terminal.EnvPassthrough {
		if v, ok := l.env(name); ok {
			add(name, v)
		}
	}
}

// maybeSecret reports whether a variable may be a secret: hermesd does not know its
// name, and its value is no number. Words and paths are secrets only if the name
// says so; otherwise masking them would garble ordinary text.
func maybeSecret(name, value string) bool {
	switch {
	case slices.Contains(spawn.Passed(), name) || slices.Contains(harmlessVariables(), name):
		return false
	case slices.ContainsFunc(keyVariables(), func(v yamlconf.Variable) bool { return v.Name == name }): // read as a setting
		return false
	case !strings.ContainsFunc(value, unicode.IsLetter):
		return false
	}
	return secretName.MatchString(name) || !isPlain(value)
}

// harmlessVariables returns the names of well-known variables that are not in
// spawn.Passed and contain no secrets.
func harmlessVariables() []string {
	return []string{"PWD", "OLDPWD", "HOSTNAME", "HERMES_HOME", "EDITOR", "VISUAL", "PAGER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "COLORTERM", "LS_COLORS", "NO_PROXY", "no_proxy"}
}

// secretName matches names of variables that say that the value is a secret.
var secretName = regexp.MustCompile(`(?i)key$|token|secret|passw|passphrase|(^|_)(pass|pwd|pat)(_|$)|credential|private`)

// plainPart matches a part of a plain value: a word, maybe with a short number, or a
// number.
var plainPart = regexp.MustCompile(`^([A-Za-z]{0,15}[0-9]{0,3}|[0-9]+)$`)

// isPlain reports whether value consists of words and numbers: a word, a path, a
// region, the address of a host, but not one with a password.
func isPlain(value string) bool {
	if len(value) > 128 || strings.Contains(value, "@") && strings.Contains(value, ":") {
		return false
	}
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("-_./,:@ ", r) })
	return !slices.ContainsFunc(parts, func(p string) bool { return !plainPart.MatchString(p) })
}
