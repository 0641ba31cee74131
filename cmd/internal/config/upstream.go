package config

import (
	_ "embed" // the list
	"regexp"
	"slices"
	"strings"
	"sync"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/cmd/internal/platforms"
)

// upstreamList has the keys of upstream Hermes, among them those that exist here.
//
//go:embed upstream.txt
var upstreamList string

// movedKeys maps keys that upstream Hermes or users write in another section to
// their path here.
func movedKeys() map[string]string {
	m := map[string]string{
		"workspace":                             "terminal.cwd",
		"prefill_messages_file":                 "agent.prefill_messages_file",
		"personalities":                         "agent.personalities",
		"max_turns":                             "agent.max_turns",
		"fallback_model":                        "fallback_providers",
		"stt_enabled":                           "stt.enabled",
		"terminal.docker_network":               "terminal.network",
		"gateway.platforms":                     "platforms",
		"gateway.streaming":                     "streaming",
		"gateway.stt.enabled":                   "stt.enabled",
		"gateway.group_sessions_per_user":       "group_sessions_per_user",
		"gateway.thread_sessions_per_user":      "thread_sessions_per_user",
		"gateway.unauthorized_dm_behavior":      "unauthorized_dm_behavior",
		"gateway.session_reset":                 "session_reset",
		"agent.gateway_timeout":                 "gateway.turn_timeout",
		"agent.gateway_auto_continue_freshness": "gateway.auto_continue_freshness",
		"agent.restart_drain_timeout":           "gateway.drain_timeout",
	}
	for _, p := range platforms.All() {
		name := string(p.Platform)
		m[name], m["platform_toolsets."+name] = "platforms."+name, "platforms."+name+".toolsets"
	}
	return m
}

// A pattern is a key of upstream Hermes, split at its dots, and advice about it.
type pattern struct {
	parts  []string
	advice string
}

// upstreamPatterns returns the keys of the list by their first part.
var upstreamPatterns = sync.OnceValue(func() map[string][]pattern {
	m := make(map[string][]pattern)
	for line := range strings.Lines(upstreamList) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path, advice, _ := strings.Cut(line, " ")
		parts := strings.Split(path, ".")
		m[parts[0]] = append(m[parts[0]], pattern{parts, advice})
	}
	return m
})

// upstreamKey reports whether upstream Hermes has a key or section at path, and
// returns advice about it. Upstream also accepts the keys of a platform in a section
// at the top.
func upstreamKey(path string) (advice string, ok bool) {
	path = element.ReplaceAllString(path, "[]")
	advice, ok = listed(path)
	if rest, found := strings.CutPrefix(path, "platforms."); found {
		rest = withoutAccount(rest)
		if name, _, deeper := strings.Cut(rest, "."); !deeper && !slices.Contains(platformNames(), name) {
			return "hermesd has no adapter for it", ok
		}
		a, top := listed(rest)
		b, all := listed("platforms." + rest)
		advice, ok = advice+a+b, ok || top || all
	}
	return advice, ok
}

// withoutAccount turns the path of a key of an account into that of its platform.
func withoutAccount(path string) string {
	parts := strings.Split(path, ".")
	if len(parts) > 3 && parts[1] == "accounts" {
		parts = append(parts[:1:1], parts[3:]...)
	}
	return strings.Join(parts, ".")
}

// listed looks path up in the list: as a key of it, or as a section that has keys
// there.
func listed(path string) (advice string, ok bool) {
	parts := strings.Split(path, ".")
	for _, p := range upstreamPatterns()[parts[0]] {
		if !p.matches(parts) {
			continue
		}
		ok = true
		if len(p.parts) == len(parts) {
			advice = p.advice
		}
	}
	return advice, ok
}

var element = regexp.MustCompile(`\[\d+\]`)

// matches reports whether parts match the pattern or its beginning. <x> matches any
// name; <platform> does not match a misspelt name of a platform that exists here.
func (p pattern) matches(parts []string) bool {
	if len(parts) > len(p.parts) {
		return false
	}
	for i, part := range parts {
		if want := p.parts[i]; !strings.HasPrefix(want, "<") && want != part && strings.TrimSuffix(want, "[]") != part {
			return false
		}
	}
	i := slices.Index(p.parts[:len(parts)], "<platform>")
	return i < 0 || !slices.ContainsFunc(platformNames(), func(name string) bool { return parts[i] != name && yamlconf.Near(parts[i], name) })
}

// strictKey reports whether an unknown key at path stops the start: it may decide who
// may do what.
func strictKey(path string) bool {
	return slices.ContainsFunc([]string{"access", "approvals", "terminal", "platforms"}, func(s string) bool {
		return strings.HasPrefix(path, s+".")
	})
}
