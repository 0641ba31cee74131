package config

import (
	_ "embed" // the table
	"regexp"
	"slices"
	"strings"
)

// upstreamTable lists keys that only upstream has; see upstreamKeys.
//
//go:embed upstream.txt
var upstreamTable string

// movedKeys maps keys that upstream Hermes or users write in another section to
// their path here.
func movedKeys() map[string]string {
	return map[string]string{
		"telegram":                              "platforms.telegram",
		"discord":                               "platforms.discord",
		"slack":                                 "platforms.slack",
		"workspace":                             "terminal.cwd",
		"prefill_messages_file":                 "agent.prefill_messages_file",
		"personalities":                         "agent.personalities",
		"gateway.streaming":                     "streaming",
		"gateway.group_sessions_per_user":       "group_sessions_per_user",
		"gateway.thread_sessions_per_user":      "thread_sessions_per_user",
		"gateway.session_reset":                 "session_reset",
		"agent.gateway_timeout":                 "gateway.turn_timeout",
		"agent.gateway_auto_continue_freshness": "gateway.auto_continue_freshness",
		"agent.restart_drain_timeout":           "gateway.drain_timeout",
	}
}

// upstreamKey reports whether only upstream Hermes has the key at path, and returns
// the warning about it. Upstream also accepts the keys of a platform in a top-level
// section.
func upstreamKey(path string) (note string, ok bool) {
	for _, p := range []string{"telegram", "discord", "slack"} {
		if path == p || strings.HasPrefix(path, p+".") {
			path = "platforms." + path
		}
	}
	parts := strings.Split(element.ReplaceAllString(path, "[]"), ".")
	for _, k := range upstreamKeys() {
		pattern, note, _ := strings.Cut(k, " ")
		if matches(strings.Split(pattern, "."), parts) {
			if note != "" {
				note = "; " + note
			}
			return "Hermes has this key, hermesd does not: it has no effect" + note, true
		}
	}
	return "", false
}

// element matches the index of a list element.
var element = regexp.MustCompile(`\[\d+\]`)

// matches reports whether parts match pattern. A star matches any one part.
func matches(pattern, parts []string) bool {
	if len(parts) != len(pattern) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != parts[i] {
			return false
		}
	}
	return true
}

// upstreamKeys returns the keys and sections that only upstream Hermes has, each
// optionally followed by a space and advice. Keys that exist here are never looked
// up, so a section may be listed although some of its keys exist.
func upstreamKeys() []string {
	keys := strings.Split(strings.TrimSpace(upstreamTable), "\n")
	for _, p := range strings.Fields("whatsapp signal matrix mattermost email sms feishu bluebubbles weixin dingtalk wecom qq qqbot google_chat webhook api_server") {
		keys = append(keys, p+" hermesd has no adapter for it", "platforms."+p+" hermesd has no adapter for it")
	}
	return slices.Clip(keys)
}
