package index_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/index"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("HERMESD_TEST_INDEX"); dir != "" {
		os.Exit(writeForever(dir))
	}
	goleak.VerifyTestMain(m)
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, path string) *index.Index {
	t.Helper()
	x, err := index.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func newIndex(t testing.TB) *index.Index { return open(t, filepath.Join(t.TempDir(), "search.db")) }

// dm returns a session in the direct chat of one user.
func dm(id, owner string) session.Record {
	return session.Record{ID: session.ID(id), Owner: owner, Updated: noon, Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: owner}}
}

func addTexts(t testing.TB, x *index.Index, r session.Record, texts ...string) {
	t.Helper()
	var docs []index.Doc
	for i, text := range texts {
		docs = append(docs, index.Doc{Row: i, Role: index.User, Time: r.Updated.Add(time.Duration(i) * time.Second), Text: text})
	}
	if err := x.Add(t.Context(), index.Update{Session: r, Docs: docs, Next: len(docs)}); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, x *index.Index, q index.Query) []index.Hit {
	t.Helper()
	hits, err := x.Search(context.Background(), q)
	if err != nil {
		t.Fatalf("%q: %v", q.Text, err)
	}
	return hits
}

// rowsOf returns the rows in which text is found with the scope of the
// operator.
func rowsOf(t testing.TB, x *index.Index, text string) []int {
	t.Helper()
	var rows []int
	for _, h := range find(t, x, index.Query{Text: text, Scope: index.OperatorScope(), Per: 100, Limit: 100}) {
		rows = append(rows, h.Row)
	}
	slices.Sort(rows)
	return rows
}

// unused are the methods that the index does not call.
type unused interface{ store.Sessions }

// A fakeStore is a store in memory. Its methods may be called from any goroutine.
type fakeStore struct {
	unused
	mu   sync.Mutex // guards what follows
	recs map[session.ID]session.Record
	rows map[session.ID][]store.Doc[llm.Message]
	fail map[session.ID]error
}

func newFakeStore() *fakeStore {
	return &fakeStore{recs: map[session.ID]session.Record{}, rows: map[session.ID][]store.Doc[llm.Message]{}, fail: map[session.ID]error{}}
}

func (w *fakeStore) Sessions(_ context.Context, q session.Query) ([]session.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []session.Record
	for _, r := range w.recs {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b session.Record) int { return b.Updated.Compare(a.Updated) })
	if q.Max > 0 && len(all) > q.Max {
		all = all[:q.Max]
	}
	return all, nil
}

func (w *fakeStore) SessionByID(_ context.Context, id session.ID) (session.Record, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.recs[id]
	return r, ok, nil
}

func (w *fakeStore) Rows(_ context.Context, id session.ID, s session.Span) ([]store.Doc[llm.Message], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[id][s.From:s.To], w.fail[id]
}

// repair makes a session readable.
func (w *fakeStore) repair(id session.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.fail, id)
}

func encode(m llm.Message) []byte {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

// add appends texts to a session, which is used an hour later than before.
func (w *fakeStore) add(r session.Record, texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.recs[r.ID]; ok {
		r = old
	}
	for _, text := range texts {
		w.rows[r.ID] = append(w.rows[r.ID], encode(llm.UserText(text)))
		r.Messages++
	}
	r.Updated = r.Updated.Add(time.Hour)
	w.recs[r.ID] = r
}

// compact archives the active rows from from to to, and replaces them by one
// text.
func (w *fakeStore) compact(id session.ID, from, to int, summary string) {
	r := w.recs[id]
	active := slices.Clone(w.rows[id][r.Start:])
	r.Archive = append(r.Archive, session.Span{From: r.Start + from, To: r.Start + to})
	next := append(append(slices.Clone(active[:from]), encode(llm.AssistantText(summary))), active[to:]...)
	r.Start, r.Messages, r.Updated = len(w.rows[id]), len(next), r.Updated.Add(time.Hour)
	w.rows[id] = append(w.rows[id], next...)
	w.recs[id] = r
}

func newFollower(x *index.Index, w *fakeStore) *index.Follower {
	return index.NewFollower(x, w, "session_search", zap.NewNop())
}

// writeForever adds numbered rows and prints each number until it is killed.
func writeForever(dir string) int {
	x, err := index.Open(filepath.Join(dir, "search.db"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := bufio.NewWriter(os.Stdout)
	r := dm("s", "1")
	m, _, err := x.Progress(context.Background(), r.ID)
	for n := m.Next; err == nil; n++ {
		err = x.Add(context.Background(), index.Update{Session: r, Docs: []index.Doc{{Row: n, Role: index.User, Time: noon, Text: "fact number" + strconv.Itoa(n)}}, Next: n + 1})
		_, _ = fmt.Fprintln(out, n)
		_ = out.Flush()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
