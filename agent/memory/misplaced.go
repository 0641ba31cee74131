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

// A MisplacedFile is a memory file that lies directly in the home, where it is not
// read, while the store that it belongs to has no file.
type MisplacedFile struct {
	Target Target
	Path   string // where it lies
	Into   string // where it would be read
}

// String says what is wrong and what to do.
func (s MisplacedFile) String() string {
	return fmt.Sprintf("%s is not read; memory is in %s. Run \"hermesd memory import\" to take it over.", s.Path, s.Into)
}

// MisplacedFiles returns the stray files of home.
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

// Import takes a stray file over: its entries are checked as if they were added
// one by one, and written all or none. The stray file stays where it is. It
// returns how many entries there are now.
func (s *Store) Import(ctx context.Context, from MisplacedFile) (int, error) {
	f, err := readFile(from.Path)
	switch {
	case err != nil:
		return 0, err
	case !f.there:
		return 0, fmt.Errorf("import memory: %s is gone", from.Path)
	case f.lossy(s.Limit(from.Target), false) != "":
		return 0, fmt.Errorf("import memory: %s: %s", from.Path, f.lossy(s.Limit(from.Target), false))
	}
	for i, e := range f.entries {
		if found := injection.ScanMemory(e); len(found) > 0 {
			return 0, fmt.Errorf("import memory: entry %d of %s looks like an attack (%s): %q; remove it, then import again",
				i+1, from.Path, injection.JoinIDs(found), found[0].Excerpt)
		}
	}
	if n, limit := size(f.entries), s.Limit(from.Target); n > limit {
		return 0, fmt.Errorf("import memory: %s has %s characters and %s may have %s; shorten it, then import again",
			from.Path, commas(n), from.Target.File(), commas(limit))
	}
	unlock, err := s.lock(ctx, from.Target)
	if err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	defer unlock()
	if now, err := s.read(from.Target); err != nil || now.there {
		return 0, errors.Join(fmt.Errorf("import memory: %s is there already; nothing was changed", s.Path(from.Target)), err)
	}
	if err := write(s.Path(from.Target), []byte(strings.Join(f.entries, delimiter))); err != nil {
		return 0, fmt.Errorf("import memory: %w", err)
	}
	return len(f.entries), nil
}
