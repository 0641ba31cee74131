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
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// maxUpstreamSize is the maximum size in bytes of a file of an upstream Hermes.
const maxUpstreamSize = 4 << 20

// Import imports the users that an upstream Hermes with the same home directory has
// paired: platforms/pairing/<platform>-approved.json, or pairing/ in older versions.
// Each file is imported once per home directory and never written, so that a user who is
// revoked here stays revoked. A file that cannot be read is logged and retried at the
// next start.
func (b *Manager) Import(ctx context.Context, home fs.FS) error {
	type file struct {
		name   string
		people []Person
	}
	var found []file
	done := b.current.Load().Imported
	for _, dir := range []string{"platforms/pairing", "pairing"} {
		for _, p := range b.platforms() {
			name := dir + "/" + string(p) + "-approved.json"
			if slices.Contains(done, name) {
				continue
			}
			people, err := b.read(home, name, p)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				b.log.Error("cannot read upstream pairings", zap.String("file", name), zap.Error(err))
			default:
				found = append(found, file{name, people})
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	err := b.change(ctx, func(s *state, _ time.Time) error {
		for _, f := range found {
			for _, p := range f.people {
				if !slices.ContainsFunc(s.People, func(q Person) bool { return q.key() == p.key() }) {
					s.addPaired(p)
				}
			}
			s.Imported = append(s.Imported, f.name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		b.log.Info("upstream pairings imported", zap.String("file", f.name), zap.Int("people", len(f.people)))
	}
	return nil
}

func (b *Manager) read(home fs.FS, name string, p chat.Platform) (people []Person, err error) {
	f, err := home.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	raw, err := io.ReadAll(io.LimitReader(f, maxUpstreamSize+1))
	if err != nil {
		return nil, err
	}
	people, skipped, err := b.parseUpstream(p, raw)
	if skipped > 0 {
		b.log.Warn("upstream pairings with invalid IDs skipped", zap.String("file", name), zap.Int("entries", skipped))
	}
	return people, err
}

// parseUpstream parses the users of a file. Entries whose ID is not valid in an
// allowlist are skipped and counted.
func (b *Manager) parseUpstream(p chat.Platform, raw []byte) (people []Person, skipped int, err error) {
	if len(raw) > maxUpstreamSize {
		return nil, 0, fmt.Errorf("file is larger than %d bytes", maxUpstreamSize)
	}
	var entries map[string]struct {
		Name string  `json:"user_name"`
		At   float64 `json:"approved_at"` // seconds
	}
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\uFEFF")), &entries); err != nil {
		return nil, 0, err
	}
	for id, e := range entries {
		if strings.TrimSpace(id) != id || access.CheckID(b.profiles, "", string(p)+":"+id) != nil {
			skipped++
			continue
		}
		at := time.Unix(0, 0)
		if e.At > 0 && e.At < 1e11 {
			at = time.Unix(int64(e.At), 0)
		}
		people = append(people, Person{Platform: p, ID: id, Name: cleanName(e.Name), At: at.UTC()})
	}
	return people, skipped, nil
}
