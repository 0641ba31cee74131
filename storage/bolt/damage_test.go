package bolt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

// filledStore returns the bytes of a store that has records of all kinds.
func filledStore(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 3 {
		runTurn(t, s, "lane", "s1", i)
	}
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{
		{Entry: event("steps", "k1", "has-steps")}, {Entry: event("entry", "k2", "the-entry")}, {Entry: event("entry", "k3", "behind it")},
	}))
	c := must[store.Claim](t)(s.Claim(t.Context(), "steps", 0))
	ok(t, s.RecordStep(t.Context(), c, store.Step{Doc: []byte(`{"a":"the-step"}`)}))
	must[[]outbox.Row](t)(s.Enqueue(t.Context(), []outbox.Row{newRow(testDM, "the-row"), newRow(testDM, "next row")}))
	ok(t, s.SetValue(t.Context(), "v", []byte("the-value")))
	tell(t, s, newEvent("g", "the-event"), newEvent("g", "next event"))
	tell(t, s, newEvent("h", "aside"), newEvent("h", "replaced"), newEvent("h", "replaced"))
	ok(t, s.SettleEvent(t.Context(), store.EventSettlement{Queue: "q", ID: 3, Aside: "refused"}))
	ok(t, s.Close())
	raw := must[[]byte](t)(os.ReadFile(storePath(dir)))
	page := os.Getpagesize()
	pages := max(binary.NativeEndian.Uint64(raw[56:]), binary.NativeEndian.Uint64(raw[page+56:]))
	return raw[:int(pages)*page] // the rest is unused
}

// openBytes opens a store with these bytes. The slice receives the damage that
// the store reports.
func openBytes(t *testing.T, raw []byte) (*bolt.Store, *[]string, error) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir), raw, 0o600))
	var damage []string
	s, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{OnDamage: func(err error) { damage = append(damage, err.Error()) }})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() }) // errors of a damaged file do not matter
	}
	return s, &damage, err
}

// flipBits changes one bit in each occurrence of needle.
func flipBits(t *testing.T, raw []byte, needle string) []byte {
	t.Helper()
	if !bytes.Contains(raw, []byte(needle)) {
		t.Fatalf("%q is not in the file", needle)
	}
	bad := []byte(needle)
	bad[len(bad)-1] ^= 1
	return bytes.ReplaceAll(raw, []byte(needle), bad)
}

func TestDamagedRecordIsNamed(t *testing.T) {
	t.Parallel()
	raw := filledStore(t)
	var damaged *storage.DamageError
	for _, tc := range []struct {
		needle string
		names  string // name of the record in the error of Verify
		read   func(t *testing.T, s *bolt.Store) error
	}{
		{"the-value", `value "v"`, func(t *testing.T, s *bolt.Store) error {
			_, err := s.Value(t.Context(), "v")
			return err
		}},
		{`"role":"assistant","n":1`, `transcript "s1" number 3`, func(t *testing.T, s *bolt.Store) error {
			must[[]store.Doc[llm.Message]](t)(storagetest.Transcript(t.Context(), s, "s1", 4)) // after the damaged row
			_, err := storagetest.Transcript(t.Context(), s, "s1", 0)
			return err
		}},
		{"you are", `prompt "s1"`, func(t *testing.T, s *bolt.Store) error {
			_, err := s.Prompt(t.Context(), "s1")
			return err
		}},
		{`"messages":6`, `session "s1"`, func(t *testing.T, s *bolt.Store) error {
			must[[]session.Record](t)(s.Sessions(t.Context(), session.Query{}))
			_, _, err := s.SessionByID(t.Context(), "s1")
			return err
		}},
	} {
		t.Run(tc.needle, func(t *testing.T) {
			s, _, err := openBytes(t, flipBits(t, raw, tc.needle))
			ok(t, err)
			for _, err := range []error{tc.read(t, s), s.Verify(t.Context())} {
				if !errors.As(err, &damaged) || !strings.Contains(err.Error(), tc.names) {
					t.Errorf("got %v, want a damage of %s", err, tc.names)
				}
			}
			runTurn(t, s, "another", "s2", 0)
		})
	}
}

func TestDamagedEntryDoesNotBlockLane(t *testing.T) {
	t.Parallel()
	s, damage, err := openBytes(t, flipBits(t, filledStore(t), "the-entry"))
	ok(t, err)
	if err := s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "entry m5") {
		t.Errorf("Verify: %v, want entry m5 named", err)
	}
	c := must[store.Claim](t)(s.Claim(t.Context(), "entry", 0))
	if len(c.Entries) != 1 || c.Entries[0].Inbound.Text != "behind it" {
		t.Fatalf("claimed %+v, want the entry after the damaged one", c.Entries)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "entry m5") {
		t.Errorf("reported %q, want entry m5", *damage)
	}
	histories := must[[]store.MessageHistory](t)(s.MessageHistory(t.Context(), "m5"))
	if o := histories[0].Entry.Outcome; o == nil || o.Result != inbox.Failed {
		t.Errorf("it ended %+v, want failed", o)
	}
	again := must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("entry", "k2", "again")}}))
	if again[0].IsNew {
		t.Error("its key is no longer known")
	}
	ok(t, s.Verify(t.Context()))
}

