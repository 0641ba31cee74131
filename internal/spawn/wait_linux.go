package spawn

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// niceOffset is added to the nice value of this process for children, so that they do not
// delay the acceptance of messages.
const niceOffset = 10

// childNice returns the nice value of children.
func childNice() int {
	ours, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 - nice
	if err != nil {
		ours = 20
	}
	return min(20-ours+niceOffset, 19)
}

// lowerPriority gives the child's group a lower CPU priority than this process.
func lowerPriority(cmd *exec.Cmd) {
	_ = unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, childNice()) // best effort
}

// waitChild waits for the end of the child, calls ended before its process ID can be
// reused, and reaps it.
func waitChild(cmd *exec.Cmd, ended func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended()
	return cmd.Wait()
}
