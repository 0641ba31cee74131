package storage

import (
	"bytes"
	"errors"
	"os"
)

// A disk contains the file system functions that a store needs.
type disk struct {
	// lock takes an exclusive lock on f without waiting; held is true if
	// another owner has it.
	lock func(f *os.File) (held bool, err error)
	sync func(f *os.File) error
	// readMapped returns the first n bytes of f as a shared memory map shows
	// them.
	readMapped func(f *os.File, n int) ([]byte, error)
}

var errNoLock = errors.New("file lock held by two owners at once")

var errNoMap = errors.New("memory map does not show written data")

// probe checks with a temporary file that the file system supports what the
// store relies on.
func probe(dir string, sys disk) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return &HomeError{dir, reasonOf(err, "cannot create file"), err}
	}
	defer func() {
		_ = f.Close()           // its content does not matter
		_ = os.Remove(f.Name()) // a leftover does no harm
	}()
	if err := probeLock(f, sys); err != nil {
		return &HomeError{dir, "file system cannot lock files; use a local disk", err}
	}
	want := []byte("hermesd probes this file system\n")
	if _, err := f.WriteAt(want, 0); err != nil {
		return &HomeError{dir, reasonOf(err, "cannot write file"), err}
	}
	if err := sys.sync(f); err != nil {
		return &HomeError{dir, "file system cannot fsync; use a local disk", err}
	}
	if err := syncDir(dir, sys); err != nil {
		return &HomeError{dir, "file system cannot fsync a directory; use a local disk", err}
	}
	got, err := sys.readMapped(f, len(want))
	if err == nil && !bytes.Equal(got, want) {
		err = errNoMap
	}
	if err != nil {
		return &HomeError{dir, "file system cannot map files into memory; use a local disk", err}
	}
	return nil
}

// probeLock checks that a lock excludes a second owner.
func probeLock(f *os.File, sys disk) error {
	if held, err := sys.lock(f); err != nil || held {
		return errors.Join(err, heldError(held))
	}
	second, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	held, err := sys.lock(second)
	err = errors.Join(err, second.Close())
	if err == nil && !held {
		err = errNoLock
	}
	return err
}

func heldError(held bool) error {
	if held {
		return errors.New("new file is already locked")
	}
	return nil
}
