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

// What a turn pays: for a recall that is ready, for an open breaker, and for its events.
func BenchmarkTurn(b *testing.B) {
	f := newFake()
	var list []string
	for i := range 20 {
		list = append(list, fmt.Sprint(i, strings.Repeat(" Anna likes Sicily", 10)))
	}
	f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) { return items(list...), nil }
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
	b.Run("events", func(b *testing.B) {
		for b.Loop() {
			s.TurnEvents(turn, "k", question, strings.Repeat("answer ", 100), time.Now())
		}
	})
}
