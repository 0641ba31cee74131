// Package storage opens the directory in which everything lives that must
// survive the process, and holds the errors that every store shares.
//
// One process works in a directory at a time. Who it is stands in the lock
// file, so that the refusal of a second one can say so.
package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// LockName is the name of the lock file in the data directory. The file stays
// when the process ends; only the lock on it counts.
const LockName = "hermesd.lock"

// A Home is an open data directory. It is this process's alone until Close.
type Home struct {
	path string
	lock *os.File
}

// A LockedError says that another process works in the directory.
type LockedError struct {
	Path  string    // of the directory
	PID   int       // 0 if the lock file does not say
	Since time.Time // zero if the lock file does not say
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d, running since %s,", e.PID, e.Since.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("storage: %s is in use: %s holds %s; stop it, or use --home for another directory", e.Path, who, LockName)
}

// A HomeError says that the directory cannot be used, and what to do.
type HomeError struct {
	Path   string
	Reason string
	Err    error
}

func (e *HomeError) Error() string {
	return fmt.Sprintf("storage: %s: %s: %v", e.Path, e.Reason, e.Err)
}

func (e *HomeError) Unwrap() error { return e.Err }

// A NewerError says that a store was written by a newer version of the program.
type NewerError struct {
	Path       string
	Have, Know int // schema versions: the store's, and the newest we know
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("storage: %s has schema %d, this program knows up to %d: it was written by a newer version; install that one, or restore a backup", e.Path, e.Have, e.Know)
}

// A DamageError says that something stored cannot be read back.
type DamageError struct {
	Record string // which one: "entry m12", or the file
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("storage: %s is damaged: %v", e.Record, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Open makes the directory at path if it is not there (mode 0700), checks that
// its file system can do what a store needs, and takes its lock.
//
// The error is a *LockedError if another process has it, else a *HomeError.
func Open(path string) (*Home, error) { return open(path, system()) }

func open(path string, sys disk) (*Home, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &HomeError{path, "no such path", err}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, &HomeError{path, reasonOf(err, "the directory cannot be made"), err}
	}
	lock, err := os.OpenFile(filepath.Join(path, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &HomeError{path, reasonOf(err, "the lock file cannot be opened"), err}
	}
	h := &Home{path: path, lock: lock}
	if err := h.take(sys); err != nil {
		_ = lock.Close() // the lock was never ours
		return nil, err
	}
	return h, nil
}

// A lock that was let go of may be held for a moment still: by a process that is
// just being started, until it becomes another program.
const (
	lockTries = 10
	lockRest  = 20 * time.Millisecond
)

// take locks the directory, says so in the lock file, and probes the file
// system.
func (h *Home) take(sys disk) error {
	held, err := sys.lock(h.lock)
	for range lockTries {
		if err != nil || !held {
			break
		}
		time.Sleep(lockRest)
		held, err = sys.lock(h.lock)
	}
	if err != nil {
		return &HomeError{h.path, "its file system cannot lock files; use a local disk", err}
	}
	if held {
		pid, since := readHolder(h.lock)
		return &LockedError{Path: h.path, PID: pid, Since: since}
	}
	if err := probe(h.path, sys); err != nil {
		return err
	}
	said := fmt.Sprintf("%d\n%s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := h.lock.Truncate(0); err != nil {
		return &HomeError{h.path, reasonOf(err, "the lock file cannot be written"), err}
	}
	if _, err := h.lock.WriteAt([]byte(said), 0); err != nil {
		return &HomeError{h.path, reasonOf(err, "the lock file cannot be written"), err}
	}
	return nil
}

// Path returns the path of a file in the directory.
func (h *Home) Path(name ...string) string {
	return filepath.Join(append([]string{h.path}, name...)...)
}

// Close gives the directory up. It may be called more than once.
func (h *Home) Close() error {
	if err := h.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock %s: %w", h.path, err)
	}
	return nil
}

func readHolder(f *os.File) (pid int, since time.Time) {
	buf := make([]byte, 128)
	n, _ := f.ReadAt(buf, 0) // a short file is the usual case
	first, rest, _ := strings.Cut(string(buf[:n]), "\n")
	second, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, time.Time{}
	}
	since, err = time.Parse(time.RFC3339, second)
	if err != nil {
		return 0, time.Time{}
	}
	return pid, since
}

// reasonOf puts err in words that say what to do, or returns otherwise.
func reasonOf(err error, otherwise string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "it is not writable for this user; change its owner or its mode, or use --home"
	case isReadOnly(err):
		return "its file system is mounted read-only"
	case isFull(err):
		return "its file system is full"
	}
	return otherwise
}

// NoSpace reports whether err says that a disk is full or cannot be written: the
// program is well, and goes on by itself when the disk is.
func NoSpace(err error) bool { return err != nil && (isFull(err) || isReadOnly(err)) }
