package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermesd/agent/tool"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/gateway/access"
)

// guards applies settings of upstream Hermes that restrict the agent in a way that
// hermesd does not have: the part that they guard stays off, and a warning says so.
func (l *loader) guards(c *Config) {
	if c.Memory.WriteApproval {
		l.WarnAt("memory.write_approval", "hermesd cannot ask before something is kept: the agent reads what is kept, and keeps nothing")
	}
	if c.Skills.WriteApproval {
		l.WarnAt("skills.write_approval", "hermesd cannot ask before a skill is changed: the agent changes none")
	}
	if n := get(l.section("approvals"), "smart_policy"); n != nil && !empty(n) && c.Approvals.Mode == "smart" {
		l.WarnNode(n, "approvals.smart_policy", "hermesd does not tell these rules to the model that decides: a person is asked in each case (approvals.mode: manual)")
		c.Approvals.Mode = "manual"
	}
	off := func(n *yaml.Node, path, why string) {
		if c.Terminal.Enabled {
			l.WarnNode(n, path, "%s: the agent has no terminal", why)
		}
		c.Terminal.Enabled = false
	}
	terminal, security := l.section("terminal"), l.section("security")
	if n := l.said(get(terminal, "backend"), "TERMINAL_ENV"); n != nil && n.Kind == yaml.ScalarNode {
		switch backend := strings.ToLower(n.Value); {
		case backend == "" || backend == "local":
		case backend != "docker":
			off(n, "terminal.backend", "hermesd runs commands on this machine only, not with "+backend)
		case c.Terminal.Sandbox == "off":
			off(n, "terminal.backend", "hermesd has no containers, and terminal.sandbox is off")
		default:
			l.WarnNode(n, "terminal.backend", "commands run in hermesd's own sandbox, not in a container")
		}
	}
	if !c.Terminal.Network && c.Terminal.Sandbox == "off" && c.Terminal.Enabled {
		l.WarnAt("terminal.network", "without a sandbox nothing keeps commands from the network: the agent has no terminal")
		c.Terminal.Enabled = false
	}
	if n := l.said(get(security, "tirith_fail_open"), "TIRITH_FAIL_OPEN"); isFalse(n) && !isFalse(l.said(get(security, "tirith_enabled"), "TIRITH_ENABLED")) {
		off(n, "security.tirith_fail_open", "hermesd does not have tirith, without which no command may run")
	}
	if n := get(l.section("delegation"), "worktree_isolation"); n != nil && !empty(n) && !isFalse(n) {
		l.WarnNode(n, "delegation.worktree_isolation", "hermesd gives sub-agents no worktree of their own: the agent cannot delegate")
		c.Agent.DisabledToolsets = append(slices.Clone(c.Agent.DisabledToolsets), "delegation")
	}
	l.hooks(c)
	l.writeRoots(c)
	if b := &c.Security.WebsiteBlocklist; b.Enabled {
		l.sharedDomains(b)
	}
}

// said returns a value of the config file or, if it is set, that of the variable in its
// place; nil if there is none.
func (l *loader) said(n *yaml.Node, variable string) *yaml.Node {
	if v, ok := l.look(variable); ok && v != "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v}
	}
	return n
}

// sharedDomains checks that the files of the blocklist can be read.
func (l *loader) sharedDomains(b *WebsiteBlocklist) {
	for i, name := range b.SharedFiles {
		if _, err := yamlconf.ReadFile(InHome(l.home, name), maxFile); err != nil {
			l.WarnAt(l.Element("security.website_blocklist.shared_files", i), "%s cannot be read: %v: the agent has no web tools", name, err)
		}
	}
}

// Blocked returns the domains whose pages are not read. It fails if a file with domains
// cannot be read.
func (b WebsiteBlocklist) Blocked(home string) (domains []string, err error) {
	if !b.Enabled {
		return nil, nil
	}
	domains = append(domains, b.Domains...)
	for _, name := range b.SharedFiles {
		data, err := yamlconf.ReadFile(InHome(home, name), maxFile)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				domains = append(domains, line)
			}
		}
	}
	return domains, nil
}

// section returns a section at the top of the config file; nil if there is none.
func (l *loader) section(name string) *yaml.Node { return get(l.root, name) }

func isFalse(n *yaml.Node) bool {
	return n != nil && (strings.EqualFold(n.Value, "false") || strings.EqualFold(n.Value, "no") || strings.EqualFold(n.Value, "off"))
}

// hooks takes away the tools whose calls a hook may forbid.
func (l *loader) hooks(c *Config) {
	for _, h := range elements(get(l.section("hooks"), "pre_tool_call")) {
		names := matchedTools(get(yamlconf.Deref(h), "matcher"))
		if len(names) == 0 {
			continue
		}
		l.WarnNode(h, "hooks.pre_tool_call", "hermesd does not run hooks, and this one may forbid calls: the agent does not have the tools that it is about (%s); if it only watches, remove it", strings.Join(names, ", "))
		c.Agent.DisabledToolsets = append(slices.Clone(c.Agent.DisabledToolsets), names...)
	}
}

// elements returns the elements of a list, or n itself if it is a section.
func elements(n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.MappingNode:
		return []*yaml.Node{n}
	}
	return n.Content
}

// matchedTools returns the tools whose names the matcher of a hook matches, or only
// "all" if it is about all of them.
func matchedTools(matcher *yaml.Node) (names []string) {
	if matcher == nil || empty(matcher) || matcher.Value == "*" {
		return []string{"all"}
	}
	re, err := regexp.Compile(matcher.Value)
	if err != nil { // a regular expression of Python may have more
		return []string{"all"}
	}
	all := slices.Concat(append(slices.Collect(maps.Values(tool.Toolsets())), slices.Collect(maps.Keys(access.ToolLevels())))...)
	slices.Sort(all)
	all = slices.Compact(all)
	names = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !re.MatchString(name) })
	if len(names) == len(all) {
		return []string{"all"}
	}
	return names
}

// writeRoots warns if the file tools can write nowhere.
func (l *loader) writeRoots(c *Config) {
	roots, work := c.WriteRoots(l.home), resolve(c.Workspace(l.home))
	if len(roots) > 0 && !slices.ContainsFunc(roots, func(root string) bool { return isBelow(root, work) || isBelow(work, root) }) {
		l.WarnAt("security.write_safe_root", "none of these is in the folder in which the agent works, %s: its file tools change nothing", work)
	}
}
