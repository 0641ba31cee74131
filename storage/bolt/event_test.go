package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// newEvent returns an event of queue "q" whose document has its key.
func newEvent(group, key string) store.Event {
	return store.Event{Queue: "q", Key: key, Group: group, Doc: []byte(`{"document of":"` + key + `"}`)}
}

// tell adds events with the end of a turn.
func tell(t testing.TB, s *bolt.Store, events ...store.Event) {
	t.Helper()
	ok(t, tellErr(t, s, events...))
}

func tellErr(t testing.TB, s *bolt.Store, events ...store.Event) error {
	t.Helper()
	st := s.Stats()
	key := fmt.Sprintf("tell %d-%d", st.Epoch, st.Commits)
	if _, err := s.Accept(t.Context(), []store.Admission{{Entry: event("tell", key, "x")}}); err != nil {
		return err
	}
	c := must[store.Claim](t)(s.Claim(t.Context(), "tell", 0))
	_, err := s.FinishTurn(t.Context(), c, store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Events: events}})
	if err != nil {
		return errors.Join(err, s.Release(t.Context(), c))
	}
	return nil
}

// checkQueue checks the keys of the events of queue "q", and their counts.
func checkQueue(t *testing.T, s *bolt.Store, want ...string) {
	t.Helper()
	var got []string
	n := store.EventCounts{}
	for _, e := range must[[]store.QueuedEvent](t)(s.QueuedEvents(t.Context(), "q")) {
		got = append(got, e.Key)
		n.Bytes += int64(len(e.Doc))
		if e.Aside != "" {
			n.Aside++
		} else if n.Waiting++; n.Waiting == 1 {
			n.Oldest = e.Added
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("queued are %q, want %q", got, want)
	}
	if counts := s.EventCounts("q"); counts != n {
		t.Errorf("counts are %+v, want %+v", counts, n)
	}
}

// changeFile changes the file of a closed store.
func changeFile(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	db := must[*bbolt.DB](t)(bbolt.Open(path, 0o600, nil))
	ok(t, errors.Join(db.Update(change), db.Close()))
}

// Without events a store has no buckets of them; the first one creates them.
func TestFirstEventCreatesBuckets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	must[session.Deleted](t)(s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}))
	for _, want := range []bool{false, true} {
		ok(t, s.Verify(t.Context()))
		ok(t, s.Close())
		changeFile(t, storePath(dir), func(tx *bbolt.Tx) error {
			for _, name := range []string{"events", "eventindex"} {
				if got := tx.Bucket([]byte(name)) != nil; got != want {
					t.Errorf("bucket %s is there: %t, want %t", name, got, want)
				}
			}
			return nil
		})
		s = open(t, dir)
		tell(t, s, newEvent("g", fmt.Sprint(want)))
	}
	checkQueue(t, s, "false", "true")
}

// damagedEvents returns the bytes of a store of filledStore after a change of its buckets
// of events.
func damagedEvents(t *testing.T, change func(events, index *bbolt.Bucket) error) []byte {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir), filledStore(t), 0o600))
	changeFile(t, storePath(dir), func(tx *bbolt.Tx) error {
		return change(tx.Bucket([]byte("events")), tx.Bucket([]byte("eventindex")))
	})
	return must[[]byte](t)(os.ReadFile(storePath(dir)))
}

