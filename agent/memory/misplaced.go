package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/agent/injection"
)

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
