package spawn

import (
	"time"

	"hermesd/internal/diskspace"
)

// diskInterval is the time between two looks at the free space.
const diskInterval = 250 * time.Millisecond

// setFloor determines the free space that the command must leave, and the maximum size of a
// file that it writes: none if the space cannot be determined.
func (c *Command) setFloor() (fileSize int64) {
	if c.KeepFree <= 0 {
		return 0
	}
	free, _, err := diskspace.Of(c.diskDir())
	if err != nil {
		return 0
	}
	c.floor = min(uint64(c.KeepFree), free/2)
	return int64(min(free-c.floor, 1<<62))
}

func (c *Command) diskDir() string {
	if c.Dir == "" {
		return "."
	}
	return c.Dir
}

// watchDisk ends the process if it leaves too little free space.
func (p *Process) watchDisk(exited <-chan struct{}) {
	t := time.NewTicker(diskInterval)
	defer t.Stop()
	for {
		select {
		case <-exited:
			return
		case <-t.C:
			if free, _, err := diskspace.Of(p.c.diskDir()); err == nil && free < p.c.floor {
				p.stop(ErrDisk)
				return
			}
		}
	}
}