// deleteKeys deletes the keys of a bucket that begin with prefix.
func deleteKeys(b *bbolt.Bucket, prefix string) error {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// flipValues changes a bit in the values of the keys that begin with prefix.
func flipValues(b *bbolt.Bucket, prefix string) error {
	changed := make(map[string][]byte)
	c := b.Cursor()
	for k, v := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		changed[string(k)] = v
	}
	for k, v := range changed {
		if err := b.Put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}

// A damaged event is moved out of the way, and a damaged index is built again. Both are
// found by Verify before, and nothing is afterwards.
func TestDamagedEventsDoNotBlockQueue(t *testing.T) {
	t.Parallel()
	firstEvent := []byte("\x00\x01q\x00\x00\x00\x00\x00\x00\x00\x01")
	readable := []string{"the-event", "next event", "aside", "replaced"}
	for name, tc := range map[string]struct {
		change func(events, index *bbolt.Bucket) error
		want   []string
	}{
		"the first event":        {func(e, _ *bbolt.Bucket) error { return flipValues(e, string(firstEvent)) }, readable[1:]},
		"the first is not there": {func(e, _ *bbolt.Bucket) error { return e.Delete(firstEvent) }, readable[1:]},
		"a malformed key":        {func(e, _ *bbolt.Bucket) error { return e.Put([]byte{0xff}, []byte("x")) }, readable},
		"all events":             {func(e, _ *bbolt.Bucket) error { return flipValues(e, "") }, nil},
		"all keys":               {func(_, i *bbolt.Bucket) error { return flipValues(i, "k") }, readable},
		"all groups":             {func(_, i *bbolt.Bucket) error { return flipValues(i, "g") }, readable},
		"all due times":          {func(_, i *bbolt.Bucket) error { return flipValues(i, "d") }, readable},
		"an entry of no event":   {func(_, i *bbolt.Bucket) error { return i.Put([]byte("d\x00\x01q1234567812345678"), []byte("\x01xxxx")) }, readable},
	} {
		for use, f := range map[string]func(s *bolt.Store) error{
			"next":   func(s *bolt.Store) error { _, _, err := s.NextEvents(t.Context(), "q", 9); return err },
			"settle": func(s *bolt.Store) error { return s.SettleEvent(t.Context(), store.EventSettlement{Queue: "q", ID: 1}) },
			"retry":  func(s *bolt.Store) error { _, err := s.RetryEvents(t.Context(), "q"); return err },
			"drop":   func(s *bolt.Store) error { _, err := s.DropEvents(t.Context(), "q", 77, 1); return err },
			"delete": func(s *bolt.Store) error {
				_, err := s.DeleteSession(t.Context(), store.Deletion{ID: "s1", Events: []store.Event{newEvent("g", "forget")}})
				return err
			},
			"turn": func(s *bolt.Store) error { return tellErr(t, s, newEvent("g", "the-event"), newEvent("h", "aside")) },
		} {
			t.Run(name+", "+use, func(t *testing.T) {
				t.Parallel()
				s, damage, err := openBytes(t, damagedEvents(t, tc.change))
				ok(t, err)
				var damaged *storage.DamageError
				if err := s.Verify(t.Context()); !errors.As(err, &damaged) {
					t.Errorf("Verify: %v, want damage", err)
				}
				ok(t, f(s))
				tell(t, s, newEvent("h", "another"), newEvent("g", "next event"))
				due, _, err := s.NextEvents(t.Context(), "q", 9)
				ok(t, err)
				if len(due) == 0 {
					t.Error("nothing is due")
				}
				must[int](t)(s.RetryEvents(t.Context(), "q"))
				if name != "a malformed key" { // which nothing reads but Verify
					if len(*damage) == 0 {
						t.Error("no damage is reported")
					}
					ok(t, s.Verify(t.Context()))
				}
				if use == "next" {
					want := slices.DeleteFunc(slices.Clone(tc.want), func(key string) bool { return key == "next event" })
					checkQueue(t, s, append(want, "another", "next event")...)
				}
			})
		}
	}
}

// Without entries in the index, an event would never be told: Verify says so.
func TestVerifyFindsMissingIndexOfEvents(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"k", "g", "d"} {
		s, _, err := openBytes(t, damagedEvents(t, func(_, index *bbolt.Bucket) error { return deleteKeys(index, kind) }))
		ok(t, err)
		if err := s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "event") {
			t.Errorf("without the entries of kind %q: %v", kind, err)
		}
	}
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir), filledStore(t), 0o600))
	changeFile(t, storePath(dir), func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("eventindex")) })
	if findings := bolt.Inspect(t.Context(), storePath(dir)); len(findings) == 0 {
		t.Error("Inspect does not miss the index")
	}
}

