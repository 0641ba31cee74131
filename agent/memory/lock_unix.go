//go:build unix

package memory

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock acquires the lock on f, or reports that it is held elsewhere.
func tryLock(f *os.File) (held bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return true, nil
	}
	return false, err
}
