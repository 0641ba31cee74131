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
	// maxMarks limits the number of channels that are backfilled; the least
	// active are dropped first.
	maxMarks = 500
	// markEvery is the interval at which checkpoints are saved. New ones are
	// saved at once: a crash must not forget a conversation.
	markEvery = time.Second
	// backfillWindow is how far back gaps are backfilled.
	backfillWindow = 24 * time.Hour
)

// A checkpoint is the newest message of a channel up to which everything is on
// disk, with the location of the channel.
type checkpoint struct {
	At     string `json:"at"`
	Guild  string `json:"g,omitempty"`
	Parent string `json:"p,omitempty"`
	Type   int    `json:"t,omitempty"`
}

func (m checkpoint) place(id string) inbound.ChannelInfo {
	return inbound.ChannelInfo{ID: id, Guild: m.Guild, Parent: m.Parent, Type: m.Type}
}

// checkpoints holds the checkpoints of one account. It is owned by one
// goroutine.
type checkpoints struct {
	memory chat.Memory
	key    string // "" until the account is known
	loaded bool
	dirty  bool
	fresh  bool // a checkpoint was created since the last save
	all    map[string]checkpoint
	gaps   map[string]bool // channels with an open gap: their checkpoints do not advance
}

// load loads the checkpoints of an earlier process, once.
func (s *checkpoints) load(ctx context.Context, account string) error {
	if s.loaded || account == "" {
		return nil
	}
	s.key = string(chat.Discord) + ".marks." + account
	raw, err := s.memory.Value(ctx, s.key)
	if err != nil {
		return fmt.Errorf("load checkpoints: %w", err)
	}
	kept := map[string]checkpoint{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &kept); err != nil {
			kept = map[string]checkpoint{} // an unreadable value is discarded
		}
	}
	for id, m := range kept { // an earlier checkpoint is safer
		if now, ok := s.all[id]; !ok || inbound.Before(m.At, now.At) {
			s.all[id] = m
		}
	}
	s.loaded = true
	return nil
}

// save stores the checkpoints if they have changed.
func (s *checkpoints) save(ctx context.Context) error {
	if !s.dirty || !s.loaded {
		return nil
	}
	raw, err := json.Marshal(s.all)
	if err != nil {
		return err
	}
	if err := s.memory.SetValue(ctx, s.key, raw); err != nil {
		return fmt.Errorf("save checkpoints: %w", err)
	}
	s.dirty, s.fresh = false, false
	return nil
}

// reach records that everything of a channel up to id is on disk. A missing
// checkpoint is created only if create is true.
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

// prune drops the least active fifth.
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

// joined reports whether a thread has a conversation.
func (s *checkpoints) joined(p inbound.ChannelInfo) bool {
	_, ok := s.all[p.ID]
	return ok && p.Thread()
}

// since returns the message ID from which a channel's gap is backfilled.
func (m checkpoint) since(now time.Time) string {
	if oldest := inbound.IDAt(now.Add(-backfillWindow)); inbound.Before(m.At, oldest) {
		return oldest
	}
	return m.At
}
