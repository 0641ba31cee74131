package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"hermesd/agent/injection"
	"hermesd/internal/atomicfile"
	"hermesd/internal/backoff"
)

// maxFileBytes is the size of the largest file that is read. No limit allows so
// much; a larger file is not a memory file.
const maxFileBytes = 1 << 20

// A file is the content of a store's file.
type file struct {
	raw     []byte
	entries []string
	exists  bool
}

// read reads the store's file without blocking.
func (s *Store) read(t Target) (file, error) { return readFile(s.Path(t)) }

func readFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, nil
	}
	if err != nil {
		return file{}, fmt.Errorf("read memory: %w", err)
	}
	defer func() { _ = f.Close() }() // read-only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return file{}, fmt.Errorf("read memory: %s is not a regular file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return file{}, fmt.Errorf("read memory: %w", err)
	case len(raw) > maxFileBytes:
		return file{}, fmt.Errorf("read memory: %s has more than %d bytes; it is not a memory file", path, maxFileBytes)
	}
	return file{raw, parse(string(raw)), true}, nil
}

// lossReason returns why rewriting the file would lose text, "" if it would
// not. touching means that entries may be replaced or removed.
func (f file) lossReason(limit int, touching bool) string {
	if !utf8.Valid(f.raw) {
		return "it is not valid UTF-8"
	}
	for _, e := range f.entries {
		if touching && utf8.RuneCountInString(e) > limit {
			return fmt.Sprintf("one entry alone has more than %s characters, as if the § lines between entries were missing", formatThousands(limit))
		}
	}
	return ""
}

// lock acquires the store's lock file. It waits for other writers for at most
// LockWait.
func (s *Store) lock(ctx context.Context, t Target) (unlock func(), err error) {
	if err := os.MkdirAll(s.c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of memory: %w", err)
	}
	f, err := os.OpenFile(s.Path(t)+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of memory: %w", err)
	}
	unlock = func() { _ = f.Close() } // closing releases the lock
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.LockWait,
		fmt.Errorf("another process has held %s.lock for %v; try again, or find out who holds it", t.File(), s.c.LockWait))
	defer cancel()
	for {
		held, err := tryLock(f)
		switch {
		case err != nil:
			unlock()
			return nil, fmt.Errorf("lock memory: %w", err)
		case !held:
			return unlock, nil
		}
		if backoff.Sleep(ctx, time.Millisecond+rand.N(4*time.Millisecond)) != nil {
			unlock()
			return nil, context.Cause(ctx)
		}
	}
}

// replaceFile replaces a file. A symbolic link is kept, and its target is replaced.
func replaceFile(path string, data []byte) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return atomicfile.Replace(path, data, 0o600)
}

// copyToBackup copies a file into its directory, and returns the path of the
// copy.
func copyToBackup(path string, raw []byte, now time.Time) (string, error) {
	to := fmt.Sprintf("%s.bak.%d", path, now.Unix())
	if _, err := os.Lstat(to); err == nil {
		return to, nil // a copy of the same second exists
	}
	return to, replaceFile(to, raw)
}

// A MisplacedFile is a memory file directly in the home directory, where it is
// not read, whose store has no file.
type MisplacedFile struct {
	Target Target
	Path   string // current path
	Into   string // path at which it would be read
}

// String returns what is wrong and what to do, for people.
func (s MisplacedFile) String() string {
	return fmt.Sprintf("%s is not read; memory is in %s. Run \"hermesd memory import\" to take it over.", s.Path, s.Into)
}

// MisplacedFiles returns the misplaced files of the home directory.
func (s *Store) MisplacedFiles(home string) []MisplacedFile {
	var out []MisplacedFile
	for _, t := range []Target{Notes, User} {
		path := filepath.Join(home, t.File())
		if _, err := os.Lstat(s.Path(t)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			out = append(out, MisplacedFile{t, path, s.Path(t)})
		}
	}
	return out
}

// Import imports a misplaced file: its entries are checked like added ones and
// all written, or none. The misplaced file is not deleted. It returns the
// number of entries.
func (s *Store) Import(ctx context.Context, from MisplacedFile) (int, error) {
	f, err := readFile(from.Path)
	switch {
	case err != nil:
		return 0, err
	case !f.exists:
		return 0, fmt.Errorf("import memory: %s does not exist any more", from.Path)
	case f.lossReason(s.Limit(from.Target), false) != "":
		return 0, fmt.Errorf("import memory: %s: %s", from.Path, f.lossReason(s.Limit(from.Target), false))
	}
	for i, e := range f.entries {
		if found := injection.ScanMemory(e); len(found) > 0 {
			return 0, fmt.Errorf("import memory: entry %d of %s looks like an attack (%s): %q; remove it, then import again",
				i+1, from.Path, injection.JoinIDs(found), found[0].Excerpt)
		}
	}
	if n, limit := charCount(f.entries), s.Limit(from.Target); n > limit {
		return 0, fmt.Errorf("import memory: %s has %s characters and %s may have %s; shorten it, then import again",
			from.Path, formatThousands(n), from.Target.File(), formatThousands(limit))
	}
	unlock, err := s.lock(ctx, from.Target)
	if err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	defer unlock()
	if now, err := s.read(from.Target); err != nil || now.exists {
		return 0, errors.Join(fmt.Errorf("import memory: %s already exists; nothing was changed", s.Path(from.Target)), err)
	}
	if err := replaceFile(s.Path(from.Target), []byte(strings.Join(f.entries, delimiter))); err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	return len(f.entries), nil
}