// A damaged event that was moved out of the way has text of its session.
func TestDeleteSessionDeletesDamagedEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	tell(t, s, store.Event{Queue: "q", Key: "k", Group: "s1", Doc: []byte(`"` + canary + `"`)})
	ok(t, s.Close())
	changeFile(t, storePath(dir), func(tx *bbolt.Tx) error { return flipValues(tx.Bucket([]byte("events")), "") })
	s = open(t, dir)
	_, _, err := s.NextEvents(t.Context(), "q", 1)
	ok(t, err)
	checkQueue(t, s)
	ok(t, s.Compact(t.Context()))
	if n := countCanaries(t, storePath(dir)); n != 1 {
		t.Fatalf("%d canaries in the file, want that of the damaged event", n)
	}
	must[session.Deleted](t)(s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}))
	ok(t, s.Compact(t.Context()))
	if n := countCanaries(t, storePath(dir)); n > 0 {
		t.Errorf("%d canaries are left", n)
	}
}

// Events of a deleted session are dropped, also those that were accepted.
func TestDeleteSessionDropsAcceptedEvents(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	runTurn(t, s, "lane", "s1", 0)
	tell(t, s, newEvent("s1", "1"), newEvent("s1", "2"), newEvent("s2", "3"))
	due, _, err := s.NextEvents(t.Context(), "q", 1)
	ok(t, err)
	ok(t, s.SettleEvent(t.Context(), store.EventSettlement{Queue: "q", ID: due[0].ID, Accepted: true}))
	must[session.Deleted](t)(s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}))
	checkQueue(t, s, "3")
}

// A failed commit changes no counts, and a commit that was refused adds no event.
func TestFullFileKeepsCountsOfEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openWith(t, dir, bolt.Options{MaxBytes: 4 << 20})
	var want []string
	failed := 0
	for i := 0; failed < 3 && i < 500; i++ {
		e := newEvent(fmt.Sprint(i%3), fmt.Sprint(i))
		e.Doc = fmt.Appendf(nil, `"%s"`, strings.Repeat("x", 40_000))
		if err := tellErr(t, s, e); err == nil {
			want = append(want, e.Key)
		} else {
			failed++
		}
		checkQueue(t, s, want...)
	}
	if failed < 3 || len(want) < 5 {
		t.Fatalf("%d stored, %d failed", len(want), failed)
	}
	ok(t, s.Verify(t.Context()))
	ok(t, s.Close())
	s = openWith(t, dir, bolt.Options{})
	checkQueue(t, s, want...)
	if n := must[int](t)(s.DropEvents(t.Context(), "q")); n != len(want) {
		t.Errorf("%d dropped, want %d", n, len(want))
	}
	checkQueue(t, s)
}

// TestEventCostsNoCommit checks that an event is written with the commit of its turn,
// and its settlement with one write.
func TestEventCostsNoCommit(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	turn := func(n int, events ...store.Event) (commits uint64) {
		before := s.Stats().Commits
		must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", fmt.Sprint(n), "x")}}))
		c := must[store.Claim](t)(s.Claim(t.Context(), "lane", 0))
		m := turnCommit("lane", "s1", n)
		m.Events, m.Rows = events, nil
		must[[]outbox.Row](t)(s.CommitTurn(t.Context(), c, m))
		return s.Stats().Commits - before
	}
	without := turn(0)
	if with := turn(1, newEvent("s1", "1"), newEvent("s1", "2")); with != without {
		t.Errorf("%d commits with events, %d without", with, without)
	}
	before := s.Stats().Commits
	due, _, err := s.NextEvents(t.Context(), "q", 1)
	ok(t, err)
	ok(t, s.SettleEvent(t.Context(), store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true, Key: "k", Value: []byte("v")}))
	ok(t, s.SettleEvent(t.Context(), store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true}))
	if n := s.Stats().Commits - before; n != 1 {
		t.Errorf("a settlement costs %d commits, want 1", n)
	}
}
