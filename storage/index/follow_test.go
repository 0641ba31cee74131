package index_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/session"
	"hermesd/storage/index"
)

func catchUp(t testing.TB, f *index.Follower) int {
	t.Helper()
	n, err := f.CatchUp(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFollowerIndexesNewMessages(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	f := newFollower(x, w)
	w.add(dm("a", "1"), "the apple", "the pear")
	w.add(dm("b", "2"), "the plum")
	if n := catchUp(t, f); n != 3 {
		t.Errorf("%d messages were indexed, want 3", n)
	}
	if n := catchUp(t, f); n != 0 {
		t.Errorf("%d messages were indexed again", n)
	}
	w.add(dm("a", "1"), "the cherry")
	if n := catchUp(t, f); n != 1 {
		t.Errorf("%d messages were indexed, want 1", n)
	}
	if got := rowsOf(t, x, "cherry"); !slices.Equal(got, []int{2}) {
		t.Errorf("got %v", got)
	}
}

func TestCompactionKeepsMessagesFoundOnce(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	f := newFollower(x, w)
	w.add(dm("a", "1"), "apple zero", "apple one", "apple two", "apple three", "apple four")
	catchUp(t, f)
	w.compact("a", 1, 3, "in short: fruit") // 0, 3 and 4 are copied to 5, 7 and 8
	catchUp(t, f)
	if got := rowsOf(t, x, "apple"); !slices.Equal(got, []int{1, 2, 5, 7, 8}) {
		t.Errorf("got %v", got)
	}
	w.add(dm("a", "1"), "apple five") // 9
	w.compact("a", 1, 4, "in short: all fruit")
	catchUp(t, f)
	if got := rowsOf(t, x, "apple"); !slices.Equal(got, []int{1, 2, 7, 8, 10, 12}) {
		t.Errorf("after two compactions: %v", got)
	}
	rebuilt := newIndex(t)
	catchUp(t, newFollower(rebuilt, w))
	if got := rowsOf(t, rebuilt, "apple"); !slices.Equal(got, []int{1, 2, 7, 8, 10, 12}) {
		t.Errorf("after a rebuild: %v", got)
	}
	hits := find(t, x, index.Query{Text: "apple", Per: 9, Scope: index.OperatorScope(), Except: "a", Active: w.recs["a"].Start, Sort: index.Newest})
	if len(hits) != 4 {
		t.Errorf("%d archived messages are found, want 4: %+v", len(hits), hits)
	}
}

func TestSearchToolResultsAreNotIndexed(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	r := dm("a", "1")
	w.rows["a"] = append(w.rows["a"],
		encode(llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.Thinking, Text: "secretly"}, {Type: llm.ToolUse, ID: "1", Name: "session_search", Input: []byte(`{"query":"walrus"}`)}, {Type: llm.ToolUse, ID: "2", Name: "read_file", Input: []byte(`{"path":"otter.txt"}`)}}}),
		encode(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: "1", Text: "walrus"}, {Type: llm.ToolResult, ID: "2", Text: "otters swim"}}}),
		[]byte(`not JSON`), encode(llm.UserText("badger")))
	r.Messages = 4
	w.recs["a"] = r
	catchUp(t, newFollower(x, w))
	for text, want := range map[string][]int{"walrus": nil, "secretly": nil, "otter.txt": {0}, "otters": {1}, "badger": {3}} {
		if got := rowsOf(t, x, text); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestRestoredStoreIsIndexedAgain(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	f := newFollower(x, w)
	w.add(dm("a", "1"), "apple", "pear")
	w.add(dm("b", "1"), "plum")
	backup := w.recs["a"]
	w.add(dm("a", "1"), "cherry")
	catchUp(t, f)
	w.recs["a"], w.rows["a"] = backup, w.rows["a"][:2]
	delete(w.recs, "b")
	catchUp(t, f)
	if got := rowsOf(t, x, "cherry OR plum"); got != nil {
		t.Errorf("deleted messages are found: %v", got)
	}
	if got := rowsOf(t, x, "apple OR pear"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestUnreadableSessionDoesNotBlockOthers(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	for i := range 9 {
		w.add(dm(fmt.Sprint("s", i), "1"), "apple")
	}
	w.fail["s4"] = errors.New("damaged")
	if _, err := newFollower(x, w).CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "s4") {
		t.Errorf("got %v", err)
	}
	if got := rowsOf(t, x, "apple"); len(got) != 8 {
		t.Errorf("%d sessions are found, want 8", len(got))
	}
}

// A countingSource counts the records that are read.
type countingSource struct {
	*fakeStore
	lists, reads *atomic.Int64
}

func (s countingSource) Sessions(ctx context.Context, q session.Query) ([]session.Record, error) {
	s.lists.Add(1)
	return s.fakeStore.Sessions(ctx, q)
}

func (s countingSource) SessionByID(ctx context.Context, id session.ID) (session.Record, bool, error) {
	s.reads.Add(1)
	return s.fakeStore.SessionByID(ctx, id)
}

// Run lists the sessions once. After that it reads those that were changed, each
// once per second however often it was, and indexes what was changed before it
// ends.
func TestFollowerReadsWhatWasChanged(t *testing.T) {
	x := newIndex(t)
	synctest.Test(t, func(t *testing.T) {
		w := countingSource{newFakeStore(), new(atomic.Int64), new(atomic.Int64)}
		for i := range 100 {
			w.add(dm(fmt.Sprint("s", i), "1"), "apple")
		}
		ctx, cancel := context.WithCancel(t.Context())
		f, done := index.NewFollower(x, w, "", nopLog()), make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		want := func(texts, reads int) {
			t.Helper()
			if n := len(rowsOf(t, x, "apple")); n != texts || w.reads.Load() != int64(reads) || w.lists.Load() != 1 {
				t.Errorf("%d are found after %d lists of all sessions and %d records, want %d after 1 and %d", n, w.lists.Load(), w.reads.Load(), texts, reads)
			}
		}
		<-time.After(time.Minute)
		want(100, 0)
		for i := range 80 {
			for range 2 {
				w.add(dm(fmt.Sprint("s", i), "1"), "apple")
				f.Changed(session.ID(fmt.Sprint("s", i)))
			}
		}
		<-time.After(time.Second)
		want(260, 80)
		f.Changed("deleted")
		<-time.After(time.Second)
		want(260, 81)
		w.add(dm("s99", "1"), "apple")
		f.Changed("s99")
		cancel()
		<-done
		want(261, 82)
	})
}

// A session that cannot be read is tried again with all others, but not with
// each change.
func TestFollowerTriesUnreadableSessionLater(t *testing.T) {
	x := newIndex(t)
	synctest.Test(t, func(t *testing.T) {
		w := countingSource{newFakeStore(), new(atomic.Int64), new(atomic.Int64)}
		w.add(dm("bad", "1"), "pear")
		w.fail["bad"] = errors.New("damaged")
		ctx, cancel := context.WithCancel(t.Context())
		f, done := index.NewFollower(x, w, "", nopLog()), make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		for i := range 8 {
			w.add(dm("good", "1"), "apple")
			f.Changed("good")
			<-time.After(time.Second)
			if n := len(rowsOf(t, x, "apple")); n != i+1 || w.lists.Load() != 1 {
				t.Fatalf("%d of %d are found after %d lists of all sessions", n, i+1, w.lists.Load())
			}
		}
		w.repair("bad")
		<-time.After(5 * time.Second)
		if n := len(rowsOf(t, x, "pear")); n != 1 || w.lists.Load() != 2 {
			t.Errorf("%d are found after %d lists of all sessions", n, w.lists.Load())
		}
		cancel()
		<-done
	})
}

func TestOpenAcceptsAnyFile(t *testing.T) {
	good := filepath.Join(t.TempDir(), "search.db")
	x := open(t, good)
	addTexts(t, x, dm("s", "1"), "apple")
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, good)
	if got := rowsOf(t, again, "apple"); len(got) != 1 {
		t.Errorf("after it was opened again: %v", got)
	}
	other := bytes.Clone(content)
	other[63]++ // user_version
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte("this is no database"), "cut": content[:len(content)/2], "one page": content[:4096],
		"zeros behind the header": append(bytes.Clone(content[:100]), make([]byte, len(content)-100)...), "another version": other,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "search.db")
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			x, w := open(t, path), newFakeStore()
			w.add(dm("s", "1"), "apple", "pear")
			f := newFollower(x, w)
			_, _ = f.CatchUp(t.Context()) // may detect the damage
			catchUp(t, f)
			if got := rowsOf(t, x, "apple OR pear"); len(got) != 2 {
				t.Errorf("got %v", got)
			}
			if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
				t.Errorf("others can read it: %v, %v", i.Mode(), err)
			}
		})
	}
}

