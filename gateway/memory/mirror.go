package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/gateway/store"
)

// A mirrored is what the provider knows of the built-in memory, or will know when the
// queue is empty.
type mirrored struct {
	Count int             `json:"count"` // of all events: no two have the same key
	Facts map[string]fact `json:"facts"` // by a digest of target and text
}

type fact struct {
	Target string `json:"target"`
	Text   string `json:"text"`
	Key    string `json:"key"` // of the value with its ID
}

// Mirror compares the entries of the built-in memory, by target, with those that the
// provider was told, and adds the differences to the queue. A memory that is not of one
// person is that of the owners.
func (s *Service) Mirror(ctx context.Context, t Turn, entries map[string][]string) error {
	perUser := s.settings().PerUser
	if !s.learns(t) || !s.settings().Mirror || t.Record.Shared || t.Level < access.Owner && !perUser {
		return nil
	}
	s.mirroring.Lock()
	defer s.mirroring.Unlock()
	scope := s.Scope(t)
	of := s.about().Name + "/" + s.who(scope)
	if perUser {
		of += "/" + Identity(t.Platform+"-"+t.Record.Owner)
	}
	key := "memory/mirror/" + of
	known, err := store.Load[mirrored](ctx, s.parts.Store, key)
	if err != nil {
		return err
	}
	events := s.differences(&known, scope, of, entries)
	if len(events) == 0 {
		return nil
	}
	set, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err := s.parts.Store.EnqueueEvents(ctx, events, key, set); err != nil {
		return err
	}
	s.Wake()
	return nil
}

// differences changes known to entries and returns the events for that: first what is
// gone, each in order. of is the name of known.
func (s *Service) differences(known *mirrored, scope provider.Scope, of string, entries map[string][]string) []store.Event {
	now := map[string]fact{}
	var order []string
	for _, target := range slices.Sorted(maps.Keys(entries)) {
		for _, text := range entries[target] {
			sum := sha256.Sum256([]byte(target + "\x00" + text))
			id := hex.EncodeToString(sum[:16])
			if _, ok := now[id]; !ok {
				now[id] = fact{Target: target, Text: s.parts.Mask(text)}
				order = append(order, id)
			}
		}
	}
	if known.Facts == nil {
		known.Facts = map[string]fact{}
	}
	var events []store.Event
	add := func(kind provider.Kind, f fact) {
		known.Count++
		e := provider.Event{
			Key: uuid(kind, of+"\x00"+strconv.Itoa(known.Count)+"\x00"+f.Target+"\x00"+f.Text), Kind: kind,
			Scope: scope, At: time.Now(), Fact: provider.Fact{Target: f.Target, Text: f.Text},
		}
		events = append(events, s.queued(e.Key, "facts:"+s.who(scope), row{Event: e, FactKey: f.Key}))
	}
	for _, id := range slices.Sorted(maps.Keys(known.Facts)) {
		if _, ok := now[id]; !ok {
			add(provider.Removed, known.Facts[id])
			delete(known.Facts, id)
		}
	}
	for _, id := range order {
		if _, ok := known.Facts[id]; !ok {
			f := now[id]
			f.Key = "memory/fact/" + of + "/" + strconv.Itoa(known.Count+1)
			add(provider.Added, f)
			known.Facts[id] = f
		}
	}
	return events
}
