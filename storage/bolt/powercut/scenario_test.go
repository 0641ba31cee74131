//go:build linux

package powercut_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage/bolt"
)

// A fact is something the store said is on disk.
type fact struct {
	what  string
	at    int // syncs until then
	check func(s *bolt.Store) error
}

// A script plays a scenario and remembers the facts.
type script struct {
	*testing.T
	s   *bolt.Store
	dir string // of the shadows

	mu    sync.Mutex // guards what follows
	facts []fact
}

func newScript(t *testing.T) *script {
	dir := os.Getenv(envShadow)
	if dir == "" {
		t.Skip("runs on a build of its own; see TestWhatWasAcknowledgedSurvivesAPowerCut")
	}
	s, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "watched.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &script{T: t, s: s, dir: dir}
}

func (p *script) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *script) shadow(k int) string { return filepath.Join(p.dir, fmt.Sprintf("shadow.%05d", k)) }

// syncs is how many syncs there have been.
func (p *script) syncs() int {
	k := 0
	for {
		if _, err := os.Stat(p.shadow(k + 1)); err != nil {
			return k
		}
		k++
	}
}

// said keeps a fact that the store has just acknowledged.
func (p *script) said(what string, check func(s *bolt.Store) error) {
	at := p.syncs()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.facts = append(p.facts, fact{what, at, check})
}

var (
	ctx  = context.Background()
	room = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
)

func event(lane inbox.Lane, key string) inbox.Entry {
	in := chat.Inbound{IdempotencyKey: key, Kind: chat.Message, Address: room, Text: "text of " + key}
	return inbox.Entry{Lane: lane, Session: session.Key(lane), Inbound: in}
}

func known(key string, done bool) func(*bolt.Store) error {
	return func(s *bolt.Store) error {
		chains, err := s.MessageHistory(ctx, key)
		if err != nil || len(chains) != 1 {
			return fmt.Errorf("%d entries, %w", len(chains), err)
		}
		if done && chains[0].Entry.State != inbox.Done {
			return fmt.Errorf("it is %s", chains[0].Entry.State)
		}
		return nil
	}
}

func rowIs(id outbox.ID, states ...outbox.State) func(*bolt.Store) error {
	return func(s *bolt.Store) error {
		r, err := s.Row(ctx, id)
		if err != nil {
			return err
		}
		for _, st := range states {
			if r.State == st {
				return nil
			}
		}
		return fmt.Errorf("it is %s", r.State)
	}
}

func (p *script) accept(lane inbox.Lane, key string) {
	_, err := p.s.Accept(ctx, []inbox.Entry{event(lane, key)})
	if err != nil {
		p.Error(err)
		return
	}
	p.said("accepted "+key, known(key, false))
}

// turn is a turn with a tool step, an answer that is sent, and its receipt.
func (p *script) turn(lane inbox.Lane, n int) {
	key := fmt.Sprint(lane, n)
	p.accept(lane, key)
	c, err := p.s.Claim(ctx, lane, 0)
	p.must(err)
	p.must(p.s.RecordStep(ctx, c, nil, inbox.Step(`{"tool":1}`)))
	p.said("step of "+key, func(s *bolt.Store) error {
		if known(key, true)(s) == nil {
			return nil
		}
		c, err := s.Claim(ctx, lane, 0)
		if err != nil || len(c.Steps) != 1 {
			return fmt.Errorf("%d steps, %w", len(c.Steps), err)
		}
		return s.Release(ctx, c)
	})
	id := session.ID("s-" + lane)
	rec := session.Record{ID: id, Key: session.Key(lane), Updated: time.Now(), Messages: n + 1}
	rows, err := p.s.CommitTurn(ctx, c, inbox.Commit{
		Outcome: inbox.Outcome{Result: inbox.Replied}, Session: rec,
		Create:   &session.Creation{Record: rec, Prompt: json.RawMessage(`{}`)},
		Messages: []json.RawMessage{json.RawMessage(fmt.Sprint(n))},
		Rows:     []outbox.Row{{Role: outbox.Reply, Msg: chat.Outbound{To: room, Text: chat.PlainText(key)}}},
	})
	p.must(err)
	p.said("turn of "+key, func(s *bolt.Store) error {
		messages, err := s.Transcript(ctx, id, 0)
		if err != nil || len(messages) <= n {
			return fmt.Errorf("%d messages, %w", len(messages), err)
		}
		return errors.Join(known(key, true)(s), rowIs(rows[0].ID, outbox.Uncertain, outbox.Sent)(s))
	})
	r, _, _, err := p.s.Next(ctx, room)
	p.must(err)
	p.must(p.s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent}))
	p.said("receipt of "+key, rowIs(r.ID, outbox.Sent))
}

