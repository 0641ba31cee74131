package bolt_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage"
	"hermesd/storage/bolt"
)

// filled returns the bytes of a store that has something of everything.
func filled(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 3 {
		talk(t, s, "lane", "s1", i)
	}
	must[[]inbox.Acceptance](t)(s.Accept(t.Context(), []inbox.Entry{
		event("steps", "k1", "has-steps"), event("entry", "k2", "the-entry"), event("entry", "k3", "behind it"),
	}))
	c := must[inbox.Claim](t)(s.Claim(t.Context(), "steps", 0))
	ok(t, s.RecordStep(t.Context(), c, nil, inbox.Step(`{"a":"the-step"}`)))
	must[[]outbox.Row](t)(s.Enqueue(t.Context(), []outbox.Row{say(room, "the-row"), say(room, "next row")}))
	ok(t, s.SetValue(t.Context(), "v", []byte("the-value")))
	ok(t, s.Close())
	raw := must[[]byte](t)(os.ReadFile(file(dir)))
	page := os.Getpagesize()
	pages := max(binary.NativeEndian.Uint64(raw[56:]), binary.NativeEndian.Uint64(raw[page+56:]))
	return raw[:int(pages)*page] // the rest is room to grow
}

// restored opens a store with these bytes. It tells the damage that the store
// set aside.
func restored(t *testing.T, raw []byte) (*bolt.Store, *[]string, error) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(file(dir), raw, 0o600))
	var damage []string
	s, err := bolt.Open(t.Context(), file(dir), bolt.Options{OnDamage: func(err error) { damage = append(damage, err.Error()) }})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() }) // of a damaged file
	}
	return s, &damage, err
}

// flip changes one bit at each place where needle stands.
func flip(t *testing.T, raw []byte, needle string) []byte {
	t.Helper()
	if !bytes.Contains(raw, []byte(needle)) {
		t.Fatalf("%q is not in the file", needle)
	}
	bad := []byte(needle)
	bad[len(bad)-1] ^= 1
	return bytes.ReplaceAll(raw, []byte(needle), bad)
}

func TestADamagedRecordIsNamedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	raw := filled(t)
	var damaged *storage.DamageError
	for _, tc := range []struct {
		needle string
		names  string // of the record, as Verify says it
		read   func(t *testing.T, s *bolt.Store) error
	}{
		{"the-value", `value "v"`, func(t *testing.T, s *bolt.Store) error {
			_, err := s.Value(t.Context(), "v")
			return err
		}},
		{`"role":"assistant","n":1`, `transcript "s1" number 3`, func(t *testing.T, s *bolt.Store) error {
			must[[]json.RawMessage](t)(s.Transcript(t.Context(), "s1", 4)) // behind it
			_, err := s.Transcript(t.Context(), "s1", 0)
			return err
		}},
		{"you are", `prompt "s1"`, func(t *testing.T, s *bolt.Store) error {
			_, err := s.Prompt(t.Context(), "s1")
			return err
		}},
		{`"messages":6`, `session "s1"`, func(t *testing.T, s *bolt.Store) error {
			must[[]session.Record](t)(s.Sessions(t.Context(), 0))
			_, _, err := s.SessionByID(t.Context(), "s1")
			return err
		}},
	} {
		t.Run(tc.needle, func(t *testing.T) {
			s, _, err := restored(t, flip(t, raw, tc.needle))
			ok(t, err)
			for _, err := range []error{tc.read(t, s), s.Verify(t.Context())} {
				if !errors.As(err, &damaged) || !strings.Contains(err.Error(), tc.names) {
					t.Errorf("got %v, want a damage of %s", err, tc.names)
				}
			}
			talk(t, s, "another", "s2", 0)
		})
	}
}

func TestADamagedEntryEndsAndItsLaneGoesOn(t *testing.T) {
	t.Parallel()
	s, damage, err := restored(t, flip(t, filled(t), "the-entry"))
	ok(t, err)
	if err := s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "entry m5") {
		t.Errorf("verify says %v, want entry m5 named", err)
	}
	c := must[inbox.Claim](t)(s.Claim(t.Context(), "entry", 0))
	if len(c.Entries) != 1 || c.Entries[0].Inbound.Text != "behind it" {
		t.Fatalf("claimed %+v, want what stands behind the damaged entry", c.Entries)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "entry m5") {
		t.Errorf("told of %q, want entry m5", *damage)
	}
	chains := must[[]inbox.MessageHistory](t)(s.MessageHistory(t.Context(), "m5"))
	if o := chains[0].Entry.Outcome; o == nil || o.Result != inbox.Failed {
		t.Errorf("it ended %+v, want failed", o)
	}
	again := must[[]inbox.Acceptance](t)(s.Accept(t.Context(), []inbox.Entry{event("entry", "k2", "again")}))
	if again[0].IsNew {
		t.Error("its key was forgotten")
	}
	ok(t, s.Verify(t.Context()))
}

