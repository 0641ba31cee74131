package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
)

// TestSkillsForOtherTools: what skills say of tools and toolsets decides what the
// prompt offers.
func TestSkillsForOtherTools(t *testing.T) {
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