func (p *script) play() {
	p.turn("a", 0)
	p.turn("a", 1)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { p.accept("burst", fmt.Sprint("burst", i)) })
	}
	wg.Wait()
	p.must(p.s.SetValue(ctx, "v", []byte("1")))
	p.said("value", func(s *bolt.Store) error {
		v, err := s.Value(ctx, "v")
		if string(v) != "1" {
			err = fmt.Errorf("it is %q, %w", v, err)
		}
		return err
	})
	p.turn("b", 0)
}

// holds opens a state of the file, and checks what had been said until sync k.
func (p *script) holds(raw []byte, k int, state string) {
	p.Helper()
	path := filepath.Join(p.TempDir(), "check.db")
	p.must(os.WriteFile(path, raw, 0o600))
	s, err := bolt.Open(ctx, path, bolt.Options{})
	if err != nil {
		p.Fatalf("%s: %v", state, err)
	}
	for _, f := range p.facts {
		if f.at > k {
			continue
		}
		if err := f.check(s); err != nil {
			p.Errorf("%s (said after sync %d) is not in %s: %v", f.what, f.at, state, err)
		}
	}
	p.must(s.Verify(ctx))
	p.must(s.Close())
	p.must(os.Remove(path))
}

func TestShadows(t *testing.T) {
	p := newScript(t)
	p.play()
	p.must(p.s.Close())
	last := p.syncs()
	if last < 20 || len(p.facts) < 20 {
		t.Fatalf("%d syncs and %d facts prove little", last, len(p.facts))
	}
	if os.Getenv(envBroken) != "" {
		for i := range p.facts {
			p.facts[i].at-- // as if the last sync had not been needed
		}
	}
	torn := 0
	var before []byte
	for k := 1; k <= last; k++ {
		raw, err := os.ReadFile(p.shadow(k))
		p.must(err)
		p.holds(raw, k, fmt.Sprintf("shadow %d", k))
		if before != nil {
			for range 2 {
				p.holds(between(before, raw), k-1, fmt.Sprintf("a state between shadow %d and %d", k-1, k))
				torn++
			}
		}
		before = raw
	}
	t.Logf("%d facts hold in %d shadows and %d torn states between them", len(p.facts), last, torn)
}

// between is a file after a power cut while the disk wrote: of each page that
// was to change, all, nothing, or the first part.
func between(before, after []byte) []byte {
	const page, sector = 4096, 512
	state := make([]byte, len(after))
	copy(state, before)
	for at := 0; at+page <= len(after); at += page {
		n := 0
		switch rand.IntN(4) {
		case 0:
			n = page
		case 1:
			n = sector * rand.IntN(page/sector)
		case 2:
			n = rand.IntN(80) // inside the header, where meta pages have all they have
		}
		copy(state[at:at+n], after[at:])
	}
	return state
}

func TestASyncThatFails(t *testing.T) {
	p := newScript(t)
	failed := 0
	for i := range 8 {
		key := fmt.Sprint("k", i)
		_, err := p.s.Accept(ctx, []inbox.Entry{event("a", key)})
		if err == nil {
			continue
		}
		failed++
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("accept %s: %v, want %v", key, err, syscall.EIO)
		}
		if known(key, false)(p.s) == nil || p.s.Waiting("a") != i {
			t.Fatalf("%s was refused and is there; %d wait, want %d", key, p.s.Waiting("a"), i)
		}
		again, err := p.s.Accept(ctx, []inbox.Entry{event("a", key)})
		p.must(err)
		if !again[0].IsNew {
			t.Fatalf("%s was refused, and is not fresh the second time", key)
		}
	}
	if failed != 1 {
		t.Fatalf("%d failed, want 1", failed)
	}
	for i := range 8 {
		p.must(known(fmt.Sprint("k", i), false)(p.s))
	}
	p.must(p.s.Verify(ctx))
	p.must(p.s.Close())
	raw, err := os.ReadFile(p.shadow(lastShadow(p.dir)))
	p.must(err)
	p.facts = []fact{{"the last entry", 0, known("k7", false)}}
	p.holds(raw, 1, "the last shadow")
}

// lastShadow is the number of the newest shadow; the one that failed is missing.
func lastShadow(dir string) int {
	k := 1
	for n := 1; n < 100; n++ {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("shadow.%05d", n))); err == nil {
			k = n
		}
	}
	return k
}
