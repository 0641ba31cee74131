package memory_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/memory"
	"hermesd/storage/bolt"
)

// What a turn pays: for a recall that is ready, for all of a recall but the call, for one
// while the breaker is open, and for its events.
func BenchmarkTurn(b *testing.B) {
	f, fails := newFake(), false
	f.about.Wait = true
	var list []string
	for i := range 20 {
		list = append(list, fmt.Sprint(i, strings.Repeat(" Anna likes Sicily", 10)))
	}
	recalled := items(list...)
	f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) {
		if fails {
			return nil, &provider.Error{Class: provider.Auth, Status: 401, Text: "the key is refused"}
		}
		return recalled, nil
	}
	db, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := silent(memory.Parts{Provider: f, Store: db, Settings: settings()})
	b.Cleanup(func() {
		s.Close()
		_ = db.Close()
	})
	turn := owner("s", 1, question)
	b.Run("await", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			r := s.Recall(turn)
			time.Sleep(time.Millisecond)
			b.StartTimer()
			r.Await(b.Context())
		}
	})
	b.Run("recall", func(b *testing.B) {
		for b.Loop() {
			s.Recall(turn).Await(b.Context())
			f.locked(func() { f.record = record{} })
		}
	})
	b.Run("open", func(b *testing.B) {
		fails = true
		s.Recall(turn).Await(b.Context())
		f.locked(func() { f.record = record{} })
		for b.Loop() {
			s.Recall(turn).Await(b.Context())
		}
		if n := len(f.got().queries); n > 0 {
			b.Errorf("%d calls", n)
		}
	})
	b.Run("events", func(b *testing.B) {
		for b.Loop() {
			s.TurnEvents(turn, "k", question, strings.Repeat("answer ", 100), time.Now())
		}
	})
}
