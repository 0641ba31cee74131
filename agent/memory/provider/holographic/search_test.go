package holographic_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/memory/provider/holographic"
)

// matchOfCounts returns what Match does, from the number of all facts with each term.
func matchOfCounts(t *testing.T, tx *sql.Tx, text string) string {
	t.Helper()
	facts := map[string]int{}
	anyOf, _ := holographic.Terms(text)
	for _, term := range anyOf {
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM facts_fts WHERE facts_fts MATCH ?", term).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			facts[term] = n
		}
	}
	rarest := slices.SortedFunc(maps.Keys(facts), func(a, b string) int { return cmp.Or(facts[a]-facts[b], cmp.Compare(a, b)) })
	n, sum := 0, 0
	for n < len(rarest) && (n == 0 || sum+facts[rarest[n]] <= 1000) {
		sum, n = sum+facts[rarest[n]], n+1
	}
	return strings.Join(rarest[:n], " OR ")
}

// The facts of a term are counted only as far as necessary, which changes no result.
func TestRarestWords(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	fill(t, p, "general", "first")
	tx, err := rawDB(t, filepath.Join(home, "memory_store.db")).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 3, 2000)
	sentence := func(n int) string {
		var words []string
		for range n {
			words = append(words, fmt.Sprintf("w%d", zipf.Uint64()))
		}
		return strings.Join(words, " ")
	}
	for i := range 3000 {
		if _, err := tx.Exec("INSERT INTO facts (content) VALUES (?)", fmt.Sprintf("%s both %d common", sentence(8), i)); err != nil {
			t.Fatal(err)
		}
	}
	queries := []string{"common", "common both", "both common w1999", "unheard", "unheard common"}
	for i := range 120 {
		queries = append(queries, sentence(1+i/3))
	}
	sizes := map[int]bool{}
	for _, q := range queries {
		got, err := holographic.Match(t.Context(), tx, q)
		if want := matchOfCounts(t, tx, q); err != nil || got != want {
			t.Errorf("%s: got %s, want %s, %v", q, got, want, err)
		}
		sizes[strings.Count(got, " OR ")] = true
	}
	if len(sizes) < 5 {
		t.Errorf("all results have the same size: %v", sizes)
	}
}
