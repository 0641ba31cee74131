package doctor_test

import (
	"context"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/doctor"
)

func TestSandboxFindings(t *testing.T) {
	none := admin.Sandbox{Enabled: true, Mode: "auto", Mechanism: "none", Text: "the agent has no terminal", Error: "no sandbox works", Limits: []admin.Limit{{Cause: "AppArmor forbids it", Fix: "install a profile"}}}
	for name, c := range map[string]struct {
		s          admin.Sandbox
		level      doctor.Level
		words, fix string
	}{
		"none works":          {none, doctor.Warning, "the agent has no terminal: no sandbox works", "terminal.sandbox: off"},
		"why":                 {none, doctor.Warning, "AppArmor forbids it", "install a profile"},
		"switched off":        {admin.Sandbox{Enabled: true, Mode: "off", Mechanism: "none", Text: "commands run without a sandbox"}, doctor.Warning, "without a sandbox", "auto"},
		"one works":           {admin.Sandbox{Enabled: true, Mode: "auto", Mechanism: "landlock", Text: "commands run under Landlock"}, doctor.OK, "under Landlock", ""},
		"no terminal":         {admin.Sandbox{Mode: "auto", Mechanism: "none", Text: "the agent has no terminal (terminal.enabled: false)"}, doctor.OK, "terminal.enabled", ""},
		"path is missing":     {admin.Sandbox{Enabled: true, Mode: "auto", Mechanism: "bubblewrap"}, doctor.Warning, "commands cannot read /no/such/toolchain", "terminal.read_paths"},
		"home as a workspace": {admin.Sandbox{Enabled: true, Mode: "auto", Mechanism: "bubblewrap"}, doctor.Warning, "the workspace is the home", "terminal.cwd"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHarness(t)
			p.put("config.yaml", "terminal:\n  cwd: ./\n  read_paths: [/no/such/toolchain]\n")
			p.o.Sandbox = func(context.Context) admin.Sandbox { return c.s }
			if f := p.requireFinding(c.level, "sandbox", c.words); !strings.Contains(f.Fix, c.fix) {
				t.Errorf("the fix is %q", f.Fix)
			}
		})
	}
}
