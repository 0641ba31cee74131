// Package atomicfile writes files completely or not at all.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
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

// RemoveStale removes the incomplete files that killed processes have left in directories
// of root, if they were last written before a time. Parts of the name of a directory are
// patterns of path.Match. Links are not followed.
func RemoveStale(root *os.Root, before time.Time, dirs ...string) (err error) {
	for _, pattern := range dirs {
		for _, dir := range match(root.FS(), pattern) {
			entries, bad := fs.ReadDir(root.FS(), dir)
			err = errors.Join(err, bad)
			for _, e := range entries {
				random, ok := strings.CutPrefix(e.Name(), Prefix)
				if n, bad := strconv.ParseUint(random, 10, 32); !ok || bad != nil || strconv.FormatUint(n, 10) != random || !e.Type().IsRegular() {
					continue // not a file of os.CreateTemp
				}
				if info, gone := e.Info(); gone == nil && info.ModTime().Before(before) {
					err = errors.Join(err, root.Remove(path.Join(dir, e.Name())))
				}
			}
		}
	}
	return err
}

// match returns the directories that a pattern names. Other than fs.Glob it opens nothing
// that is no directory: to open a pipe waits for its writer.
func match(fsys fs.FS, pattern string) []string {
	dirs := []string{"."}
	for part := range strings.SplitSeq(pattern, "/") {
		if part == "." {
			continue
		}
		var next []string
		for _, dir := range dirs {
			entries, _ := fs.ReadDir(fsys, dir)
			for _, e := range entries {
				if ok, _ := path.Match(part, e.Name()); ok && e.IsDir() {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		dirs = next
	}
	return dirs
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
