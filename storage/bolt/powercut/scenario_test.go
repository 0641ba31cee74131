//go:build linux

package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

// A fact is something that the store has acknowledged as durable.
type fact struct {
	what  string
	at    int // number of syncs at the acknowledgement
	check func(s *bolt.Store) error
}

// A scenario runs operations on a store and records the acknowledged facts.
type scenario struct {
	*testing.T
	s       *bolt.Store
	path    string
	dir     string  // directory of the shadows
	unknown []error // what OnUnknown was called with

	mu    sync.Mutex // guards facts
	facts []fact
}

func newScenario(t *testing.T) *scenario {
	dir := os.Getenv(envShadow)
	if dir == "" {
		t.Skip("runs only in the build of TestPowerCutKeepsAcknowledgedFacts")
	}
	p := &scenario{T: t, dir: dir, path: filepath.Join(t.TempDir(), "watched.db")}
	s, err := bolt.Open(t.Context(), p.path, bolt.Options{OnUnknown: func(err error) { p.unknown = append(p.unknown, err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	p.s = s
	return p
}

func (p *scenario) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *scenario) shadow(k int) string { return filepath.Join(p.dir, fmt.Sprintf("shadow.%05d", k)) }

// syncs returns the number of syncs so far.
func (p *scenario) syncs() int {
	k := 0
	for {
		if _, err := os.Stat(p.shadow(k + 1)); err != nil {
			return k
		}
		k++
	}
}

// record stores a fact that the store has just acknowledged.
func (p *scenario) record(what string, check func(s *bolt.Store) error) {
	at := p.syncs()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.facts = append(p.facts, fact{what, at, check})
}

var (
	ctx    = context.Background()
	testDM = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
)

func event(lane inbox.Lane, key string) inbox.Entry {
	in := chat.Inbound{IdempotencyKey: key, Kind: chat.Message, Address: testDM, Text: "text of " + key}
	return inbox.Entry{Lane: lane, Session: session.Key(lane), Inbound: in}
}

func checkEntry(key string, done bool) func(*bolt.Store) error {
	return func(s *bolt.Store) error {
		chains, err := s.MessageHistory(ctx, key)
		if err != nil || len(chains) != 1 {
			return fmt.Errorf("%d entries, %w", len(chains), err)
		}
		if done && chains[0].Entry.State != inbox.Done {
			return fmt.Errorf("entry is %s", chains[0].Entry.State)
		}
		return nil
	}
}

func checkRow(id outbox.ID, states ...outbox.State) func(*bolt.Store) error {
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
		return fmt.Errorf("row is %s", r.State)
	}
}

// checkEvent checks that an event is queued, or else that its settlement is stored.
func checkEvent(key string) func(*bolt.Store) error {
	return func(s *bolt.Store) error {
		list, err := s.QueuedEvents(ctx, "q")
		if err != nil {
			return err
		}
		if n := s.EventCounts("q"); n.Waiting != len(list) {
			return fmt.Errorf("%d events wait, but the count is %d", len(list), n.Waiting)
		}
		v, err := s.Value(ctx, "told "+key)
		queued := slices.ContainsFunc(list, func(e store.QueuedEvent) bool { return e.Key == key })
		if queued == (v != nil) {
			err = fmt.Errorf("event is queued: %t, with its settlement %q; %w", queued, v, err)
		}
		return err
	}
}

func (p *scenario) accept(lane inbox.Lane, key string) {
	_, err := p.s.Accept(ctx, []store.Admission{{Entry: event(lane, key)}})
	if err != nil {
		p.Error(err)
		return
	}
	p.record("accepted "+key, checkEntry(key, false))
}

// turn runs a turn with a tool step, a sent answer and its receipt.
func (p *scenario) turn(lane inbox.Lane, n int) {
	key := fmt.Sprint(lane, n)
	p.accept(lane, key)
	c, err := p.s.Claim(ctx, lane, 0)
	p.must(err)
	p.must(p.s.RecordStep(ctx, c, store.Step{Doc: []byte(`{"tool":1}`)}))
	p.record("step of "+key, func(s *bolt.Store) error {
		if checkEntry(key, true)(s) == nil {
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
	rows, err := p.s.CommitTurn(ctx, c, store.Turn{
		End: store.End{
			Outcome: inbox.Outcome{Result: inbox.Replied},
			Rows:    []outbox.Row{{Role: outbox.Reply, Msg: chat.Outbound{To: testDM, Text: chat.PlainText(key)}}},
			Events:  []store.Event{{Queue: "q", Key: key, Group: string(id), Doc: []byte(`1`)}},
		},
		Session:  rec,
		Create:   &store.Creation{Record: rec, Prompt: []byte(`{}`)},
		Messages: []store.Doc[llm.Message]{[]byte(fmt.Sprint(n))},
	})
	p.must(err)
	p.record("turn of "+key, func(s *bolt.Store) error {
		messages, err := storagetest.Transcript(ctx, s, id, 0)
		if err != nil || len(messages) <= n {
			return fmt.Errorf("%d messages, %w", len(messages), err)
		}
		return errors.Join(checkEntry(key, true)(s), checkRow(rows[0].ID, outbox.Uncertain, outbox.Sent)(s), checkEvent(key)(s))
	})
	r, _, _, err := p.s.Next(ctx, testDM)
	p.must(err)
	p.must(p.s.Settle(ctx, outbox.Settlement{ID: r.ID, State: outbox.Sent}))
	p.record("receipt of "+key, checkRow(r.ID, outbox.Sent))
	due, _, err := p.s.NextEvents(ctx, "q", 1)
	p.must(err)
	told := store.EventSettlement{Queue: "q", ID: due[0].ID, Done: true, Key: "told " + due[0].Key, Value: []byte("1")}
	p.must(p.s.SettleEvent(ctx, told))
	p.record("event of "+key, func(s *bolt.Store) error {
		v, err := s.Value(ctx, told.Key)
		if string(v) != "1" {
			err = fmt.Errorf("value is %q, %w", v, err)
		}
		return errors.Join(err, checkEvent(key)(s))
	})
}

func (p *scenario) run() {
	p.turn("a", 0)
	p.turn("a", 1)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { p.accept("burst", fmt.Sprint("burst", i)) })
	}
	wg.Wait()
	p.must(p.s.SetValue(ctx, "v", []byte("1")))
	p.record("value", func(s *bolt.Store) error {
		v, err := s.Value(ctx, "v")
		if string(v) != "1" {
			err = fmt.Errorf("value is %q, %w", v, err)
		}
		return err
	})
	p.turn("b", 0)
}

// check opens a state of the file, and checks what was acknowledged until sync
// k.
func (p *scenario) check(raw []byte, k int, state string) {
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
			p.Errorf("%s (acknowledged after sync %d) is not in %s: %v", f.what, f.at, state, err)
		}
	}
	p.must(s.Verify(ctx))
	p.must(s.Close())
	p.must(os.Remove(path))
}

func TestShadows(t *testing.T) {
	p := newScenario(t)
	p.run()
	p.must(p.s.Close())
	last := p.syncs()
	if last < 20 || len(p.facts) < 20 {
		t.Fatalf("%d syncs and %d facts prove little", last, len(p.facts))
	}
	if os.Getenv(envOneOld) != "" {
		for i := range p.facts {
			p.facts[i].at-- // as if the last sync had not been needed
		}
	}
	torn := 0
	var before []byte
	for k := 1; k <= last; k++ {
		raw, err := os.ReadFile(p.shadow(k))
		p.must(err)
		p.check(raw, k, fmt.Sprintf("shadow %d", k))
		if before != nil {
			for range 2 {
				p.check(tornFile(before, raw), k-1, fmt.Sprintf("a state between shadow %d and %d", k-1, k))
				torn++
			}
		}
		before = raw
	}
	t.Logf("%d facts hold in %d shadows and %d torn states between them", len(p.facts), last, torn)
}

// tornFile returns a file after a power cut during a write: of each page that
// was to change all, nothing, or the first part.
func tornFile(before, after []byte) []byte {
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
			n = rand.IntN(80) // inside the header, which contains all data of a meta page
		}
		copy(state[at:at+n], after[at:])
	}
	return state
}
