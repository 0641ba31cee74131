// Package storage opens and locks the home directory and defines the errors
// that all stores share.
//
// The main type is [Home]. One process uses a directory at a time; its PID is
// in the lock file, so that the error of a second process can name it. The
// stores are in the packages below.
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

// LockName is the name of the lock file in the home directory. The file remains
// when the process ends; only the lock on it counts.
const LockName = "hermesd.lock"

// A Home is an open home directory. It belongs to this process until Close.
type Home struct {
	path string
	lock *os.File
}

// A LockedError says that another process uses the directory or the store.
type LockedError struct {
	Path  string    // the directory or the store file
	PID   int       // 0 if the lock file does not say
	Since time.Time // zero if the lock file does not say
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d, running since %s,", e.PID, e.Since.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("storage: %s is in use: %s holds its lock; stop it, or use --home for another directory", e.Path, holder)
}

// A HomeError says why the directory cannot be used, and what to do.
type HomeError struct {
	Path   string
	Reason string
	Err    error
}

func (e *HomeError) Error() string {
	return fmt.Sprintf("storage: %s: %s: %v", e.Path, e.Reason, e.Err)
}

func (e *HomeError) Unwrap() error { return e.Err }

// A NewerError says that a newer version of the program wrote the store.
type NewerError struct {
	Path       string
	Have, Know int // schema versions: of the store, and the newest that this program supports
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("storage: %s has schema %d, this program knows up to %d: it was written by a newer version; install that one, or restore a backup", e.Path, e.Have, e.Know)
}

// A DamageError says that a stored record cannot be read.
type DamageError struct {
	Record string // the record, such as "entry m12", or "the file"
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("storage: %s is damaged: %v", e.Record, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Open creates the directory at path if it does not exist (mode 0700), checks
// that its file system supports what a store needs, and locks it.
//
// The error is a *LockedError if another process has the directory open,
// otherwise a *HomeError.
func Open(path string) (*Home, error) { return open(path, systemDisk()) }

func open(path string, sys disk) (*Home, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &HomeError{path, "invalid path", err}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, &HomeError{path, reasonOf(err, "cannot create directory"), err}
	}
	lock, err := os.OpenFile(filepath.Join(path, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &HomeError{path, reasonOf(err, "cannot open lock file"), err}
	}
	h := &Home{path: path, lock: lock}
	if err = h.acquire(sys); err == nil {
		err = h.prepare(sys)
	}
	if err != nil {
		_ = lock.Close() // the first error is returned
		return nil, err
	}
	return h, nil
}

// OpenReadOnly is Open for a directory that cannot be written: it locks the directory and
// changes nothing in it.
func OpenReadOnly(path string) (*Home, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &HomeError{path, "invalid path", err}
	}
	lock, err := os.Open(filepath.Join(path, LockName))
	if err != nil {
		return nil, &HomeError{path, "cannot open lock file", err}
	}
	h := &Home{path: path, lock: lock}
	if err := h.acquire(systemDisk()); err != nil {
		_ = lock.Close() // the first error is returned
		return nil, err
	}
	return h, nil
}

// A released lock may be held for another moment by a child process that has
// not executed its program yet.
const (
	lockAttempts   = 10
	lockRetryDelay = 20 * time.Millisecond
)

// acquire locks the directory.
func (h *Home) acquire(sys disk) error {
	held, err := sys.lock(h.lock)
	for range lockAttempts {
		if err != nil || !held {
			break
		}
		time.Sleep(lockRetryDelay)
		held, err = sys.lock(h.lock)
	}
	if err != nil {
		return &HomeError{h.path, "file system cannot lock files; use a local disk", err}
	}
	if held {
		pid, since := readHolder(h.lock)
		return &LockedError{Path: h.path, PID: pid, Since: since}
	}
	return nil
}

// prepare checks the file system and writes the lock file.
func (h *Home) prepare(sys disk) error {
	if err := probe(h.path, sys); err != nil {
		return err
	}
	content := fmt.Sprintf("%d\n%s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := h.lock.Truncate(0); err != nil {
		return &HomeError{h.path, reasonOf(err, "cannot write lock file"), err}
	}
	if _, err := h.lock.WriteAt([]byte(content), 0); err != nil {
		return &HomeError{h.path, reasonOf(err, "cannot write lock file"), err}
	}
	return nil
}

// Path returns the path of a file in the directory.
func (h *Home) Path(name ...string) string {
	return filepath.Join(append([]string{h.path}, name...)...)
}

// Close unlocks the directory. It may be called more than once.
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

// reasonOf returns the reason for err with a remedy, or fallback for other
// errors.
func reasonOf(err error, fallback string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "not writable for this user; change its owner or mode, or use --home"
	case isReadOnly(err):
		return "file system is mounted read-only"
	case isFull(err):
		return "file system is full"
	}
	return fallback
}

// NoSpace reports whether err means that a disk is full or read-only: the
// program itself works, and continues as soon as the disk does. NoSpace(nil) is
// false.
func NoSpace(err error) bool { return err != nil && (isFull(err) || isReadOnly(err)) }
