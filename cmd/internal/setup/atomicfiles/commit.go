// Package atomicfiles writes several files, all of them or none.
//
// [Write] writes the new contents next to the files and syncs them; then it writes a
// journal in the home directory that lists them, renames each into place in the given
// order, and deletes the journal. If a crash happens after the journal was written,
// [Recover] completes the renames; if it happens before, the old files remain.
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
	"strings"
	"time"

	"hermesd/internal/atomicfile"
)

const (
	journalName  = "setup.plan" // in the home directory during the renames
	stagedPrefix = ".setup-"    // prefix of the files with new contents
)

// A File is a file to change.
type File struct {
	Path   string // not a link
	Exists bool   // the file exists
	Old    []byte // current content, as far as the caller knows
	New    []byte
	Mode   fs.FileMode
}

// A ChangedError reports files whose content was not the expected one. They are
// unchanged.
type ChangedError struct{ Paths []string }

func (e *ChangedError) Error() string {
	return strings.Join(e.Paths, " and ") + " was changed meanwhile and stays as it is; run `hermesd setup` again"
}

// A step is one file of a journal. It is done once Path has the checksum New, and
// may be done while Path has the checksum Old.
type step struct {
	Path   string `json:"path"`
	Staged string `json:"staged"` // path of the new content, next to Path
	Old    string `json:"old"`    // "" if Path does not exist
	New    string `json:"new"`
}

// Write replaces the contents of the files. Files whose content does not change are
// skipped. After an error nothing has changed, or the next Recover completes it. A
// *ChangedError is meant for the user.
func Write(home string, files ...File) error { return write(home, files, rename) }

// A move renames a file.
type move func(from, to string) error

func rename(from, to string) error { return os.Rename(from, to) } //nolint:wrapcheck // names the file

func write(home string, files []File, do move) error {
	dirs := []string{home}
	for _, f := range files {
		dirs = append(dirs, filepath.Dir(f.Path))
	}
	if err := removeStale(dirs); err != nil {
		return err
	}
	steps, err := stage(files)
	if err == nil && len(steps) > 0 {
		err = writeJournal(home, steps)
	}
	if err != nil {
		return errors.Join(err, removeStaged(steps))
	}
	kept, err := applySteps(home, steps, do)
	if err == nil && len(kept) > 0 {
		err = &ChangedError{kept}
	}
	return err
}

// Recover completes an interrupted Write. done is false if there was none. kept
// lists files that were changed since; they remain as they are.
func Recover(home string) (done bool, kept []string, err error) {
	name := filepath.Join(home, journalName)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("resume earlier setup: %w", err)
	}
	var steps []step
	if err := json.Unmarshal(raw, &steps); err != nil {
		return false, nil, fmt.Errorf("%s cannot be read (%w); remove it, and look at config.yaml and .env", name, err)
	}
	kept, err = applySteps(home, steps, rename)
	return err == nil, kept, err
}

// stage writes the new contents next to the files.
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
		if s.Staged, err = stageFile(f.Path, f.New, f.Mode); err != nil {
			return steps, fmt.Errorf("write %s: %w", f.Path, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// stageFile writes a temporary file next to path, with the owner of path or of its
// directory.
func stageFile(path string, text []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), stagedPrefix+"*")
	if err != nil {
		return "", err //nolint:wrapcheck // wrapped by the caller
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), keepOwner(f, path), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// writeJournal writes the journal. From then on the steps will be completed.
func writeJournal(home string, steps []step) error {
	raw, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	name := filepath.Join(home, journalName)
	tmp, err := stageFile(name, raw, 0o600)
	if err == nil {
		if err = errors.Join(os.Rename(tmp, name), atomicfile.SyncDir(home)); err != nil {
			err = errors.Join(err, remove(tmp), remove(name))
		}
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// applySteps applies the remaining steps and removes the journal. A file that was
// changed since, or whose new content is missing, remains as it is; its path is in
// kept.
func applySteps(home string, steps []step, do move) (kept []string, err error) {
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
			err = errors.Join(err, atomicfile.SyncDir(filepath.Dir(s.Path)))
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
	if err := errors.Join(remove(filepath.Join(home, journalName)), atomicfile.SyncDir(home)); err != nil {
		return kept, fmt.Errorf("remove journal: %w", err)
	}
	return kept, nil
}

// removeStale removes files of a Write that was interrupted before its journal was
// written.
func removeStale(dirs []string) (err error) {
	for _, dir := range dirs {
		left, bad := filepath.Glob(filepath.Join(dir, stagedPrefix+"*"))
		err = errors.Join(err, bad)
		for _, name := range left {
			if strings.Trim(strings.TrimPrefix(filepath.Base(name), stagedPrefix), "0123456789") != "" {
				continue // not a name of os.CreateTemp
			}
			if info, serr := os.Stat(name); serr == nil && time.Since(info.ModTime()) > time.Minute {
				err = errors.Join(err, remove(name))
			}
		}
	}
	return err
}

// removeStaged removes the temporary files of steps.
func removeStaged(steps []step) (err error) {
	for _, s := range steps {
		err = errors.Join(err, remove(s.Staged))
	}
	return err
}

// remove removes a file, which may be missing.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // names the file
	}
	return nil
}

// sumOf returns the checksum of a file, or "" if it does not exist.
func sumOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err //nolint:wrapcheck // names the file
	}
	return sum(text), nil
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
