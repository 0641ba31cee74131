package bolt

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
)

// files are names of files in the media cache, by the hash that is their
// beginning.
type files struct {
	names map[string]bool
	shape *regexp.Regexp
}

// newFiles returns no files. The names are those that gateway/media gives.
func newFiles() files {
	return files{names: make(map[string]bool), shape: regexp.MustCompile(`[0-9a-f]{64}\.[a-z0-9]{2,4}`)}
}

// take adds names as they are.
func (f files) take(names ...string) {
	for _, n := range names {
		f.names[filepath.Base(n)] = true
	}
}

// find adds the names that stand in a text.
func (f files) find(text []byte) {
	for _, n := range f.shape.FindAll(text, -1) {
		f.names[string(n)] = true
	}
}

// unused returns those of the names that no record has any more.
func (s *Store) unused(ctx context.Context, f files) ([]string, error) {
	left := maps.Clone(f.names)
	if len(left) == 0 {
		return nil, nil
	}
	err := s.view(ctx, "look for files", func(r reader) error {
		n := 0
		for _, bucket := range []string{bTranscripts, bEntries, bRows, bSteps, bSessions} {
			c := r.bucket(bucket).Cursor()
			for k, v := c.First(); k != nil && len(left) > 0; k, v = c.Next() {
				if n++; n%1000 == 0 && ctx.Err() != nil {
					return context.Cause(ctx)
				}
				for name := range left {
					if bytes.Contains(v, []byte(name)) {
						delete(left, name)
					}
				}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(left)), err
}
