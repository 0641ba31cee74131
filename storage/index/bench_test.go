package index_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/storage/index"
)

// corpus returns messages of about 80 bytes, three in ten of them Chinese, with
// the word frequencies of a natural language.
func corpus(seed uint64, n int) (texts []string, bytes int) {
	r := rand.New(rand.NewPCG(seed, 1))
	common := rand.NewZipf(r, 1.1, 4, 50_000)
	han := rand.NewZipf(r, 1.1, 8, 3000)
	for range n {
		var b strings.Builder
		if r.IntN(10) < 3 {
			for range 15 + r.IntN(25) {
				b.WriteRune(rune(0x4e00 + han.Uint64()))
			}
		} else {
			for range 6 + r.IntN(14) {
				fmt.Fprintf(&b, "w%s ", word(common.Uint64()))
			}
		}
		texts = append(texts, b.String())
		bytes += b.Len()
	}
	return texts, bytes
}

// word returns an invented word; frequent ones are short.
func word(n uint64) string {
	var b []byte
	for ; n > 0 || len(b) < 3; n /= 20 {
		b = append(b, "bcdfghjklmnpqrstvwxz"[n%20])
		if n%3 == 0 {
			b = append(b, "aeiou"[n%5])
		}
	}
	return string(b)
}

// indexMessages returns an index of n messages in sessions of 500.
func indexMessages(t testing.TB, n int) (x *index.Index, path string, bytes int, took time.Duration) {
	path = filepath.Join(t.TempDir(), "search.db")
	x = open(t, path)
	w := newFakeStore()
	texts, bytes := corpus(1, n)
	for i := 0; i < n; i += 500 {
		r := dm(fmt.Sprintf("s%05d", i/500), "1")
		r.Updated = noon.Add(time.Duration(i) * time.Minute)
		w.add(r, texts[i:min(i+500, n)]...)
	}
	began := time.Now()
	catchUp(t, newFollower(x, w))
	return x, path, bytes, time.Since(began)
}

func fileSize(t testing.TB, path string) (n int64) {
	for _, end := range []string{"", "-wal"} {
		if i, err := os.Stat(path + end); err == nil {
			n += i.Size()
		}
	}
	return n
}

func TestIndexSize(t *testing.T) {
	x, path, bytes, _ := indexMessages(t, 10_000)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	ratio := float64(fileSize(t, path)) / float64(bytes)
	t.Logf("the index is %.2f times the text", ratio)
	if ratio > 4 {
		t.Errorf("the index is %.2f times the text, want at most 4", ratio)
	}
}

func BenchmarkIndex100k(b *testing.B) {
	for b.Loop() {
		x, path, bytes, took := indexMessages(b, 100_000)
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(100_000/took.Seconds(), "messages/s")
		b.ReportMetric(float64(fileSize(b, path))/float64(bytes), "size/text")
	}
}

// BenchmarkCommit measures the indexing of one message and its answer after a
// turn.
func BenchmarkCommit(b *testing.B) {
	x := newIndex(b)
	texts, _ := corpus(1, 1000)
	n := 0
	for b.Loop() {
		r := dm(fmt.Sprint("s", n%50), "1")
		row := n / 50 * 2
		docs := []index.Doc{{Row: row, Role: index.User, Time: noon, Text: texts[n%1000]}, {Row: row + 1, Role: index.Assistant, Time: noon, Text: texts[(n+7)%1000]}}
		if err := x.Add(b.Context(), index.Update{Session: r, Docs: docs, Next: row + 2}); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkSearch(b *testing.B) {
	x, _, _, _ := indexMessages(b, 100_000)
	texts, _ := corpus(1, 100_000)
	pick := func(i int) string { return strings.Fields(texts[i])[0] }
	queries := map[string][]string{"common": {"wbabcbac", "w" + word(0), "w" + word(1)}, "two characters": {}, "any word": {}, "two words": {}}
	for i := range 300 {
		f := strings.Fields(texts[i*7])
		if len(f) < 2 {
			queries["two characters"] = append(queries["two characters"], string([]rune(f[0])[3:5]))
			continue
		}
		queries["any word"] = append(queries["any word"], pick(i*7))
		queries["two words"] = append(queries["two words"], f[0]+" "+f[1])
	}
	for name, qs := range queries {
		for scope, s := range map[string]index.Scope{"all": index.OperatorScope(), "own": index.ScopeFor(dm("q", "1"), nil)} {
			b.Run(name+"/"+scope, func(b *testing.B) {
				var took []time.Duration
				for n := 0; b.Loop(); n++ {
					began := time.Now()
					find(b, x, index.Query{Text: qs[n%len(qs)], Scope: s})
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			})
		}
	}
}
