package erase_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/erase"
	"hermesd/gateway/inbox"
	"hermesd/gateway/media"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "zyzzyvacanary"

// A home has a store, an index and media files like the daemon.
type home struct {
	*testing.T
	dir    string
	store  *bolt.Store
	index  *index.Index
	media  *media.Cache
	eraser *erase.Eraser
}

func newHome(t *testing.T) *home {
	h := &home{T: t, dir: t.TempDir()}
	var err error
	h.store, err = bolt.Open(t.Context(), filepath.Join(h.dir, "hermesd.db"), bolt.Options{})
	h.ok(err)
	t.Cleanup(func() { h.ok(h.store.Close()) })
	h.index, err = index.Open(filepath.Join(h.dir, "search.db"))
	h.ok(err)
	t.Cleanup(func() { h.ok(h.index.Close()) })
	h.media, err = media.Open(filepath.Join(h.dir, "media"), media.Config{MaxBytes: 1 << 20, CacheBytes: 1 << 24})
	h.ok(err)
	h.eraser = erase.New(erase.Options{Store: h.store, Index: h.index, Media: h.media, Cached: func(session.ID) {}, Forget: nothing})
	return h
}

func (h *home) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// file saves a file that contains text.
func (h *home) file(text string) chat.File {
	h.Helper()
	f, err := h.media.Save(h.Context(), func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}, chat.File{Kind: chat.Document, Name: "notes.txt", MIME: "text/plain"})
	h.ok(err)
	return f
}

// tell adds a session with one turn: a message with a file that it refers to.
func (h *home) tell(id session.ID, text string, f chat.File, used time.Time) {
	h.Helper()
	key := session.Key("agent:" + id)
	at := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: string(id)}
	in := chat.Inbound{IdempotencyKey: string(id), ID: string(id), Kind: chat.Message, Address: at, Text: text, Files: []chat.File{f}}
	_, err := h.store.Accept(h.Context(), []store.Admission{{Entry: inbox.Entry{Lane: inbox.LaneOf(key), Session: key, Inbound: in}}})
	h.ok(err)
	c, err := h.store.Claim(h.Context(), inbox.LaneOf(key), 0)
	h.ok(err)
	row, err := json.Marshal(llm.UserText(text + " [file stored at " + f.Path + "]"))
	h.ok(err)
	rec := session.Record{ID: id, Key: key, Address: at, Owner: "7", Created: used, Updated: used, Messages: 1}
	_, err = h.store.CommitTurn(h.Context(), c, store.Turn{
		End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Session: rec, Messages: []store.Doc[llm.Message]{row},
		Create: &store.Creation{Record: rec, Prompt: []byte(`{"about":"` + text + `"}`)},
	})
	h.ok(err)
	h.follow()
}

func (h *home) follow() {
	h.Helper()
	_, err := index.NewFollower(h.index, h.store, "", zap.NewNop()).CatchUp(h.Context())
	h.ok(err)
}

// holding returns the extensions of the files that contain a word.
func (h *home) holding(word string) (names []string) {
	h.Helper()
	h.ok(filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(word)) {
			names = append(names, filepath.Ext(path))
		}
		return err
	}))
	slices.Sort(names)
	return slices.Compact(names)
}

func (h *home) found(word string) int {
	h.Helper()
	hits, err := h.index.Search(h.Context(), index.Query{Text: word, Scope: index.OperatorScope()})
	h.ok(err)
	return len(hits)
}

// TestSessionLeavesNothingOnDisk checks that no file contains a word of a
// deleted conversation once all are compacted.
func TestSessionLeavesNothingOnDisk(t *testing.T) {
	h := newHome(t)
	now := time.Now()
	shared := h.file("of both")
	h.tell("s1", "the "+canary+" is here", h.file(canary+" in a file"), now)
	h.tell("s2", "an ordinary word", shared, now)
	h.tell("s3", "and "+canary+" again", shared, now)
	if d := cmp.Diff([]string{".db", ".db-wal", ".txt"}, h.holding(canary)); d != "" {
		t.Fatalf("the test proves nothing: %s", d)
	}
	for _, id := range []session.ID{"s1", "s3"} {
		gone, err := h.eraser.Session(t.Context(), id)
		h.ok(err)
		if gone.ID != id || gone.Messages != 1 || gone.Entries != 1 {
			t.Errorf("got %+v", gone)
		}
	}
	if n := h.found(canary); n > 0 {
		t.Errorf("it is found %d times", n)
	}
	h.ok(h.store.Compact(t.Context()))
	h.ok(h.index.Compact(t.Context()))
	if names := h.holding(canary); len(names) > 0 {
		t.Errorf("it stands in %v", names)
	}
	h.ok(h.index.Reset())
	h.follow()
	if h.found(canary) > 0 || h.found("ordinary") != 1 {
		t.Error("a new index finds something else")
	}
	if _, err := os.Stat(shared.Path); err != nil {
		t.Errorf("a file that another conversation uses is gone: %v", err)
	}
	h.ok(h.store.Verify(t.Context()))
}

