package spawn

import (
	"io"
	"os"
	"os/exec"
)

// setProcessGroup does nothing: Windows has no process groups.
func setProcessGroup(*exec.Cmd) {}

// terminateGroup does nothing: Windows has no SIGTERM.
func terminateGroup(*exec.Cmd) error { return nil }

// killGroup ends the child only; its descendants may continue.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func exitStatus(cmd *exec.Cmd, _ error) (code int, signal string) {
	if cmd.ProcessState == nil {
		return -1, ""
	}
	return cmd.ProcessState.ExitCode(), ""
}

// drain does nothing: pipes have no deadlines on Windows, so no read is interrupted.
func drain(io.Writer, *os.File) (open bool) { return true }
