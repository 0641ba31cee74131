package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"hermesd/adapters/discord/internal/inbound"
	"hermesd/gateway/chat"
)

const (
	// maxMarks bounds the channels whose gaps are filled; the quietest go first.
	maxMarks = 500
	// markEvery is how often marks are written, but for new ones: a crash must
	// not forget a conversation.
	markEvery = time.Second
	// backfillWindow is how far back gaps are filled.
	backfillWindow = 24 * time.Hour
)

// A Memory keeps small values over restarts.
type Memory interface {
	// Value returns the value kept under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	SetValue(ctx context.Context, key string, v []byte) error
}

// A checkpoint says up to which message everything of a channel is on disk, and
// where the channel is.
type checkpoint struct {
	At     string `json:"at"`
	Guild  string `json:"g,omitempty"`
	Parent string `json:"p,omitempty"`
	Type   int    `json:"t,omitempty"`
}

// place is what the mark itself knows of its channel.
func (m checkpoint) place(id string) inbound.ChannelInfo {
	return inbound.ChannelInfo{ID: id, Guild: m.Guild, Parent: m.Parent, Type: m.Type}
}

// checkpoints are the marks of one account. One goroutine owns them.
type checkpoints struct {
	memory Memory
	key    string // "": the account is not known yet
	loaded bool
	dirty  bool
	fresh  bool // there is a mark that was not there
	all    map[string]checkpoint
	gaps   map[string]bool // channels with a gap that is not filled: their marks stay
}

func newCheckpoints(m Memory) *checkpoints {
	return &checkpoints{memory: m, all: map[string]checkpoint{}, gaps: map[string]bool{}}
}

// load reads what an earlier process has kept, once.
func (s *checkpoints) load(ctx context.Context, account string) error {
	if s.loaded || account == "" {
		return nil
	}
	s.key = string(chat.Discord) + ".marks." + account
	if s.memory == nil {
		s.loaded = true
		return nil
	}
	raw, err := s.memory.Value(ctx, s.key)
	if err != nil {
		return fmt.Errorf("recall the marks: %w", err)
	}
	kept := map[string]checkpoint{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &kept); err != nil {
			kept = map[string]checkpoint{} // what cannot be read is of no use to anybody
		}
	}
	for id, m := range kept { // an earlier mark is the safer one
		if now, ok := s.all[id]; !ok || inbound.Before(m.At, now.At) {
			s.all[id] = m
		}
	}
	s.loaded = true
	return nil
}

// save writes the marks if they have changed.
func (s *checkpoints) save(ctx context.Context) error {
	if !s.dirty || !s.loaded || s.memory == nil {
		return nil
	}
	raw, err := json.Marshal(s.all)
	if err != nil {
		return err
	}
	if err := s.memory.SetValue(ctx, s.key, raw); err != nil {
		return fmt.Errorf("remember the marks: %w", err)
	}
	s.dirty, s.fresh = false, false
	return nil
}

// reach notes that everything of a channel up to id is on disk. Only make makes
// a mark that was not there.
func (s *checkpoints) reach(p inbound.ChannelInfo, id string, create bool) {
	m, ok := s.all[p.ID]
	if !ok && !create || s.gaps[p.ID] || ok && !inbound.Before(m.At, id) {
		return
	}
	s.all[p.ID] = checkpoint{At: id, Guild: p.Guild, Parent: p.Parent, Type: p.Type}
	s.dirty, s.fresh = true, s.fresh || !ok
	if len(s.all) > maxMarks {
		s.prune()
	}
}

// prune forgets the quietest fifth.
func (s *checkpoints) prune() {
	ids := slices.SortedFunc(maps.Keys(s.all), func(a, b string) int {
		if inbound.Before(s.all[a].At, s.all[b].At) {
			return -1
		}
		return 1
	})
	for _, id := range ids[:len(ids)/5] {
		delete(s.all, id)
	}
}

func (s *checkpoints) drop(id string) {
	delete(s.gaps, id)
	if _, ok := s.all[id]; ok {
		delete(s.all, id)
		s.dirty = true
	}
}

// joined reports whether a thread has had a conversation.
func (s *checkpoints) joined(p inbound.ChannelInfo) bool {
	_, ok := s.all[p.ID]
	return ok && p.Thread()
}

// since returns from where a channel's gap is filled.
func (m checkpoint) since(now time.Time) string {
	if oldest := inbound.IDAt(now.Add(-backfillWindow)); inbound.Before(m.At, oldest) {
		return oldest
	}
	return m.At
}
