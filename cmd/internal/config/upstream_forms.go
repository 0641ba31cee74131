package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config/yamlconf"
)

// rewrite implements the option Rewrite of package yamlconf: it turns values as
// upstream Hermes writes them into the form that is decoded here.
func (l *loader) rewrite(path string, n *yaml.Node) *yaml.Node {
	path = element.ReplaceAllString(path, "[]")
	section, key := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		section, key = path[:i], path[i+1:]
	}
	if n.Kind == yaml.ScalarNode {
		return l.rewriteScalar(path, n)
	}
	if n.Kind != yaml.MappingNode {
		return n
	}
	switch {
	case path == "":
		l.root = n
		l.topVariables(n)
	case path == "model":
		return l.provided(path, modelForm(n))
	case path == "fallback_providers":
		if len(n.Content) == 0 {
			return sequence(n)
		}
		return sequence(n, n)
	case path == "fallback_providers[]", path == "custom_providers[]", section == "auxiliary":
		return l.provided(path, n)
	case path == "agent.reasoning_effort":
		if on := get(n, "enabled"); on != nil && on.Value == "false" {
			return scalar(n, "none")
		}
		if e := get(n, "effort"); e != nil {
			return l.rewriteScalar(path, e)
		}
		return scalar(n, "")
	case path == "platform_toolsets":
		return toolsetForms(n)
	case path == "agent.personalities":
		return personalityForms(n)
	case key == "home_channel" && strings.HasPrefix(section, "platforms."):
		return homeForm(n)
	case key == "allow_mentions" && strings.HasPrefix(section, "platforms.discord"):
		return mentionForm(n)
	}
	return n
}

// scalarForms returns, by path, what values of upstream Hermes are called here.
func scalarForms() map[string]map[string]string {
	return map[string]map[string]string{
		"logging.level":            {"warning": "warn", "critical": "error", "fatal": "error"},
		"prompt_caching.cache_ttl": {"false": "off", "none": "off", "true": "5m"},
		"display.tool_progress":    {"true": "all", "log": "off"},
		"agent.reasoning_effort":   {"false": "none", "true": "medium", "max": "xhigh", "ultra": "xhigh"},
		"terminal.cwd":             {".": "", "auto": "", "cwd": ""},
		"session_reset.mode":       {"off": "none", "false": "none"},
		"platforms.*.allow_bots":   {"false": "none", "off": "none", "true": "all", "mention": "mentions"},
	}
}

// unlimitedTurns are the values of upstream's agent.max_turns that mean no limit.
var unlimitedTurns = []string{"none", "unlimited", "inf", "infinite", "infinity", "0", "-1"}

// mostTurns is the upper limit of agent.max_turns.
const mostTurns = "1000"

// rewriteScalar is rewrite for a plain value.
func (l *loader) rewriteScalar(path string, n *yaml.Node) *yaml.Node {
	value := strings.ToLower(strings.TrimSpace(n.Value))
	forms := scalarForms()[path]
	if rest, ok := strings.CutPrefix(path, "platforms."); ok && strings.HasSuffix(rest, ".allow_bots") {
		forms = scalarForms()["platforms.*.allow_bots"]
	}
	if now, ok := forms[value]; ok {
		return scalar(n, now)
	}
	switch path {
	case "agent.max_turns", "delegation.max_iterations":
		if slices.Contains(unlimitedTurns, value) {
			l.WarnNode(n, path, "a turn always has a limit here: %s calls", mostTurns)
			return scalar(n, mostTurns)
		}
	case "display.language":
		if value != "" && !slices.Contains([]string{"en", "de"}, value) && languageName.MatchString(value) {
			l.WarnNode(n, path, "hermesd does not speak this language yet: it speaks English")
			return scalar(n, "en")
		}
	case "platforms.discord.allow_mentions":
		if value == "false" || value == "true" { // of upstream's mapping, written as one value
			return sequence(n)
		}
	}
	return n
}