func TestATurnWithDamagedStepsEndsAndIsNotRunAgain(t *testing.T) {
	t.Parallel()
	s, damage, err := restored(t, flip(t, filled(t), "the-step"))
	ok(t, err)
	if c := must[inbox.Claim](t)(s.Claim(t.Context(), "steps", 0)); c.Turn != "" {
		t.Fatalf("it is run again: %+v", c)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "number 0") {
		t.Errorf("told of %q, want step number 0", *damage)
	}
	chains := must[[]inbox.MessageHistory](t)(s.MessageHistory(t.Context(), "k1"))
	if o := chains[0].Entry.Outcome; o == nil || o.Result != inbox.Failed {
		t.Errorf("it ended %+v, want failed", o)
	}
	ok(t, s.Verify(t.Context()))
}

func TestADamagedRowIsDeadAndItsQueueGoesOn(t *testing.T) {
	t.Parallel()
	s, damage, err := restored(t, flip(t, filled(t), "the-row"))
	ok(t, err)
	r, _, sending, err := s.Next(t.Context(), room)
	ok(t, err)
	if !sending || r.Msg.Text.Text != "next row" {
		t.Fatalf("next is %+v (%t), want the row behind the damaged one", r, sending)
	}
	if len(*damage) != 1 || !strings.Contains((*damage)[0], "row o4") {
		t.Errorf("told of %q, want row o4", *damage)
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

// inUse is the part of a file that is not the zeros at its end.
func inUse(raw []byte) []byte { return bytes.TrimRight(raw, "\x00") }

func TestATruncatedFileIsRefused(t *testing.T) {
	t.Parallel()
	raw := inUse(filled(t))
	for n := 0; n < len(raw); n += 211 {
		var damaged *storage.DamageError
		if _, _, err := restored(t, raw[:n]); !errors.As(err, &damaged) {
			t.Errorf("at %d of %d bytes: %v, want a *storage.DamageError", n, len(raw), err)
		}
	}
}

func TestGarbageIsRefused(t *testing.T) {
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
		"empty": {}, "somebody else's": must[[]byte](t)(os.ReadFile(foreign)),
	} {
		var damaged *storage.DamageError
		if _, _, err := restored(t, raw); !errors.As(err, &damaged) {
			t.Errorf("%s: %v, want a *storage.DamageError", name, err)
		}
	}
}

// TestFlippedBitsNeverEndTheProcess flips bits anywhere, also in the pages of
// bbolt itself: all that may come of it is errors.
func TestFlippedBitsNeverEndTheProcess(t *testing.T) {
	t.Parallel()
	raw := filled(t)
	pages := len(inUse(raw))
	rng := rand.New(rand.NewPCG(1, 2))
	refused, noticed := 0, 0
	for range 150 {
		bad := bytes.Clone(raw)
		bad[rng.IntN(pages)] ^= 1 << rng.IntN(8)
		s, _, err := restored(t, bad)
		if err != nil {
			refused++
			continue
		}
		if err := s.Verify(t.Context()); err != nil {
			noticed++
		}
		use(t, s)
		_ = s.Close()
	}
	t.Logf("of 150 flipped bits %d were refused at open and %d found by Verify; the others hit unused bytes", refused, noticed)
	if refused+noticed == 0 {
		t.Error("not one was noticed")
	}
}

// use does a little of everything and does not mind errors.
func use(t *testing.T, s *bolt.Store) {
	ctx := t.Context()
	_, _ = s.Accept(ctx, []inbox.Entry{event("lane", fmt.Sprint("new", rand.Uint64()), "x")})
	for _, l := range []inbox.Lane{"lane", "steps", "entry"} {
		if c, err := s.Claim(ctx, l, 0); err == nil && c.Turn != "" {
			_, _ = s.CommitTurn(ctx, c, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: []outbox.Row{say(room, "x")}})
		}
	}
	if r, _, sending, err := s.Next(ctx, room); err == nil && sending {
		_ = s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent, Receipt: &chat.Receipt{ID: "r"}})
	}
	_, _ = s.Transcript(ctx, "s1", 0)
	_, _ = s.MessageHistory(ctx, "k1")
	_, _ = s.Sessions(ctx, 0)
}
