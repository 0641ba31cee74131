package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func systemDisk() disk {
	return disk{lock: lockFile, sync: (*os.File).Sync, readMapped: readMapped}
}

// lockFile locks one byte far beyond the end of f, so that the text of f can
// still be read.
func lockFile(f *os.File) (held bool, err error) {
	at := windows.Overlapped{OffsetHigh: 1}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}

// readMapped reads the file: on Windows a map and a file show the same content.
func readMapped(f *os.File, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := f.ReadAt(b, 0)
	return b, err
}

// syncDir does nothing: Windows cannot sync a directory and does not need to.
func syncDir(string, disk) error { return nil }

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

func isFull(err error) bool { return errors.Is(err, windows.ERROR_DISK_FULL) }
