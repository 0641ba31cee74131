package config_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// TestSeveralPeopleWithoutOwner shows the warning about several people of whom nobody is
// owner.
func TestSeveralPeopleWithoutOwner(t *testing.T) {
	const want = "access.owners: several ids are allowed, and none of them is an owner's"
	for yaml, warned := range map[string]bool{
		"telegram: {allow_from: [1, 2]}":                                    true,
		"access: {allow_from: [1]}\ntelegram: {allow_from: [2]}":            true,
		"telegram: {allow_from: [1]}":                                       false,
		"telegram: {allow_from: [1, 2], allow_admin_from: [1]}":             false,
		"access: {owners: [3]}\ntelegram: {allow_from: [1, 2]}":             false,
		"access: {allow_from: [1]}\ntelegram: {allow_from: ['telegram:1']}": false,
		"telegram: {allow_all: true}":                                       false,
	} {
		_, r := setup{yaml: yaml}.good(t)
		if got := texts(r.Warnings); strings.Contains(got, want) != warned {
			t.Errorf("%s: %s", yaml, got)
		}
	}
}

// TestSettingsThatRestrictAreNotMerelyWarnedOf shows that settings of upstream Hermes that
// restrict the agent hold, or that the part that they guard stays off with a warning.
func TestSettingsThatRestrictAreNotMerelyWarnedOf(t *testing.T) {
	terminal := func(c *config.Config) any { return c.Terminal.Enabled }
	disabled := func(c *config.Config) any { return c.Agent.DisabledToolsets }
	rules := func(c *config.Config) access.AccountRules {
		return c.AccessPolicy().Accounts[chat.Account{Platform: chat.Telegram}]
	}
	for _, c := range []struct {
		yaml string
		get  func(c *config.Config) any
		want any
		warn string // a part of the warning; "" if there is none
	}{
		{"agent: {disabled_toolsets: [terminal, web]}", func(c *config.Config) any { return c.Agent.DisabledToolsets }, []string{"terminal", "web"}, ""},
		{"platform_toolsets: {telegram: [web], cli: [file], whatsapp: [web]}", func(c *config.Config) any {
			return slices.Concat(c.Platforms.Telegram.Toolsets, c.PlatformToolsets.CLI)
		}, []string{"web", "file"}, "whatsapp"},
		{"platform_toolsets: {discord: []}", func(c *config.Config) any { return c.Platforms.Discord.Toolsets }, []string{"none"}, ""},
		{"approvals: {deny: ['git push*']}", func(c *config.Config) any { return c.Approvals.Deny }, []string{"git push*"}, ""},
		{"telegram: {dm_policy: disabled, group_policy: allowlist, allowed_topics: [7], extra: {ignored_threads: '8,9'}}", func(c *config.Config) any {
			r := rules(c)
			return []any{r.DMs, r.Groups, r.Topics, r.IgnoredTopics}
		}, []any{access.HearNobody, access.HearListed, []string{"7"}, []string{"8", "9"}}, ""},
		{"telegram: {token: '1:x', user_allowed_commands: [new], group_user_allowed_commands: [status]}", func(c *config.Config) any {
			return [][]string{c.AllowedCommands(chat.Address{Platform: chat.Telegram, Kind: chat.DM}), c.AllowedCommands(chat.Address{Platform: chat.Telegram, Kind: chat.Group})}
		}, [][]string{{"new"}, {"status"}}, ""},
		{"slack: {disable_dms: true}", func(c *config.Config) any {
			return c.AccessPolicy().Accounts[chat.Account{Platform: chat.Slack}].DMs
		}, access.HearNobody, ""},
		{"security: {website_blocklist: {enabled: true, domains: [x.test]}}", func(c *config.Config) any { return c.Security.WebsiteBlocklist.Domains }, []string{"x.test"}, ""},
		{"security: {website_blocklist: {enabled: true, shared_files: [none.txt]}}", func(*config.Config) any { return nil }, nil, "the agent has no web tools"},
		{"security: {protected_instruction_files: true}", func(c *config.Config) any { return c.Security.ProtectedInstructionFiles }, true, ""},
		{"memory: {write_approval: true}", func(c *config.Config) any { return c.Memory.WriteApproval }, true, "keeps nothing"},
		{"skills: {write_approval: true}", func(c *config.Config) any { return c.Skills.WriteApproval }, true, "changes none"},
		{"terminal: {docker_network: false}", func(c *config.Config) any { return c.Terminal.Network }, false, ""},
		{"terminal: {docker_network: false, sandbox: off}", terminal, false, "the agent has no terminal"},
		{"terminal: {backend: ssh}", terminal, false, "terminal.backend: hermesd runs commands on this machine only, not with ssh: the agent has no terminal"},
		{"terminal: {backend: docker}", terminal, true, "hermesd's own sandbox"},
		{"terminal: {backend: docker, sandbox: off}", terminal, false, "the agent has no terminal"},
		{"terminal: {backend: local}", terminal, true, ""},
		{"security: {tirith_fail_open: false}", terminal, false, "the agent has no terminal"},
		{"security: {tirith_fail_open: false, tirith_enabled: false}", terminal, true, "tirith_enabled"},
		{"hooks: {pre_tool_call: [{command: x, fail_closed: true}]}", disabled, []string{"all"}, "does not have the tools that it is about (all)"},
		{"hooks: {pre_tool_call: [{command: x, matcher: '*'}]}", disabled, []string{"all"}, "this one may forbid calls"},
		{"hooks: {pre_tool_call: [{command: x, matcher: '^(terminal|process)$'}, {command: y, matcher: '^write_'}]}", disabled, []string{"process", "terminal", "write_file"}, "(write_file)"},
		{"hooks: {pre_tool_call: [{command: x, matcher: '(?!patch)'}]}", disabled, []string{"all"}, "(all)"},
		{"hooks: {pre_tool_call: [{command: x, matcher: '^no_such_tool$'}], post_tool_call: [{command: x}]}", disabled, []string(nil), "post_tool_call"},
		{"hooks: {}", disabled, []string(nil), "hooks"},
		{"agent: {disabled_toolsets: [web]}\ndelegation: {worktree_isolation: true}", disabled, []string{"web", "delegation"}, "the agent cannot delegate"},
		{"delegation: {worktree_isolation: false}", disabled, []string(nil), ""},
		{"agent: {run_budget_seconds: 420}", func(c *config.Config) any { return c.Agent.RunBudget }, 7 * time.Minute, ""},
		{"delegation: {max_concurrent_children: 10, max_iterations: 250, child_timeout_seconds: 600, max_summary_chars: 24000}", func(c *config.Config) any { return c.Delegation }, config.Delegation{MaxConcurrent: 10, MaxIterations: 250, Timeout: 10 * time.Minute, MaxReport: 24000}, ""},
		{"delegation: {max_iterations: none}", func(c *config.Config) any { return c.Delegation.MaxIterations }, 1000, "always has a limit"},
		{"slack: {native_mention_only_channels: 'C1,C2'}\ntelegram: {native_mention_only_chats: [-1001]}", func(c *config.Config) any {
			return slices.Concat(c.Platforms.Slack.Adapter.NativeMentions, c.Platforms.Telegram.Adapter.NativeMentions)
		}, []string{"C1", "C2", "-1001"}, ""},
		{"platforms: {discord: {extra: {native_mention_only_channels: [1]}}}", func(c *config.Config) any { return c.Platforms.Discord.Adapter.NativeMentions }, []string{"1"}, ""},
		{"approvals: {mode: smart, smart_policy: 'Always ask.'}", func(c *config.Config) any { return c.Approvals.Mode }, "manual", "a person is asked"},
		{"approvals: {mode: smart, smart_policy: ''}", func(c *config.Config) any { return c.Approvals.Mode }, "smart", ""},
		{"telegram: {allow_bots: all, bots_require_mention: true}", func(c *config.Config) any { return rules(c).AllowBots }, access.BotsAddressed, ""},
		{"slack: {thread_require_mention: true, require_mention_channels: 'C1,C2', ignore_other_user_mentions: true}", func(c *config.Config) any {
			s := c.Platforms.Slack
			return []any{s.Adapter.ThreadMention, s.Adapter.MentionChats, s.Adapter.IgnoreOthers}
		}, []any{true, []string{"C1", "C2"}, true}, ""},
		{"discord: {allow_mentions: {users: false}}", func(c *config.Config) any { return c.Platforms.Discord.Adapter.AllowMentions }, []string{"nobody"}, ""},
		{"discord: {allow_mentions: {replied_user: false}}", func(c *config.Config) any { return c.Platforms.Discord.Adapter.AllowMentions }, []string{"no_reply"}, ""},
	} {
		cfg, r := setup{yaml: c.yaml}.good(t)
		if d := cmp.Diff(c.want, c.get(cfg)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.yaml, d)
		}
		if got := texts(r.Warnings); !strings.Contains(got, c.warn) || c.warn == "" && strings.Contains(got, "no effect") {
			t.Errorf("%s: warnings %q, want %q", c.yaml, got, c.warn)
		}
	}
	c, r := setup{dotenv: "TELEGRAM_ALLOWED_TOPICS=7,8\nSLACK_DISABLE_DMS=true\nTERMINAL_ENV=ssh\nTERMINAL_DOCKER_NETWORK=false\nDISCORD_ALLOWED_CHANNELS=1\n"}.good(t)
	if d := cmp.Diff([]any{[]string{"7", "8"}, true, false, false, []string{"1"}}, []any{c.Platforms.Telegram.AllowedTopics, c.Platforms.Slack.DisableDMs, c.Terminal.Enabled, c.Terminal.Network, c.Platforms.Discord.Adapter.AllowedChats}); d != "" {
		t.Errorf("the variables: %s\n%s", d, texts(r.Warnings))
	}
	home := t.TempDir()
	write(t, filepath.Join(home, "list.txt"), "# a list\nb.test # why\n\nc.test\n")
	c, _ = setup{home: home, yaml: "security: {website_blocklist: {enabled: true, domains: [a.test], shared_files: [list.txt]}}"}.good(t)
	if got, err := c.Security.WebsiteBlocklist.Blocked(home); err != nil || !slices.Equal(got, []string{"a.test", "b.test", "c.test"}) {
		t.Errorf("blocked %v, %v", got, err)
	}
}

