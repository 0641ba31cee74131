package spawn

import "os/exec"

// alone does nothing: there are no process groups here.
func alone(*exec.Cmd) {}

// askGroup does nothing: nobody can be asked here.
func askGroup(*exec.Cmd) error { return nil }

// killGroup ends the child; what it has started may go on.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// status says how the child has ended.
func status(cmd *exec.Cmd, _ error) (code int, signal string) {
	if cmd.ProcessState == nil {
		return -1, ""
	}
	return cmd.ProcessState.ExitCode(), ""
}
