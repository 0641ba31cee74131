package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
	"hermesd/internal/spawn"
)

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
