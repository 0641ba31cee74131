package spawn

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// await waits for the end of the child, calls ended while its id is still its
// own, and buries it.
func await(cmd *exec.Cmd, ended func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended()
	return cmd.Wait()
}
