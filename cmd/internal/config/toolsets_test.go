package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
)

func TestAToolThatIsNoneIsWarnedOf(t *testing.T) {
	_, r := setup{yaml: "toolsets: [web, kitchen, all, read_file, hermes-cli, browser]\nplatforms: {telegram: {toolsets: [file, wbe]}}\n"}.good(t)
	said := ""
	for _, w := range r.Warnings {
		said += w.String() + "\n"
	}
	for want, n := range map[string]int{`"kitchen"`: 1, `"wbe"`: 1, "there is no tool or toolset called": 2} {
		if got := strings.Count(said, want); got != n {
			t.Errorf("%s is said %d times in\n%s", want, got, said)
		}
	}
}

// Each tool is in a toolset, and the page names both.
func TestEveryToolIsInAToolset(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "platforms.md"))
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	for set, tools := range tool.Toolsets() {
		for _, name := range tools {
			in[name] = set
		}
	}
	for name := range access.ToolLevels() {
		set := in[name]
		if set == "" || !strings.Contains(string(page), "`"+set+"`") || !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s is in the toolset %q, and the page does not say so", name, set)
		}
	}
}
