package holographic_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/agent/memory/provider"
)

// benchmarkFacts is a memory of 10,000 facts, of words that are as frequent as in a language
// (Zipf), a third of them beginning with the same word.
func benchmarkFacts(b *testing.B) (provider.Provider, func() string) {
	home := b.TempDir()
	p := open(b, home, "")
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 3, 20_000)
	sentence := func(n int) string {
		var words []string
		for range n {
			words = append(words, fmt.Sprintf("w%d", zipf.Uint64()))
		}
		return strings.Join(words, " ")
	}
	fill(b, p, "general", "first")
	db := rawDB(b, filepath.Join(home, "memory_store.db"))
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		content := sentence(12)
		if i%3 == 0 {
			content = fmt.Sprintf("User %d Person Number %s", i, content)
		}
		if _, err := tx.Exec("INSERT OR IGNORE INTO facts (content, category, hrr_vector) SELECT ?, 'general', hrr_vector FROM facts WHERE fact_id = 1", content); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	return p, func() string { return "what does the user think about " + sentence(8) }
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
}

func BenchmarkRecall(b *testing.B) {
	p, query := benchmarkFacts(b)
	for _, n := range []int{1, 10} { // a question, and a long message
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				q := query()
				for range n - 1 {
					q += " " + query()
				}
				start := time.Now()
				if items, err := p.Recall(b.Context(), provider.Scope{}, q); err != nil || len(items) == 0 {
					b.Fatal(items, err)
				}
				times = append(times, time.Since(start))
			}
			report(b, times)
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	p, sentence := benchmarkFacts(b)
	var times []time.Duration
	for b.Loop() {
		e, start := added("", "memory", fmt.Sprintf("Person Number %d: %s", len(times), sentence())), time.Now()
		if _, err := p.Sync(b.Context(), e); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	report(b, times)
}

func BenchmarkTools(b *testing.B) {
	p, _ := benchmarkFacts(b)
	for _, input := range []string{`{"action":"probe","entity":"w5"}`, `{"action":"probe","entity":"w5","category":"general"}`, `{"action":"related","entity":"w5"}`, `{"action":"reason","entities":["w5","w6"]}`, `{"action":"contradict"}`, `{"action":"list"}`} {
		b.Run(input, func(b *testing.B) {
			for b.Loop() {
				call(b, p, "fact_store", input)
			}
		})
	}
}