// Whichever bytes are wrong, a search returns at most ErrDamaged, and after a
// rebuild everything is found again.
func TestDamageWhileOpenIsRepaired(t *testing.T) {
	w := newFakeStore()
	for i := range 20 {
		var texts []string
		for j := range 50 {
			texts = append(texts, fmt.Sprintf("apple number%d of %d %s", j, i, strings.Repeat("more words ", 20)))
		}
		w.add(dm(fmt.Sprint("s", i), "1"), texts...)
	}
	found := 0
	for seed := range 12 {
		path := filepath.Join(t.TempDir(), "search.db")
		x, err := index.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		catchUp(t, newFollower(x, w))
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 4096 * (1 + seed); at < len(raw); at += 4096 * 12 {
			for i := range 64 {
				raw[at+i] ^= byte(seed*31 + i + 1)
			}
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		x = open(t, path)
		for _, q := range []string{"apple", "number7", "words NOT number3"} {
			if _, err := x.Search(t.Context(), index.Query{Text: q, Scope: index.OperatorScope()}); err != nil && !errors.Is(err, index.ErrDamaged) {
				t.Errorf("got %v", err)
			}
		}
		if x.Fault() != nil {
			found++
			catchUp(t, newFollower(x, w))
			if got := len(rowsOf(t, x, "number7")); got != 20 {
				t.Errorf("%d of 20 are found after the rebuild", got)
			}
		}
	}
	if found == 0 {
		t.Error("no damage was noticed")
	}
}

func TestKilledIndexKeepsProgress(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		printed := runUntilKilled(t, dir)
		x, err := index.Open(filepath.Join(dir, "search.db"))
		if err != nil {
			t.Fatal(err)
		}
		m, ok, err := x.Progress(t.Context(), "s")
		if err != nil || !ok || m.Next <= printed {
			t.Fatalf("row %d was printed, but rows before %d are indexed (%v, %v)", printed, m.Next, ok, err)
		}
		for n := max(0, m.Next-50); n < m.Next; n++ {
			if got := rowsOf(t, x, "number"+strconv.Itoa(n)); !slices.Equal(got, []int{n}) {
				t.Fatalf("row %d is found in %v", n, got)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntilKilled runs a process that indexes until it is killed, and returns
// the last row that it printed.
func runUntilKilled(t *testing.T, dir string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HERMESD_TEST_INDEX="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	buf := make([]byte, 256)
	for bytes.Count(seen, []byte("\n")) < 300 {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, buf[:n]...)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	lines := strings.Split(string(seen), "\n")
	last, err := strconv.Atoi(lines[len(lines)-2])
	if err != nil {
		t.Fatal(err)
	}
	return last
}