// modelForm returns the section model with the names that upstream Hermes also has for
// its keys: model and name for default, which may itself be such a section, api_base
// for base_url.
func modelForm(n *yaml.Node) *yaml.Node {
	flat := mapping(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if in := yamlconf.Deref(v); k.Value == "default" && in.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(in.Content); j += 2 {
				put(flat, modelKey(in.Content[j]), in.Content[j+1])
			}
			continue
		}
		put(flat, modelKey(k), v)
	}
	return flat
}

// modelKey returns a key of the section model by its name here.
func modelKey(k *yaml.Node) *yaml.Node {
	names := map[string]string{"model": "default", "name": "default", "api_base": "base_url"}
	if now, ok := names[k.Value]; ok {
		return scalar(k, now)
	}
	return k
}

// put sets a key of a mapping unless it has a value there.
func put(m, k, v *yaml.Node) {
	if k.Tag == "!!merge" {
		m.Content = append(m.Content, k, v)
		return
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == k.Value {
			if empty(m.Content[i+1]) {
				m.Content[i+1] = v
			}
			return
		}
	}
	m.Content = append(m.Content, k, v)
}

// NoTools, in a list of toolsets, is no tool at all.
const NoTools = "none"

// toolsetForms returns platform_toolsets with NoTools in place of lists that are empty:
// upstream Hermes writes them where a person has switched everything off.
func toolsetForms(n *yaml.Node) *yaml.Node {
	m := mapping(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], yamlconf.Deref(n.Content[i+1])
		if v.Kind == yaml.SequenceNode && len(v.Content) == 0 {
			v = sequence(v, scalar(v, NoTools))
		}
		m.Content = append(m.Content, k, v)
	}
	return m
}

// personalityForms returns agent.personalities with texts in place of upstream's
// sections of texts.
func personalityForms(n *yaml.Node) *yaml.Node {
	m := mapping(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], yamlconf.Deref(n.Content[i+1])
		if v.Kind == yaml.MappingNode {
			var parts []string
			for _, part := range []struct{ key, before string }{{"system_prompt", ""}, {"tone", "Tone: "}, {"style", "Style: "}} {
				if s := get(v, part.key); s != nil && !empty(s) {
					parts = append(parts, part.before+s.Value)
				}
			}
			v = scalar(v, strings.Join(parts, "\n"))
		}
		m.Content = append(m.Content, k, v)
	}
	return m
}

// homeForm returns a home channel as CHAT or CHAT:THREAD.
func homeForm(n *yaml.Node) *yaml.Node {
	room, thread := get(n, "chat_id"), get(n, "thread_id")
	switch {
	case room == nil || empty(room):
		return scalar(n, "")
	case thread == nil || empty(thread):
		return room
	}
	return scalar(room, room.Value+":"+thread.Value)
}

// mentionForm returns discord's allow_mentions as a list of what answers may ping.
func mentionForm(n *yaml.Node) *yaml.Node {
	list := sequence(n)
	for _, name := range []string{"everyone", "roles"} {
		if v := get(n, name); v != nil && strings.EqualFold(v.Value, "true") {
			list.Content = append(list.Content, scalar(v, name))
		}
	}
	for name, off := range map[string]string{"users": "nobody", "replied_user": "no_reply"} {
		if v := get(n, name); isFalse(v) {
			list.Content = append(list.Content, scalar(v, off))
		}
	}
	return list
}

// The functions below make and read nodes. New nodes have the position of the one that
// they replace.

func scalar(at *yaml.Node, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value, Line: at.Line, Column: at.Column}
}

func sequence(at *yaml.Node, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: content, Line: at.Line, Column: at.Column}
}

func mapping(at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
}

// get returns the value of a key of a mapping; nil if it has none.
func get(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return yamlconf.Deref(n.Content[i+1])
		}
	}
	return nil
}

// empty reports whether n is nothing, an empty text, or an empty list or section.
func empty(n *yaml.Node) bool {
	n = yamlconf.Deref(n)
	return n.Kind == yaml.ScalarNode && (n.Value == "" || n.ShortTag() == "!!null") || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}
