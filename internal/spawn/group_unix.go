//go:build unix

package spawn

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
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

// maxPipe is the greatest capacity of a pipe without privileges on Linux.
const maxPipe = 1 << 20

// drain copies to w what r contains. It does not wait: the process has ended, and what it
// wrote is in r even if this process had no processor time to read it. drain reports
// whether another process has a write end open; that one may write more.
func drain(w io.Writer, r *os.File) (open bool) {
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		return true
	}
	c, err := r.SyscallConn()
	if err != nil {
		return true
	}
	buf := make([]byte, 32<<10)
	for left := maxPipe; left > 0; {
		n, readErr := 0, error(nil)
		if err := c.Read(func(fd uintptr) bool {
			n, readErr = syscall.Read(int(fd), buf)
			return true // do not wait
		}); err != nil {
			return true
		}
		switch {
		case errors.Is(readErr, syscall.EINTR):
			continue
		case readErr != nil: // EAGAIN: it is empty
			return true
		case n == 0:
			return false
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return false
		}
		left -= n
	}
	return true
}
