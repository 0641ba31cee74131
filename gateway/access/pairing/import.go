package pairing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// maxUpstream bounds a file of another Hermes.
const maxUpstream = 4 << 20

// Import takes over the people whom an upstream Hermes of the same home has
// paired: platforms/pairing/<platform>-approved.json, or pairing/ in older ones.
// Each file is read once in the life of a home and never written; so who is
// revoked here stays revoked. A file that cannot be read is named in the log and
// tried again at the next start.
func (b *Manager) Import(ctx context.Context, home fs.FS) error {
	type file struct {
		name   string
		people []Person
	}
	var found []file
	done := b.now.Load().Imported
	for _, dir := range []string{"platforms/pairing", "pairing"} {
		for _, p := range Platforms() {
			name := dir + "/" + string(p) + "-approved.json"
			if slices.Contains(done, name) {
				continue
			}
			people, err := b.read(home, name, p)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				b.log.Error("pairings of another Hermes cannot be read; these people are asked for a code", zap.String("file", name), zap.Error(err))
			default:
				found = append(found, file{name, people})
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return b.change(ctx, func(s *state, _ time.Time) error {
		for _, f := range found {
			for _, p := range f.people {
				if !slices.ContainsFunc(s.People, func(q Person) bool { return q.who() == p.who() }) {
					s.admit(p)
				}
			}
			s.Imported = append(s.Imported, f.name)
			b.log.Info("pairings of another Hermes are taken over", zap.String("file", f.name), zap.Int("people", len(f.people)))
		}
		return nil
	})
}

func (b *Manager) read(home fs.FS, name string, p chat.Platform) (people []Person, err error) {
	f, err := home.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxUpstream+1))
	if err != nil {
		return nil, err
	}
	people, skipped, err := parseUpstream(p, raw)
	if skipped > 0 {
		b.log.Warn("entries that are not ids of people are left out", zap.String("file", name), zap.Int("entries", skipped))
	}
	return people, err
}

// parseUpstream reads the people of a file, without those entries whose id could
// not stand in an allowlist.
func parseUpstream(p chat.Platform, raw []byte) (people []Person, skipped int, err error) {
	if len(raw) > maxUpstream {
		return nil, 0, fmt.Errorf("it is larger than %d bytes", maxUpstream)
	}
	var entries map[string]struct {
		Name string  `json:"user_name"`
		At   float64 `json:"approved_at"` // seconds
	}
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\uFEFF")), &entries); err != nil {
		return nil, 0, err
	}
	for id, e := range entries {
		if access.CheckID("", string(p)+":"+id) != nil {
			skipped++
			continue
		}
		at := time.Unix(0, 0)
		if e.At > 0 && e.At < 1e11 {
			at = time.Unix(int64(e.At), 0)
		}
		people = append(people, Person{Platform: p, ID: id, Name: clean(e.Name), At: at.UTC()})
	}
	return people, skipped, nil
}
