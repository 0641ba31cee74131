//go:build unix

package spawn

import (
	"errors"
	"os/exec"
	"syscall"
)

// setProcessGroup starts the child in its own session and process group, so that its
// descendants end with it, and without a terminal.
func setProcessGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

func terminateGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func exitStatus(cmd *exec.Cmd, err error) (code int, signal string) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState == nil {
		return -1, ""
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), w.Signal().String()
	}
	return cmd.ProcessState.ExitCode(), ""
}