func TestExpiredDeletesOldSessions(t *testing.T) {
	h := newHome(t)
	now := time.Now()
	for i := range 5 {
		h.tell(session.ID(fmt.Sprint("s", i)), "x", chat.File{}, now.Add(-time.Duration(i)*time.Hour))
	}
	gone, err := h.eraser.Expired(t.Context(), now.Add(-150*time.Minute))
	h.ok(err)
	if d := cmp.Diff([]session.ID{"s4", "s3"}, gone); d != "" {
		t.Error(d)
	}
	left, err := h.store.Sessions(t.Context(), session.Query{})
	h.ok(err)
	if len(left) != 3 {
		t.Errorf("%d are left, want 3", len(left))
	}
}

// faulty is a Store of n sessions, every third of which is busy, and an Index that
// fails for one.
type faulty struct {
	erase.Store
	ids  []session.ID
	fail session.ID
}

// noMedia is an erase.Media of sessions without files.
type noMedia struct{ *testing.T }

func (m noMedia) Dir() string { return "" }

func (m noMedia) Remove(path string) error {
	m.Errorf("%s is removed", path)
	return nil
}

// nothing is an erase.Options.Forget without an external memory.
func nothing(session.Record) ([]store.Event, string) { return nil, "" }

func (f *faulty) SessionByID(_ context.Context, id session.ID) (session.Record, bool, error) {
	return session.Record{ID: id}, true, nil
}

func (f *faulty) DeleteSession(_ context.Context, d store.Deletion) (session.Deleted, error) {
	id := d.ID
	i := slices.Index(f.ids, id)
	switch {
	case i < 0:
		return session.Deleted{}, session.ErrNotFound
	case id[len(id)-1] == '3':
		return session.Deleted{}, session.ErrBusy
	case id == f.fail:
		return session.Deleted{}, errors.New("the disk is full")
	}
	f.ids = slices.Delete(f.ids, i, i+1)
	return session.Deleted{ID: id}, nil
}

func (f *faulty) Sessions(_ context.Context, q session.Query) (recs []session.Record, err error) {
	for _, id := range f.ids[:min(q.Max, len(f.ids))] {
		recs = append(recs, session.Record{ID: id})
	}
	return recs, nil
}

func (f *faulty) Forget(_ context.Context, id session.ID) error {
	if id == "n7" {
		return errors.New("the index is damaged")
	}
	return nil
}

func TestExpiredSkipsBusySessions(t *testing.T) {
	f := &faulty{}
	for i := range 1000 {
		f.ids = append(f.ids, session.ID(fmt.Sprint("n", i)))
	}
	cached := 0
	e := erase.New(erase.Options{Store: f, Index: f, Media: noMedia{t}, Cached: func(session.ID) { cached++ }, Forget: nothing})
	gone, err := e.Expired(t.Context(), time.Time{})
	var left *erase.PartialError
	if len(gone) != 900 || len(f.ids) != 100 || cached != 900 || !errors.As(err, &left) || left.ID != "n7" {
		t.Errorf("%d are gone, %d stay, %d forgotten, %v", len(gone), len(f.ids), cached, err)
	}
}

func TestSessionStoreError(t *testing.T) {
	f := &faulty{ids: []session.ID{"a", "b", "c"}, fail: "b"}
	e := erase.New(erase.Options{Store: f, Index: f, Media: noMedia{t}, Cached: func(session.ID) {}, Forget: nothing})
	gone, err := e.Expired(t.Context(), time.Time{})
	var left *erase.PartialError
	if len(gone) != 1 || err == nil || errors.As(err, &left) {
		t.Errorf("%v are gone, %v", gone, err)
	}
	if _, err := e.Session(t.Context(), "zz"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheExternalMemoryKeepsIsReturned(t *testing.T) {
	f := &faulty{ids: []session.ID{"a"}}
	e := erase.New(erase.Options{Store: f, Index: f, Media: noMedia{t}, Cached: func(session.ID) {}, Forget: func(rec session.Record) ([]store.Event, string) {
		return nil, "what came of " + string(rec.ID)
	}})
	if gone, err := e.Session(t.Context(), "a"); err != nil || gone.Stays != "what came of a" {
		t.Errorf("%+v, %v", gone, err)
	}
}
