package doctor

import (
	"os"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/spawn"
)

// checkSandbox checks what confines commands here, and in the daemon that runs.
func (v *checker) checkSandbox(s admin.Sandbox) {
	switch {
	case s.Error != "":
		v.report("sandbox", Warning, "`hermesd sandbox` tells more; `terminal.sandbox: off` lets commands do all that this account may do", "%s: %s", s.Text, s.Error)
	case s.Enabled && s.Mechanism == string(spawn.None):
		v.report("sandbox", Warning, "set terminal.sandbox to auto", "%s", s.Text)
	default:
		v.reportOK("sandbox", "%s", s.Text)
	}
	for _, l := range s.Limits {
		v.report("sandbox", Warning, l.Fix, "%s", l.Cause)
	}
	if d := v.status; d != nil && d.Sandbox.Mode != "" && (d.Sandbox.Mechanism != s.Mechanism || d.Sandbox.HasTerminal() != s.HasTerminal()) {
		v.report("sandbox", Warning, "restart the daemon; if it stays so, the service that runs it is confined more than this command", "the daemon that runs found something else at its start: %s", d.Sandbox.Describe())
	}
	if v.o.Config == nil || !s.Enabled || s.Mode == string(spawn.Off) {
		return
	}
	for _, path := range v.o.Config.ReadPaths(v.o.Home) {
		if _, err := os.Stat(path); err != nil {
			v.report("sandbox", Warning, "correct terminal.read_paths, and restart the daemon", "commands cannot read %s: %v", path, err)
		}
	}
	work, err := os.Stat(v.o.Config.Workspace(v.o.Home))
	if home, homeErr := os.Stat(v.o.Home); err == nil && homeErr == nil && os.SameFile(work, home) {
		v.report("sandbox", Warning, "set terminal.cwd to another directory, such as workspace", "the workspace is the home of the daemon: what exists there is hidden from commands, but they may make files that the daemon reads")
	}
}
