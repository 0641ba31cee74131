package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// TestSkillsNeedTheirTools: a skill is in the prompt only if the tools and toolsets
// it needs are.
func TestSkillsNeedTheirTools(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, line := range map[string]string{
		"needs-skills":    "requires_toolsets: [skills]",
		"needs-kitchen":   "requires_toolsets: [kitchen]",
		"needs-view":      "requires_tools: [skill_view]",
		"needs-oven":      "requires_tools: [oven]",
		"instead-skills":  "fallback_for_toolsets: [skills]",
		"instead-kitchen": "fallback_for_toolsets: [kitchen]",
		"instead-view":    "fallback_for_tools: [skill_view]",
		"instead-oven":    "fallback_for_tools: [oven]",
	} {
		write("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: Cooks.\nmetadata:\n  hermes:\n    "+line+"\n---\n\nCook.\n")
	}
	write("config.yaml", "model: {provider: demo}\n")
	c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	build, err := app.Prompts(c, report, home)
	if err != nil {
		t.Fatal(err)
	}
	system := build(session.Record{ID: "s"}).System()
	for name, want := range map[string]bool{
		"needs-skills": true, "needs-kitchen": false, "needs-view": true, "needs-oven": false,
		"instead-skills": false, "instead-kitchen": true, "instead-view": false, "instead-oven": true,
	} {
		if got := strings.Contains(system, "- "+name+":"); got != want {
			t.Errorf("%s is offered: %v, want %v", name, got, want)
		}
	}
}

// TestToolsetsSelectTools checks which tools a conversation has under a
// configuration.
func TestToolsetsSelectTools(t *testing.T) {
	phone := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "1"}
	work, desk := phone, chat.Address{Platform: chat.Console, Kind: chat.DM, Chat: "local"}
	work.Account = "work"
	const every = "memory skill_manage skill_view skills_list"
	for yaml, want := range map[string]map[chat.Address]string{
		"":                                 {phone: every, work: every, desk: every},
		"toolsets: [memory]\n":             {phone: "memory", work: "memory", desk: "memory"},
		"toolsets: [all]\n":                {phone: every, desk: every},
		"toolsets: [hermes-cli]\n":         {phone: every, desk: every},
		"toolsets: [skill_view, memory]\n": {phone: "memory skill_view"},
		"toolsets: [web]\n":                {phone: "", desk: ""},
		"platforms: {telegram: {toolsets: [skills], accounts: {work: {token: 2:token}}}}\n":                                          {phone: "skill_manage skill_view skills_list", work: "skill_manage skill_view skills_list", desk: every},
		"toolsets: [memory]\nplatforms: {telegram: {toolsets: [all], accounts: {work: {token: 2:token, toolsets: [skill_view]}}}}\n": {phone: every, work: "skill_view", desk: "memory"},
	} {
		c, report, home := configured(t, "model: {provider: demo}\n"+yaml)
		build, err := app.Prompts(c, report, home)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range want {
			var names []string
			for _, tool := range build(session.Record{ID: "s", Address: at, OwnersOnly: true}).Tools() {
				names = append(names, tool.Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q on %s %s offers %q, want %q", yaml, at.Platform, at.Account, got, want)
			}
		}
	}
}

// configured returns a home directory with a configuration that enables Telegram.
func configured(t *testing.T, yaml string) (*config.Config, config.Report, string) {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return "1:token", name == "TELEGRAM_BOT_TOKEN" }
	c, report, err := config.Load(config.Options{Home: home, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return c, report, home
}
