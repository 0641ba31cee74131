package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/agent/memory/provider/supermemory"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	simsupermemory "hermesd/internal/sim/memory/supermemory"
	"hermesd/storage/bolt"
)

// batching returns a fake that takes up to 100 turns as one event.
func batching() *fake {
	f := newFake()
	f.about.Batch = provider.Batch{Turns: 100, After: 10 * time.Minute}
	return f
}

// saidIn returns the texts of the user in the events that were told, by event.
func (f *fake) saidIn() (list [][]string) {
	for _, e := range f.got().told {
		var said []string
		for _, m := range e.Messages {
			if m.Role == "user" {
				said = append(said, m.Text)
			}
		}
		list = append(list, said)
	}
	return list
}

func (f *fake) toldAre(t *testing.T, want string) {
	t.Helper()
	later(0)
	if got := fmt.Sprint(f.saidIn()); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// Turns are told together 10 minutes after the last one.
func TestBatchWaitsAfterLastTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := batching(), newQueue()
		b := open(t, f, q, settings())
		b.say("s", "one")
		later(9 * time.Minute)
		b.say("s", "two")
		b.say("other", "three")
		later(0)
		reads := q.count(&q.reads)
		later(9 * time.Minute)
		if n := q.count(&q.reads) - reads; n != 0 {
			t.Errorf("%d reads of the queue while nothing is due", n)
		}
		b.Reload()
		if st := b.Status(); st.Queue.Oldest > 600 || !st.Up {
			t.Errorf("%+v", st)
		}
		f.toldAre(t, "[]")
		b.say("s", "four")
		later(time.Minute)
		f.toldAre(t, "[[three]]")
		later(9*time.Minute - time.Second)
		f.toldAre(t, "[[three]]")
		later(time.Second)
		f.toldAre(t, "[[three] [one two four]]")
		if e := f.got().told[1]; len(e.Messages) != 6 || e.Messages[1].Text != "yes: one" || e.Kind != provider.Turn {
			t.Errorf("%+v", e)
		}
		later(time.Hour)
		f.toldAre(t, "[[three] [one two four] [] []]") // the ends
		if len(q.all()) != 0 {
			t.Errorf("%+v", q.all())
		}
	})
}

// The end of a conversation tells what waits; so does every hundredth turn.
func TestBatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := batching()
		b := open(t, f, newQueue(), settings())
		b.say("s", "one")
		b.say("s", "two")
		b.commit(b.EndEvents(owner("s", 2, "")))
		f.toldAre(t, "[[one two] []]")
		for i := range 250 {
			b.commit(b.TurnEvents(owner("long", i, ""), fmt.Sprint(i), fmt.Sprint(i), "", time.Now()))
			later(time.Minute)
		}
		var sizes []int
		for _, said := range f.saidIn()[2:] {
			sizes = append(sizes, len(said))
		}
		if !slices.Equal(sizes, []int{100, 100}) {
			t.Errorf("events of %d turns", sizes)
		}
		later(9 * time.Minute)
		if all := f.saidIn(); len(all) != 5 || len(all[4]) != 50 || all[4][0] != "200" {
			t.Errorf("%d events", len(all))
		}
	})
}

// Turns of one conversation are not told together if they are of several people, or too
// large.
func TestBatchLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := batching()
		b := open(t, f, newQueue(), settings())
		b.say("s", "one")
		other := owner("s", 1, "")
		other.UserID = "8"
		b.commit(b.TurnEvents(other, "k", "two", "", time.Now()))
		b.say("s", "three")
		later(time.Hour)
		f.toldAre(t, "[[one] [two] [three] []]")
		for i := range 8 {
			b.commit(b.TurnEvents(owner("s", i, ""), fmt.Sprint(i), strings.Repeat("x", 150_000), strings.Repeat("y", 150_000), time.Now()))
		}
		later(time.Hour)
		var sizes []int
		for _, e := range f.got().told[4:] {
			sizes = append(sizes, len(e.Messages)/12)
		}
		if !slices.Equal(sizes, []int{3, 3, 2, 0}) {
			t.Errorf("events of %d turns", sizes)
		}
	})
}

// Turns that are too large together are told in parts, once and in order.
func TestBatchIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := batching()
		var told []string
		keys := map[string]bool{}
		f.sync = func(_ context.Context, e provider.Event) (provider.Receipt, error) {
			if len(e.Messages) > 4 {
				return provider.Receipt{}, &provider.Error{Class: provider.TooLarge, Status: 413, Text: "too large"}
			}
			for _, m := range e.Messages {
				told = append(told, m.Text)
			}
			keys[e.Key] = true
			return provider.Receipt{}, nil
		}
		b := open(t, f, newQueue(), settings())
		var want []string
		for i := range 9 {
			b.say("s", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i), fmt.Sprint("yes: ", i))
		}
		later(time.Hour)
		if !slices.Equal(told, want) || len(keys) < 6 {
			t.Errorf("%d events: %q", len(keys), told)
		}
	})
}

