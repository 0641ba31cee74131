//go:build unix

package spawn

import (
	"errors"
	"os/exec"
	"syscall"
)

// alone gives the child a session and a process group of its own, so that what
// it has started ends with it, and no terminal.
func alone(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

// askGroup asks the child and its group to end.
func askGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// killGroup ends the child and its group.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// status says how the child has ended.
func status(cmd *exec.Cmd, err error) (code int, signal string) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState == nil {
		return -1, ""
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), w.Signal().String()
	}
	return cmd.ProcessState.ExitCode(), ""
}