// An event is known although the record of its key is damaged, which is reported:
// nothing else is written then.
func TestDamagedKeyIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok(t, os.WriteFile(storePath(dir), filledStore(t), 0o600))
	db := must[*bbolt.DB](t)(bbolt.Open(storePath(dir), 0o600, nil))
	ok(t, db.Update(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("keys"))
		return keys.ForEach(func(k, v []byte) error {
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return keys.Put(bytes.Clone(k), v)
		})
	}))
	ok(t, db.Close())
	s, damage, err := openBytes(t, must[[]byte](t)(os.ReadFile(storePath(dir))))
	ok(t, err)
	if again := must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("entry", "k2", "again")}})); again[0].IsNew {
		t.Error("the event is accepted twice")
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "key ") {
		t.Errorf("reported %q, want the key", *damage)
	}
}

// A damaged value does not keep an event from being accepted that edits it.
func TestDamagedValueDoesNotBlockAccept(t *testing.T) {
	t.Parallel()
	s, damage, err := openBytes(t, flipBits(t, filledStore(t), "the-value"))
	ok(t, err)
	edit := store.ValueEdit{Key: "v", Change: func(old []byte) ([]byte, error) { return fmt.Appendf(old, "after %q", old), nil }}
	a := must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", "new", "x"), Edits: []store.ValueEdit{edit}}}))
	if v := must[[]byte](t)(s.Value(t.Context(), "v")); !a[0].IsNew || string(v) != `after ""` {
		t.Errorf("%+v, value %q", a[0], v)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "value") {
		t.Errorf("reported %q, want the value", *damage)
	}
	ok(t, s.Verify(t.Context()))
}

func TestDamagedStepEndsTurn(t *testing.T) {
	t.Parallel()
	s, damage, err := openBytes(t, flipBits(t, filledStore(t), "the-step"))
	ok(t, err)
	if c := must[store.Claim](t)(s.Claim(t.Context(), "steps", 0)); c.Turn != "" {
		t.Fatalf("it is run again: %+v", c)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "number 0") {
		t.Errorf("reported %q, want step number 0", *damage)
	}
	histories := must[[]store.MessageHistory](t)(s.MessageHistory(t.Context(), "k1"))
	if o := histories[0].Entry.Outcome; o == nil || o.Result != inbox.Failed {
		t.Errorf("it ended %+v, want failed", o)
	}
	ok(t, s.Verify(t.Context()))
}

func TestDamagedRowDoesNotBlockQueue(t *testing.T) {
	t.Parallel()
	s, damage, err := openBytes(t, flipBits(t, filledStore(t), "the-row"))
	ok(t, err)
	r, _, sending, err := s.Next(t.Context(), testDM)
	ok(t, err)
	if !sending || r.Msg.Text.Text != "next row" {
		t.Fatalf("next is %+v (%t), want the row after the damaged one", r, sending)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "row o4") {
		t.Errorf("reported %q, want row o4", *damage)
	}
	ok(t, s.Settle(t.Context(), outbox.Settlement{ID: r.ID, State: outbox.Sent}))
	if dead := must[outbox.Row](t)(s.Row(t.Context(), 4)); dead.State != outbox.Dead {
		t.Errorf("the damaged row is %s, want dead", dead.State)
	}
	if st := s.Stats(); st.Outbox != 0 || st.Dead != 1 {
		t.Errorf("%d rows and %d dead, want 0 and 1", st.Outbox, st.Dead)
	}
	ok(t, s.Verify(t.Context()))
}

// trimZeros removes the zeros at the end of a file.
func trimZeros(raw []byte) []byte { return bytes.TrimRight(raw, "\x00") }

func TestOpenRejectsTruncatedFile(t *testing.T) {
	t.Parallel()
	raw := trimZeros(filledStore(t))
	for n := 0; n < len(raw); n += 211 {
		var damaged *storage.DamageError
		if _, _, err := openBytes(t, raw[:n]); !errors.As(err, &damaged) {
			t.Errorf("at %d of %d bytes: %v, want a *storage.DamageError", n, len(raw), err)
		}
	}
}

func TestOpenRejectsGarbage(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db := must[*bbolt.DB](t)(bbolt.Open(foreign, 0o600, nil))
	ok(t, db.Close())
	for name, raw := range map[string][]byte{
		"noise": noise, "zeros": make([]byte, 1<<16), "text": []byte(strings.Repeat("hello ", 5000)),
		"empty": {}, "other program": must[[]byte](t)(os.ReadFile(foreign)),
	} {
		var damaged *storage.DamageError
		if _, _, err := openBytes(t, raw); !errors.As(err, &damaged) {
			t.Errorf("%s: %v, want a *storage.DamageError", name, err)
		}
	}
}