// What waited for a provider that was down is told in few events, in order.
func TestBatchAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := batching(), newQueue()
		f.sync = func(context.Context, provider.Event) (r provider.Receipt, err error) {
			return r, &provider.Error{Class: provider.Down, Text: "connection refused"}
		}
		b := open(t, f, q, settings())
		for i := range 300 {
			b.say("s", fmt.Sprintf("%03d", i))
			later(2 * time.Minute)
		}
		later(time.Hour)
		if st := b.Status(); st.Up || st.Queue.Oldest < 3600 || len(b.told()) != 1 {
			t.Errorf("%+v, %q", st, b.told())
		}
		f.locked(func() { f.sync, f.told = nil, nil })
		later(time.Hour)
		all := f.saidIn()
		if said := slices.Concat(all...); len(said) != 300 || !slices.IsSorted(said) || len(all) > 5 {
			t.Errorf("%d turns in %d events", len(said), len(all))
		}
		if n := len(q.all()); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// A mortal is a store of a process that ends in a settlement, before or after its commit.
type mortal struct {
	*bolt.Store
	after bool
	mu    sync.Mutex
	left  int // settlements until then; below 0 it is over
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left < 0
}

var errDead = errors.New("the process has ended")

func (m *mortal) SettleEvent(ctx context.Context, s store.EventSettlement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	if m.left > 0 || m.left == 0 && m.after {
		if err := m.Store.SettleEvent(ctx, s); err != nil || m.left > 0 {
			return err
		}
	}
	m.left = -1
	return errDead
}

func (m *mortal) NextEvents(ctx context.Context, queue string, n int, except ...uint64) ([]store.QueuedEvent, time.Time, error) {
	if m.isDead() {
		return nil, time.Time{}, errDead
	}
	return m.Store.NextEvents(ctx, queue, n, except...)
}

// Wherever the process ends, each turn is a part of one conversation, and a conversation
// that is sent again is the same.
func TestBatchSurvivesKill(t *testing.T) {
	for left := range 6 { // it is merged, accepted, asked about four times
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(left+1, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { batchSurvivesKill(t, left+1, after) })
			})
		}
	}
}

func batchSurvivesKill(t *testing.T, left int, after bool) {
	sim := simsupermemory.New(simsupermemory.Options{})
	t.Cleanup(sim.Close)
	env := map[string]string{"SUPERMEMORY_API_KEY": simKey, "SUPERMEMORY_BASE_URL": sim.URL}
	s, dir := service{sim.Server, sim.Client(), env, supermemory.Open, nil}, t.TempDir()
	m := &mortal{left: left, after: after}
	d := startWith(t, s, dir, func(db *bolt.Store) memory.Store { m.Store = db; return m })
	for i := range 5 {
		d.say("s", i, fmt.Sprintf("I prefer fruit%02d.", i))
		later(time.Minute)
	}
	if n := sim.Count("POST", "/v4/conversations"); n != 0 {
		t.Errorf("%d conversations are sent before 10 minutes are over", n)
	}
	later(30 * time.Minute) // more than it takes
	if !m.isDead() {
		t.Error("there were fewer settlements")
	}
	d.stop()
	d = start(t, s, dir)
	for i := 5; i < 7; i++ {
		d.say("s", i, fmt.Sprintf("I prefer fruit%02d.", i))
	}
	later(2 * time.Hour)
	known := texts(sim.Memories("hermes"), func(m simsupermemory.Memory) string { return m.Text }, "fruit")
	for i := range 7 {
		if n := texts(sim.Memories("hermes"), func(m simsupermemory.Memory) string { return m.Text }, fmt.Sprintf("fruit%02d", i)); n != 1 || known != 7 {
			t.Errorf("%d copies of turn %d, %d of all", n, i, known)
		}
	}
	bodies := map[string]string{}
	for _, c := range sim.Calls() {
		var in struct {
			ID string `json:"conversationId"`
		}
		if c.Path != "/v4/conversations" {
			continue
		}
		if err := json.Unmarshal(c.Body, &in); err != nil || bodies[in.ID] != "" && bodies[in.ID] != string(c.Body) {
			t.Errorf("%v; sent first:\n%s\nand then:\n%s", err, bodies[in.ID], c.Body)
		}
		bodies[in.ID] = string(c.Body)
	}
	if st := d.Status(); len(bodies) > 2 || st.Queue.Waiting+st.Queue.Aside != 0 {
		t.Errorf("%d conversations, %+v", len(bodies), st)
	}
}

// With auto_extract Holographic stores what was stated when the conversation ends, also if
// the process has ended before.
func TestExtractionAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := service{open: func(from provider.Source) (provider.Provider, []string, error) {
			from.Section = json.RawMessage(`{"auto_extract":true}`)
			return holographic.Open(from)
		}}, t.TempDir()
		d := start(t, s, dir)
		found := func(when string, want ...string) {
			t.Helper()
			block, _ := d.begin(owner(session.ID("ask"+when), 1, "What do I prefer, papaya or espresso or mango?"))
			for _, word := range []string{"papaya", "espresso", "mango"} {
				if strings.Contains(block, word) != slices.Contains(want, word) {
					t.Errorf("%s: %q in the block:\n%s", when, word, block)
				}
			}
		}
		d.say("one", 0, "I prefer papaya over melon.")
		later(20 * time.Minute)
		d.say("one", 1, "I prefer espresso after lunch.")
		d.say("two", 0, "I prefer mango for breakfast.")
		later(20 * time.Minute)
		found("before")
		d.stop()
		d = start(t, s, dir)
		d.end("two", 1)
		later(0)
		found("at the end", "mango")
		later(10 * time.Minute)
		found("after 30 minutes", "papaya", "espresso", "mango")
		if st := d.Status(); st.Queue.Waiting+st.Queue.Aside != 0 || !st.Up {
			t.Errorf("%+v", st)
		}
	})
}
