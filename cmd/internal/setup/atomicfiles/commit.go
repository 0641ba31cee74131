// Package atomicfiles changes several files, all of them or none.
//
// New texts are written beside the files and synced; then a journal in the home
// says which belongs where; then each takes its place by a rename, in the given
// order; then the journal goes. What a crash cuts off behind the journal is
// finished by the next Mend; what it cuts off before leaves the old files.
package atomicfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	journalName = "setup.plan" // in the home, while files take their places
	stagedPart  = ".setup-"    // begins the names of new texts
)

// A File is one that is changed.
type File struct {
	Path   string // not a link
	Exists bool   // it is there
	Old    []byte // what it holds, as far as the caller knows
	New    []byte
	Mode   fs.FileMode
}

// A ChangedError says that files are not what the caller took them for. They
// stay as they are.
type ChangedError struct{ Paths []string }

func (e *ChangedError) Error() string {
	return strings.Join(e.Paths, " and ") + " was changed meanwhile and stays as it is; run `hermesd setup` again"
}

// A step is one file of a journal. It is done once Path holds what has the sum
// New; it may be done while Path holds what has the sum Old.
type step struct {
	Path   string `json:"path"`
	Staged string `json:"staged"` // holds the new text, beside Path
	Old    string `json:"old"`    // "": Path is not there
	New    string `json:"new"`
}

// Write gives the files their new texts. Files whose text does not change are
// left out. With an error nothing has changed, or the next Mend finishes it; a
// *ChangedError is for the person.
func Write(home string, files ...File) error { return write(home, files, rename) }

// A move gives a file another name.
type move func(from, to string) error

func rename(from, to string) error { return os.Rename(from, to) } //nolint:wrapcheck // it says which file

func write(home string, files []File, do move) error {
	if err := sweep(home); err != nil {
		return err
	}
	steps, err := stage(files)
	if err == nil && len(steps) > 0 {
		err = begin(home, steps)
	}
	if err != nil {
		return errors.Join(err, drop(steps))
	}
	kept, err := carry(home, steps, do)
	if err == nil && len(kept) > 0 {
		err = &ChangedError{kept}
	}
	return err
}

// Recover finishes what an interrupted Write has left. done is false if there was
// nothing; kept are files that somebody has changed since, which stay.
func Recover(home string) (done bool, kept []string, err error) {
	name := filepath.Join(home, journalName)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("finish an earlier setup: %w", err)
	}
	var steps []step
	if err := json.Unmarshal(raw, &steps); err != nil {
		return false, nil, fmt.Errorf("%s cannot be read (%w); remove it, and look at config.yaml and .env", name, err)
	}
	kept, err = carry(home, steps, rename)
	return err == nil, kept, err
}

// stage writes the new texts beside the files.
func stage(files []File) (steps []step, err error) {
	for _, f := range files {
		if f.Exists && bytes.Equal(f.Old, f.New) {
			continue
		}
		s := step{Path: f.Path, New: sum(f.New)}
		if f.Exists {
			s.Old = sum(f.Old)
		}
		now, err := sumOf(f.Path)
		if err != nil {
			return steps, err
		}
		if now != s.Old {
			return steps, &ChangedError{[]string{f.Path}}
		}
		if s.Staged, err = put(f.Path, f.New, f.Mode); err != nil {
			return steps, fmt.Errorf("write %s: %w", f.Path, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// put writes a text beside path, for the one who owns path or its directory.
func put(path string, text []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), stagedPart+"*")
	if err != nil {
		return "", err //nolint:wrapcheck // the caller does
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), own(f, path), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// begin writes the journal. From here on the steps are taken, sooner or later.
func begin(home string, steps []step) error {
	raw, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	name := filepath.Join(home, journalName)
	tmp, err := put(name, raw, 0o600)
	if err == nil {
		if err = errors.Join(os.Rename(tmp, name), syncDir(home)); err != nil {
			err = errors.Join(err, remove(tmp), remove(name))
		}
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// carry takes the steps that are not taken yet, and removes the journal. A file
// that somebody has changed since, or of which the new text is gone, is left as
// it is; its path is in kept.
func carry(home string, steps []step, do move) (kept []string, err error) {
	for _, s := range steps {
		now, err := sumOf(s.Path)
		if err != nil {
			return kept, err
		}
		switch now {
		case s.New:
			err = remove(s.Staged)
		case s.Old:
			if err = do(s.Staged, s.Path); errors.Is(err, fs.ErrNotExist) {
				kept, err = append(kept, s.Path), nil
			}
			err = errors.Join(err, syncDir(filepath.Dir(s.Path)))
		default:
			kept = append(kept, s.Path)
			err = remove(s.Staged)
		}
		if err != nil {
			return kept, fmt.Errorf("write %s: %w; run `hermesd setup` again to finish", s.Path, err)
		}
	}
	if len(steps) == 0 {
		return nil, nil
	}
	if err := errors.Join(remove(filepath.Join(home, journalName)), syncDir(home)); err != nil {
		return kept, fmt.Errorf("remove the journal: %w", err)
	}
	return kept, nil
}

// sweep removes what a Write that was killed before its journal has left.
func sweep(home string) error {
	left, err := filepath.Glob(filepath.Join(home, stagedPart+"*"))
	for _, name := range left {
		if info, serr := os.Stat(name); serr == nil && time.Since(info.ModTime()) > time.Minute {
			err = errors.Join(err, remove(name))
		}
	}
	return err
}

// drop removes what was staged.
func drop(steps []step) (err error) {
	for _, s := range steps {
		err = errors.Join(err, remove(s.Staged))
	}
	return err
}

// remove removes a file that need not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // it says which file
	}
	return nil
}

// sumOf returns the sum of what a file holds, "" if it is not there.
func sumOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err //nolint:wrapcheck // it says which file
	}
	return sum(text), nil
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// syncDir makes names in dir last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // it cannot, and does not need to
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err //nolint:wrapcheck // it says which directory
	}
	return errors.Join(d.Sync(), d.Close())
}
