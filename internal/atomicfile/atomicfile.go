// Package atomicfile writes files completely or not at all.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file, which may exist. The new content is on disk when Replace
// returns; if it fails, the old file is unchanged.
func Replace(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// Create is like Replace for a file that does not exist; if it does, the error is
// fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Link)
}

// Prefix begins the names of files that are not complete yet, which are in the
// directory of the file.
const Prefix = ".hermesd-"

func write(path string, data []byte, mode fs.FileMode, name func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Prefix+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // incomplete, a second name of the file, or gone
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes changes of the entries of a directory durable.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // neither possible nor necessary
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
