package spawn

import (
	"time"

	"hermesd/internal/diskspace"
)

// diskInterval is the time between two looks at the free space.
const diskInterval = 250 * time.Millisecond

// floor returns the free space, in bytes, that the command must leave, and what is free
// now. It returns zeros if no limit applies or the space cannot be determined.
func (c *Command) floor() (floor, free uint64) {
	if c.KeepFree <= 0 {
		return 0, 0
	}
	free, _, err := diskspace.Of(c.diskDir())
	if err != nil {
		return 0, 0
	}
	return min(uint64(c.KeepFree), free/2), free
}

func (c *Command) diskDir() string {
	if c.Dir == "" {
		return "."
	}
	return c.Dir
}

// fileSize returns the maximum size of a file that the command writes, 0 for none.
func (c *Command) fileSize() int64 {
	floor, free := c.floor()
	return int64(min(free-floor, 1<<62))
}

// watchDisk ends the process if it leaves too little free space.
func (p *Process) watchDisk(exited <-chan struct{}) {
	floor, _ := p.c.floor()
	t := time.NewTicker(diskInterval)
	defer t.Stop()
	for {
		select {
		case <-exited:
			return
		case <-t.C:
			if free, _, err := diskspace.Of(p.c.diskDir()); err == nil && free < floor {
				p.stop(ErrDisk)
				return
			}
		}
	}
}
