package spawn

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// behind is how much later than we a child has its turn on a processor, as nice
// counts: whatever it does, messages are accepted.
const behind = 10

// yield puts the child and its group behind us.
func yield(cmd *exec.Cmd) {
	ours, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, min(20-ours+behind, 19)) // it is a favour
	}
}

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
