package storage

import (
	"bytes"
	"errors"
	"os"
)

// A disk is what a store needs of a file system.
type disk struct {
	// lock takes an exclusive lock on f without waiting; held says that
	// somebody else has it.
	lock func(f *os.File) (held bool, err error)
	sync func(f *os.File) error
	// mapped returns the first n bytes of f as a shared mapping shows them.
	mapped func(f *os.File, n int) ([]byte, error)
}

var errNoLock = errors.New("two owners had the same lock at once")

var errNoMap = errors.New("a mapping does not show what was written")

// probe tries on a scratch file what the store is going to rely on.
func probe(dir string, sys disk) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return &HomeError{dir, reasonOf(err, "no file can be made in it"), err}
	}
	defer func() {
		_ = f.Close()           // nothing of it is kept
		_ = os.Remove(f.Name()) // a leftover does no harm
	}()
	if err := probeLock(f, sys); err != nil {
		return &HomeError{dir, "its file system cannot lock files; use a local disk", err}
	}
	mark := []byte("hermesd probes this file system\n")
	if _, err := f.WriteAt(mark, 0); err != nil {
		return &HomeError{dir, reasonOf(err, "no file can be written in it"), err}
	}
	if err := sys.sync(f); err != nil {
		return &HomeError{dir, "its file system cannot fsync; use a local disk", err}
	}
	if err := syncDir(dir, sys); err != nil {
		return &HomeError{dir, "its file system cannot fsync a directory; use a local disk", err}
	}
	got, err := sys.mapped(f, len(mark))
	if err == nil && !bytes.Equal(got, mark) {
		err = errNoMap
	}
	if err != nil {
		return &HomeError{dir, "its file system cannot map files into memory; use a local disk", err}
	}
	return nil
}

// probeLock checks that a lock keeps a second owner out.
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
		return errors.New("a new file is locked already")
	}
	return nil
}