// Damaged pages are named at the open, and by Inspect, which also finds what the open
// does not read.
func TestDamagedPageIsNamed(t *testing.T) {
	t.Parallel()
	raw := filledStore(t)
	size := os.Getpagesize()
	rng := rand.New(rand.NewPCG(7, 9))
	rejected, inspected := 0, 0
	for i := 2; i < len(raw)/size; i++ { // after the meta pages
		for name, change := range map[string]func(page []byte){
			"zeros":          func(p []byte) { clear(p) },
			"empty elements": func(p []byte) { clear(p[16:]) },
			"noise": func(p []byte) {
				for j := range p[16:] {
					p[16+j] = byte(rng.Uint32())
				}
			},
			"ones":         func(p []byte) { copy(p[16:], bytes.Repeat([]byte{0xff}, 48)) },
			"another page": func(p []byte) { copy(p, raw[(2+(i+1)%(len(raw)/size-2))*size:][:size]) },
			"some bits": func(p []byte) {
				for range 20 {
					p[rng.IntN(200)] ^= 1 << rng.IntN(8)
				}
			},
		} {
			bad := bytes.Clone(raw)
			change(bad[i*size : (i+1)*size])
			s, _, err := openBytes(t, bad)
			if err == nil {
				useStore(t, s)
				_ = s.Close()
			}
			path := filepath.Join(t.TempDir(), "bad.db")
			ok(t, os.WriteFile(path, bad, 0o600))
			findings := bolt.Inspect(t.Context(), path)
			inspected += min(len(findings), 1)
			if err == nil {
				continue
			}
			rejected++
			var damaged *storage.DamageError
			if !errors.As(err, &damaged) || strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "runtime error") {
				t.Errorf("page %d, %s: %v", i, name, err)
			}
			if len(findings) == 0 {
				t.Errorf("page %d, %s: Inspect finds nothing, but Open says %v", i, name, err)
			}
		}
	}
	t.Logf("%d were rejected, Inspect found %d", rejected, inspected)
	if rejected == 0 || inspected < rejected {
		t.Error("too little was found")
	}
	path := filepath.Join(t.TempDir(), "good.db")
	ok(t, os.WriteFile(path, raw, 0o600))
	if findings := bolt.Inspect(t.Context(), path); len(findings) > 0 {
		t.Errorf("in a good file: %v", findings)
	}
}

// TestFlippedBitsNeverCrash flips random bits, also in the pages of bbolt
// itself: the only allowed results are errors.
func TestFlippedBitsNeverCrash(t *testing.T) {
	t.Parallel()
	raw := filledStore(t)
	pages := len(trimZeros(raw))
	rng := rand.New(rand.NewPCG(1, 2))
	rejected, noticed := 0, 0
	for range 150 {
		bad := bytes.Clone(raw)
		bad[rng.IntN(pages)] ^= 1 << rng.IntN(8)
		s, _, err := openBytes(t, bad)
		if err != nil {
			rejected++
			continue
		}
		if err := s.Verify(t.Context()); err != nil {
			noticed++
		}
		useStore(t, s)
		_ = s.Close()
	}
	t.Logf("of 150 flipped bits %d were rejected at open and %d found by Verify; the others hit unused bytes", rejected, noticed)
	if rejected+noticed == 0 {
		t.Error("no flipped bit was noticed")
	}
}

// useStore runs an operation of each kind and ignores errors.
func useStore(t *testing.T, s *bolt.Store) {
	ctx := t.Context()
	_, _ = s.Accept(ctx, []store.Admission{{Entry: event("lane", fmt.Sprint("new", rand.Uint64()), "x")}})
	for _, l := range []inbox.Lane{"lane", "steps", "entry"} {
		if c, err := s.Claim(ctx, l, 0); err == nil && c.Turn != "" {
			_, _ = s.FinishTurn(ctx, c, store.Finish{End: store.End{
				Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: []outbox.Row{newRow(testDM, "x")},
				Events: []store.Event{newEvent("g", "the-event"), newEvent("h", string(l))},
			}})
		}
	}
	if r, _, sending, err := s.Next(ctx, testDM); err == nil && sending {
		_ = s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent, Receipt: &chat.Receipt{ID: "r"}})
	}
	if due, _, err := s.NextEvents(ctx, "q", 9); err == nil && len(due) > 0 {
		_ = s.SettleEvent(ctx, store.EventSettlement{Queue: "q", ID: due[0].ID, Due: time.Now()})
		_ = s.SettleEvent(ctx, store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true})
	}
	_, _ = s.QueuedEvents(ctx, "q")
	_, _ = s.RetryEvents(ctx, "q")
	_, _ = s.DropEvents(ctx, "q")
	_, _ = storagetest.Transcript(ctx, s, "s1", 0)
	_, _ = s.MessageHistory(ctx, "k1")
	_, _ = s.Sessions(ctx, session.Query{})
}
