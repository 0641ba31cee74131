//go:build unix

package storage

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

func systemDisk() disk {
	return disk{lock: flock, sync: (*os.File).Sync, readMapped: readMapped}
}

func flock(f *os.File) (held bool, err error) {
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return true, nil
		default:
			return false, err
		}
	}
}

func readMapped(f *os.File, n int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	content := slices.Clone(b)
	return content, unix.Munmap(b)
}

func syncDir(dir string, sys disk) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(sys.sync(d), d.Close())
}

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }

// isFull reports whether err means a full disk, an exceeded quota or the size
// limit of files.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
