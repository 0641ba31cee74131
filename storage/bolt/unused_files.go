package bolt

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
)

// A fileSet is a set of names of files in the media cache. A name starts with a
// hash.
type fileSet struct {
	names   map[string]bool
	pattern *regexp.Regexp
}

// newFileSet returns an empty set. Its pattern matches the names that
// gateway/media creates.
func newFileSet() fileSet {
	return fileSet{names: make(map[string]bool), pattern: regexp.MustCompile(`[0-9a-f]{64}\.[a-z0-9]{2,4}`)}
}

// add adds the base names of paths.
func (f fileSet) add(names ...string) {
	for _, n := range names {
		f.names[filepath.Base(n)] = true
	}
}

// addFound adds the names that occur in a text.
func (f fileSet) addFound(text []byte) {
	for _, n := range f.pattern.FindAll(text, -1) {
		f.names[string(n)] = true
	}
}

// unusedFiles returns the names in f that no record contains any more.
func (s *Store) unusedFiles(ctx context.Context, f fileSet) ([]string, error) {
	unused := maps.Clone(f.names)
	if len(unused) == 0 {
		return nil, nil
	}
	err := s.view(ctx, "find unused files", func(r reader) error {
		n := 0
		for _, bucket := range []string{bTranscripts, bEntries, bRows, bSteps, bSessions} {
			c := r.bucket(bucket).Cursor()
			for k, v := c.First(); k != nil && len(unused) > 0; k, v = c.Next() {
				if n++; n%1000 == 0 && ctx.Err() != nil {
					return context.Cause(ctx)
				}
				for name := range unused {
					if bytes.Contains(v, []byte(name)) {
						delete(unused, name)
					}
				}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(unused)), err
}