// TestKeysThatRestrictNothingHere lists keys of upstream Hermes that restrict there and not
// here, because what they restrict does not exist or is always restricted. They are warned
// about, with the reason.
func TestKeysThatRestrictNothingHere(t *testing.T) {
	for yaml, reason := range map[string]string{
		// Messages that a compaction replaces stay in the store in the same transaction.
		"compression: {checkpoint_required: true}": "checkpoint_required (the original messages always stay in the store)",
		// A sub-agent never gets the tool delegate_task.
		"delegation: {max_spawn_depth: 1}":           "max_spawn_depth (sub-agents cannot delegate)",
		"delegation: {orchestrator_enabled: false}":  "orchestrator_enabled (sub-agents cannot delegate)",
		"delegation: {subagent_auto_approve: false}": "subagent_auto_approve (a person is asked)",
		// There are no MCP servers that sub-agents could inherit.
		"delegation: {inherit_mcp_toolsets: false}": "inherit_mcp_toolsets",
		// Telegram messages that name only another bot are ignored whatever is set.
		"telegram: {exclusive_bot_mentions: true}": "exclusive_bot_mentions (what names only another bot is never answered)",
		// No hook runs, with consent or without.
		"hooks_auto_accept: false": "hooks_auto_accept (no hook runs)",
	} {
		c, r := setup{yaml: yaml}.good(t)
		if got := texts(r.Warnings); !strings.Contains(got, reason) {
			t.Errorf("%s: warnings %q, want %q", yaml, got, reason)
		}
		if len(c.Agent.DisabledToolsets) > 0 || !c.Terminal.Enabled {
			t.Errorf("%s: something is off", yaml)
		}
	}
}

