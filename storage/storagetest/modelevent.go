package storagetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"hermesd/gateway/store"
)

// A modelEvent is the expected state of an event.
type modelEvent struct {
	key, group, doc string
	id              uint64
	tries           int
	aside           string
	deferred        bool // not due in this test
}

// drawEvents draws events of queue "q". Some have keys that were used before.
func (m *model) drawEvents(t *rapid.T) []store.Event {
	var events []store.Event
	for range max(0, rapid.IntRange(-2, 2).Draw(t, "events")) {
		m.eventDocs++
		e := newEvent(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "group"), fmt.Sprint("e", rapid.IntRange(1, 12).Draw(t, "key")))
		e.Doc = fmt.Appendf(nil, `"document %d"`, m.eventDocs)
		if rapid.IntRange(0, 4).Draw(t, "deferred") == 0 {
			e.Due = time.Now().Add(time.Hour)
		}
		e.Reschedules = rapid.IntRange(0, 3).Draw(t, "reschedules") == 0
		events = append(events, e)
	}
	return events
}

// addEvents adds events to the model.
func (m *model) addEvents(events []store.Event) {
	for _, e := range events {
		m.removeEvents(func(old *modelEvent) bool { return old.key == e.Key })
		first := slices.IndexFunc(m.events, func(x *modelEvent) bool { return x.aside == "" && x.group == e.Group })
		if e.Reschedules && first >= 0 && m.events[first].tries == 0 {
			m.events[first].deferred = m.events[first].deferred && !e.Due.IsZero()
		}
		m.events = append(m.events, &modelEvent{key: e.Key, group: e.Group, doc: string(e.Doc), deferred: !e.Due.IsZero()})
	}
}

func (m *model) removeEvents(which func(*modelEvent) bool) {
	m.events = slices.DeleteFunc(m.events, which)
}

// firstEvents returns the events that may be told.
func (m *model) firstEvents() (due []*modelEvent) {
	seen := make(map[string]bool)
	for _, e := range m.events {
		if e.aside != "" || seen[e.group] {
			continue
		}
		seen[e.group] = true
		if !e.deferred {
			due = append(due, e)
		}
	}
	return due
}

func (m *model) settleEvent(t *rapid.T) {
	e := pick(t, m.events, "event")
	s := store.EventSettlement{Queue: "q", ID: e.id, Key: "settled", Value: []byte(e.key)}
	if other := pick(t, m.events, "merged"); other != e && rapid.Bool().Draw(t, "merges") {
		s.Merged = []uint64{other.id, 1 << 60}
		m.removeEvents(func(x *modelEvent) bool { return x == other })
	}
	switch rapid.IntRange(0, 4).Draw(t, "settlement") {
	case 0:
		s.Aside = "refused"
	case 1:
		s.Due = time.Now().Add(time.Hour)
	case 2:
		s.Accepted = true
		e.group = store.AcceptedGroup(e.group)
	case 3:
		s.Doc = []byte(`"changed"`)
		e.doc = `"changed"`
	default:
		s.Done = true
		m.removeEvents(func(x *modelEvent) bool { return x == e })
	}
	e.tries++
	e.aside, e.deferred = s.Aside, !s.Due.IsZero()
	m.ok(m.s.SettleEvent(context.Background(), s))
	v, err := m.s.Value(context.Background(), "settled")
	m.ok(err)
	m.checkEqual("value", string(v), e.key)
}

// changeEvents retries or drops some events, or all.
func (m *model) changeEvents(t *rapid.T) {
	chosen, ids := slices.Clone(m.events), []uint64(nil)
	if rapid.IntRange(0, 3).Draw(t, "all") > 0 {
		e := pick(t, m.events, "event")
		chosen, ids = []*modelEvent{e}, []uint64{e.id, 1 << 60}
	}
	change := m.s.RetryEvents
	if rapid.Bool().Draw(t, "drop") {
		change = m.s.DropEvents
		m.removeEvents(func(e *modelEvent) bool { return slices.Contains(chosen, e) })
	}
	for _, e := range chosen {
		e.aside, e.deferred = "", false
	}
	n, err := change(context.Background(), "q", ids...)
	m.ok(err)
	m.checkEqual("number of events", n, len(chosen))
}

type briefEvent struct {
	Key, Group, Doc string
	Tries           int
	Aside           string
}

// checkEvents compares the queue with the model, and notes the IDs of new events.
func (m *model) checkEvents() {
	ctx := context.Background()
	list, err := m.s.QueuedEvents(ctx, "q")
	m.ok(err)
	var got, want []briefEvent
	for i, e := range list {
		got = append(got, briefEvent{e.Key, e.Group, string(e.Doc), e.Tries, e.Aside})
		if i < len(m.events) {
			if m.events[i].id != 0 {
				m.checkEqual("ID of "+e.Key, e.ID, m.events[i].id)
			}
			m.events[i].id = e.ID
		}
	}
	for _, e := range m.events {
		want = append(want, briefEvent{e.key, e.group, e.doc, e.tries, e.aside})
	}
	m.checkEqual("events", got, want)
	m.checkEqual("counts", m.s.EventCounts("q"), countsOf(list))
	due, _, err := m.s.NextEvents(ctx, "q", 9)
	m.ok(err)
	if !slices.IsSortedFunc(due, func(a, b store.QueuedEvent) int { return a.Due.Compare(b.Due) }) {
		m.Errorf("not in the order of their due times: %+v", due)
	}
	var wantKeys []string
	for _, e := range m.firstEvents() {
		wantKeys = append(wantKeys, e.key)
	}
	gotKeys := eventKeys(due)
	slices.Sort(gotKeys)
	slices.Sort(wantKeys)
	m.checkEqual("events that may be told", gotKeys, wantKeys)
}

// drainEvents tells all events in their order.
func (m *model) drainEvents() {
	ctx := context.Background()
	_, err := m.s.RetryEvents(ctx, "q")
	m.ok(err)
	for _, e := range m.events {
		e.aside, e.deferred = "", false
	}
	for m.checkEvents(); len(m.events) > 0; m.checkEvents() {
		first := m.firstEvents()[0]
		m.ok(m.s.SettleEvent(ctx, store.EventSettlement{Queue: "q", ID: first.id, Done: true}))
		m.removeEvents(func(e *modelEvent) bool { return e == first })
	}
	m.checkEqual("counts", m.s.EventCounts("q"), store.EventCounts{})
}
