package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
)

// TestSettingsThatRestrictHoldInTheDaemon uses tools that the configuration of an existing
// home restricts.
func TestSettingsThatRestrictHoldInTheDaemon(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "agent:\n  disabled_toolsets: [todo]\napprovals:\n  deny: [\"git push --force*\", \"*nuke*\"]\nmemory:\n  write_approval: true\nskills:\n  write_approval: true\n" +
		"hooks:\n  pre_tool_call:\n  - {matcher: ^search_files$, command: x}\n" +
		"security:\n  write_safe_root: [workspace/out, /nowhere]\n  website_blocklist:\n    enabled: true\n    shared_files: [none.txt]\n"})
	w.start()
	w.waitConnected()
	for _, c := range []struct {
		tool string
		in   map[string]any
		want string
	}{
		{"terminal", map[string]any{"command": "cd . && git push --force origin"}, "approvals.deny"},
		{"terminal", map[string]any{"command": "echo nuke"}, "approvals.deny"},
		{"terminal", map[string]any{"command": "echo fine"}, "fine"},
		{"todo", map[string]any{"todos": []any{}}, "no tool"},
		{"memory", map[string]any{"action": "add", "target": "memory", "content": "x"}, "no tool"},
		{"skill_manage", map[string]any{"action": "delete", "name": "x"}, "no tool"},
		{"web_extract", map[string]any{"urls": []string{"http://a.test/"}}, "no tool"},
		{"search_files", map[string]any{"pattern": "x"}, "no tool"},
		{"write_file", map[string]any{"path": "a.txt", "content": "x\n"}, "only in "},
		{"write_file", map[string]any{"path": "out/../a.txt", "content": "x\n"}, "security.write_safe_root"},
		{"write_file", map[string]any{"path": "outer/a.txt", "content": "x\n"}, "security.write_safe_root"},
		{"write_file", map[string]any{"path": "out/a.txt", "content": "x\n"}, "result: ["},
		{"write_file", map[string]any{"path": "out/AGENTS.md", "content": "x\n"}, "instructs the agent itself"},
	} {
		if text := w.ask(c.tool, c.in); !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %s, want %q", c.tool, c.in, text, c.want)
		}
	}
	w.deny()
	if text := w.ask("terminal", map[string]any{"command": "echo x > AGENTS.md"}); !strings.Contains(text, "May I run this?") {
		t.Errorf("a command that changes AGENTS.md: %s", text)
	}
	w.deny()
}

// TestAPromptSaysNothingOfMemoryWhereThereIsNone: two people may speak and nobody is owner.
func TestAPromptSaysNothingOfMemoryWhereThereIsNone(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("model: {provider: demo}\ntelegram: {allow_from: [1, 2]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	build, err := app.Prompts(c, report, home)
	if err != nil {
		t.Fatal(err)
	}
	for owners, want := range map[bool]bool{true: true, false: false} {
		p := build(session.Record{ID: "s", OwnersOnly: owners})
		if got := strings.Contains(p.System(), "You keep notes"); got != want {
			t.Errorf("owners %v: the prompt speaks of notes: %v", owners, got)
		}
		if got := strings.Contains(fmt.Sprint(p.Tools()), "memory"); got != want {
			t.Errorf("owners %v: there is a tool for memory: %v", owners, got)
		}
	}
}

// TestAPromptNamesTheStoreOfMemoryThatIsOn: the other one refuses notes.
func TestAPromptNamesTheStoreOfMemoryThatIsOn(t *testing.T) {
	for setting, want := range map[string]string{
		"{memory_enabled: false}":       "give target user for each note",
		"{user_profile_enabled: false}": "give target memory for each note",
		"{}":                            "",
		"{memory_enabled: false, write_approval: true}": "",
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("model: {provider: demo}\nmemory: "+setting+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		build, err := app.Prompts(c, report, home)
		if err != nil {
			t.Fatal(err)
		}
		system := build(session.Record{ID: "s", OwnersOnly: true}).System()
		if !strings.Contains(system, want) || want == "" && strings.Contains(system, "stores of the memory tool") {
			t.Errorf("%s: the prompt:\n%s", setting, system)
		}
	}
}

// TestAPromptSaysNothingOfToolsThatAreOff: what is kept is still read.
func TestAPromptSaysNothingOfToolsThatAreOff(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "memories"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.yaml": "model: {provider: demo}\nmemory: {write_approval: true}\n", "memories/MEMORY.md": "the lamp is green"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, report, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	build, err := app.Prompts(c, report, home)
	if err != nil {
		t.Fatal(err)
	}
	system := build(session.Record{ID: "s", OwnersOnly: true}).System()
	if !strings.Contains(system, "the lamp is green") || strings.Contains(system, "You keep notes") {
		t.Errorf("the prompt:\n%s", system)
	}
}