// TestVariablesThatRestrict shows variables of upstream Hermes of which each sets a part of
// a key, or a list of paths.
func TestVariablesThatRestrict(t *testing.T) {
	const key = "discord: {allow_mentions: {everyone: true, users: false}}\n"
	for dotenv, want := range map[string][]string{
		"DISCORD_ALLOW_MENTION_EVERYONE=false\n":                                   {"nobody"},
		"DISCORD_ALLOW_MENTION_ROLES=yes\nDISCORD_ALLOW_MENTION_USERS=1\n":         {"everyone", "roles"},
		"DISCORD_ALLOW_MENTION_REPLIED_USER=off\n":                                 {"everyone", "nobody", "no_reply"},
		"DISCORD_ALLOW_MENTION_EVERYONE=true\nDISCORD_ALLOW_MENTION_USERS=false\n": {"everyone", "nobody"},
		"DISCORD_ALLOW_MENTION_EVERYONE=\n":                                        {"everyone", "nobody"},
		"DISCORD_ALLOW_MENTION_EVERYONE=no\nDISCORD_ALLOW_MENTION_USERS=on\n":      nil,
	} {
		c, _ := setup{yaml: key, dotenv: dotenv}.good(t)
		if d := cmp.Diff(want, c.Platforms.Discord.Adapter.AllowMentions, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%q: (-want +got)\n%s", dotenv, d)
		}
	}
	if got := (setup{env: map[string]string{"DISCORD_ALLOW_MENTION_ROLES": "maybe"}}).problems(t); !strings.Contains(got, "DISCORD_ALLOW_MENTION_ROLES: want true or false") {
		t.Error(got)
	}
	home := t.TempDir()
	roots := strings.Join([]string{filepath.Join(home, "workspace", "out"), "/srv"}, string(filepath.ListSeparator))
	c, r := setup{home: home, dotenv: "HERMES_WRITE_SAFE_ROOT=" + roots + "\n"}.good(t)
	if got := strings.Join(c.WriteRoots(home), string(filepath.ListSeparator)); got != roots || texts(r.Warnings) != "" {
		t.Errorf("the roots are %s\n%s", got, texts(r.Warnings))
	}
	c, r = setup{home: home, env: map[string]string{"HERMES_WRITE_SAFE_ROOT": "/srv"}}.good(t)
	if len(c.WriteRoots(home)) != 1 || !strings.Contains(texts(r.Warnings), "its file tools change nothing") {
		t.Errorf("%v\n%s", c.WriteRoots(home), texts(r.Warnings))
	}
}
