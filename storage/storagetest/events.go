package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// newEvent returns an event of queue "q" whose document names its key.
func newEvent(group, key string) store.Event {
	return store.Event{Queue: "q", Key: key, Group: group, Doc: []byte(`{"text": "<` + key + `>"}`)}
}

// tell adds events with the end of a turn.
func (w *harness) tell(events ...store.Event) {
	w.Helper()
	w.acceptTexts("tell")
	m := replied()
	m.Events = events
	w.finish(w.claim(0, "tell"), m)
}

func eventKeys(events []store.QueuedEvent) []string {
	var keys []string
	for _, e := range events {
		keys = append(keys, e.Key)
	}
	return keys
}

// nextEvents returns the events that may be told, and checks their keys.
func (w *harness) nextEvents(most int, want ...string) []store.QueuedEvent {
	w.Helper()
	due, _, err := w.NextEvents(w.Context(), "q", most)
	w.ok(err)
	equal(w, "events that may be told", eventKeys(due), want)
	return due
}

// queuedEvents returns the events of a queue, and checks their keys.
func (w *harness) queuedEvents(queue string, want ...string) []store.QueuedEvent {
	w.Helper()
	list, err := w.QueuedEvents(w.Context(), queue)
	w.ok(err)
	equal(w, "events of queue "+queue, eventKeys(list), want)
	return list
}

func (w *harness) settleEvent(s store.EventSettlement) {
	w.Helper()
	s.Queue = "q"
	w.ok(w.SettleEvent(w.Context(), s))
}

// checkCounts compares the counts of a queue with its events, before and after a crash.
func (w *harness) checkCounts(queue string) {
	w.Helper()
	for range 2 {
		list, err := w.QueuedEvents(w.Context(), queue)
		w.ok(err)
		equal(w, "counts of "+queue, w.EventCounts(queue), countsOf(list))
		w.checkLast(queue, list)
		w.crash()
	}
}

// checkLast compares the newest event of a queue with its events.
func (w *harness) checkLast(queue string, list []store.QueuedEvent) {
	w.Helper()
	var want uint64
	for _, e := range list {
		want = max(want, e.ID)
	}
	last, err := w.LastEvent(w.Context(), queue)
	w.ok(err)
	equal(w, "newest event of "+queue, last, want)
}

// countsOf returns the counts of a queue with these events.
func countsOf(list []store.QueuedEvent) (n store.EventCounts) {
	for _, e := range list {
		n.Bytes += int64(len(e.Doc))
		if e.Aside != "" {
			n.Aside++
			continue
		}
		if n.Waiting++; n.Waiting == 1 {
			n.Oldest = e.Added
		}
	}
	return n
}

func eventTests() map[string]func(*harness) {
	tests := map[string]func(*harness){
		"events of a group are told in order": func(w *harness) {
			w.nextEvents(9)
			w.queuedEvents("q")
			equal(w, "counts", w.EventCounts("q"), store.EventCounts{})
			n, err := w.DropEvents(w.Context(), "q")
			w.ok(err)
			equal(w, "dropped", n, 0)
			w.settleEvent(store.EventSettlement{ID: 1, Done: true})
			before := time.Now()
			w.tell(newEvent("a", "a1"), newEvent("a", "a2"), newEvent("b", "b1"))
			w.tell(newEvent("b", "b2"), newEvent("", "c1"), store.Event{Queue: "other", Key: "a1", Group: "a"})
			list := w.queuedEvents("q", "a1", "a2", "b1", "b2", "c1")
			for i, e := range list {
				if e.Added.Before(before) || e.Added.After(time.Now()) || i > 0 && e.ID <= list[i-1].ID || e.Tries != 0 || e.Aside != "" {
					w.Errorf("event %d is %+v", i, e)
				}
			}
			equal(w, "document, byte for byte", string(list[0].Doc), `{"text": "<a1>"}`)
			for _, queue := range []string{"q", "other", "p", "unknown"} {
				w.checkCounts(queue)
			}
			due := w.nextEvents(9, "a1", "b1", "c1")
			equal(w, "event", due[0], list[0])
			w.nextEvents(2, "a1", "b1")
			w.nextEvents(0, "a1")
			others, next, err := w.NextEvents(w.Context(), "q", 2, due[0].ID, list[1].ID)
			w.ok(err)
			equal(w, "without the first event of a group", eventKeys(others), []string{"b1", "c1"})
			equal(w, "next time", next, time.Time{})
			w.settleEvent(store.EventSettlement{ID: due[0].ID, Done: true})
			w.settleEvent(store.EventSettlement{ID: due[0].ID, Done: true})
			w.nextEvents(1, "a2")
			w.checkCounts("q")
			w.nextEvents(9, "a2", "b1", "c1")
			equal(w, "document", len(w.queuedEvents("other", "a1")[0].Doc), 0)
		},
		"an event reschedules the first of its group": func(w *harness) {
			after := func(e store.Event, d time.Duration) store.Event {
				e.Due, e.Reschedules = time.Now().Add(d), true
				return e
			}
			next := func() time.Time {
				w.Helper()
				due, next, err := w.NextEvents(w.Context(), "q", 9)
				w.ok(err)
				equal(w, "due", len(due), 0)
				return next
			}
			first, second := after(newEvent("a", "a1"), time.Hour), after(newEvent("a", "a2"), 2*time.Hour)
			w.tell(first, newEvent("b", "b1"))
			w.settleEvent(store.EventSettlement{ID: w.nextEvents(9, "b1")[0].ID, Due: first.Due.Add(time.Minute)})
			equal(w, "next time", next(), first.Due)
			before := time.Now()
			w.tell(second, after(newEvent("b", "b2"), 2*time.Hour))
			equal(w, "next time, of what was told before", next(), first.Due.Add(time.Minute))
			list := w.queuedEvents("q", "a1", "b1", "a2", "b2")
			equal(w, "due time", list[0].Due, second.Due)
			equal(w, "tries", list[0].Tries, 0)
			equal(w, "document", string(list[0].Doc), string(first.Doc))
			if list[0].Added.Before(before) || list[2].Added.Before(list[0].Added) {
				w.Errorf("added at %v and %v", list[0].Added, list[2].Added)
			}
			w.checkCounts("q")
			end := newEvent("a", "a3")
			end.Reschedules = true
			w.tell(end)
			w.nextEvents(9, "a1")
			w.tell(after(newEvent("a", "a4"), time.Hour))
			w.nextEvents(9, "a1")
			w.checkCounts("q")
		},
		"an event is told when it is due, those that are due longest first": func(w *harness) {
			at := func(e store.Event, d time.Duration) store.Event { e.Due = time.Now().Add(d); return e }
			late := at(newEvent("a", "a1"), time.Hour)
			w.tell(late, newEvent("a", "a2"), at(newEvent("b", "b1"), -time.Minute), at(newEvent("c", "c1"), -time.Hour), at(newEvent("d", "d1"), 1<<63-1))
			w.nextEvents(9, "c1", "b1")
			_, next, err := w.NextEvents(w.Context(), "q", 2)
			w.ok(err)
			equal(w, "next time", next, late.Due)
			_, next, err = w.NextEvents(w.Context(), "q", 1)
			w.ok(err)
			if !next.Before(time.Now()) {
				w.Errorf("the next is due %v, but one more is due now", next)
			}
			n, err := w.DropEvents(w.Context(), "q")
			w.ok(err)
			equal(w, "dropped", n, 5)
			due, next, err := w.NextEvents(w.Context(), "q", 2)
			w.ok(err)
			equal(w, "due", len(due), 0)
			equal(w, "next time", next, time.Time{})
			w.checkCounts("q")
		},
		"an event replaces that with its key and is the newest": func(w *harness) {
			w.tell(newEvent("a", "1"), newEvent("a", "2"), newEvent("a", "3"))
			first := w.nextEvents(9, "1")[0]
			w.settleEvent(store.EventSettlement{ID: first.ID, Aside: "refused"})
			second := w.nextEvents(9, "2")[0]
			again := newEvent("a", "1")
			again.Doc = []byte(`"new"`)
			w.tell(again, newEvent("b", "2"), newEvent("b", "2"))
			list := w.queuedEvents("q", "3", "1", "2")
			equal(w, "tries", list[1].Tries, 0)
			equal(w, "document", string(list[1].Doc), `"new"`)
			w.settleEvent(store.EventSettlement{ID: second.ID, Key: "k", Value: []byte("v")})
			v, err := w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value of an event that was replaced", v, nil)
			w.nextEvents(9, "3", "2")
			w.checkCounts("q")
		},
		"events are added in a write of their own": func(w *harness) {
			before := w.Stats().Writes
			w.ok(w.EnqueueEvents(w.Context(), []store.Event{newEvent("a", "1"), newEvent("a", "2"), newEvent("b", "1")}, "", nil))
			equal(w, "writes", w.Stats().Writes-before, 1)
			w.ok(w.EnqueueEvents(w.Context(), nil, "key", []byte("1")))
			if v, err := w.Value(w.Context(), "key"); err != nil || string(v) != "1" {
				w.Errorf("the value is %q, %v", v, err)
			}
			w.ok(w.EnqueueEvents(w.Context(), []store.Event{newEvent("a", "3")}, "key", nil))
			if v, err := w.Value(w.Context(), "key"); err != nil || v != nil {
				w.Errorf("the value is %q, %v", v, err)
			}
			w.queuedEvents("q", "2", "1", "3")
			w.nextEvents(9, "2", "1")
			w.checkCounts("q")
		},
		"names may be long": func(w *harness) {
			long := strings.Repeat("x", 40_000)
			e, other := newEvent(long+"1", long+"1"), newEvent(long+"2", long+"2")
			e.Queue, other.Queue = long, long
			w.tell(e, other, other)
			list := w.queuedEvents(long, e.Key, other.Key)
			equal(w, "group", list[0].Group, e.Group)
			w.checkCounts(long)
		},
	}
	for name, test := range settlementTests() {
		tests[name] = test
	}
	for name, test := range eventWriteTests() {
		tests[name] = test
	}
	return tests
}

func settlementTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"a settlement defers an event, and its group waits": func(w *harness) {
			w.tell(newEvent("a", "a1"), newEvent("a", "a2"))
			e := w.nextEvents(9, "a1")[0]
			due := time.Now().Add(time.Hour)
			w.settleEvent(store.EventSettlement{ID: e.ID, Due: due})
			w.nextEvents(9)
			w.crash()
			_, next, err := w.NextEvents(w.Context(), "q", 9)
			w.ok(err)
			equal(w, "next time", next, due)
			got := w.queuedEvents("q", "a1", "a2")[0]
			want := e
			want.Due, want.Tries = due, 1
			equal(w, "event", got, want)
			w.settleEvent(store.EventSettlement{ID: e.ID, Doc: []byte(`"changed"`), Key: "k", Value: []byte("v")})
			got = w.nextEvents(9, "a1")[0]
			equal(w, "tries", got.Tries, 2)
			equal(w, "document", string(got.Doc), `"changed"`)
			v, err := w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", string(v), "v")
			w.checkCounts("q")
			before := w.Stats().Writes
			w.settleEvent(store.EventSettlement{ID: e.ID, Done: true, Key: "k"})
			equal(w, "writes", w.Stats().Writes-before, 1)
			v, err = w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", v, nil)
			w.nextEvents(9, "a2")
		},
		"events are merged into one": func(w *harness) {
			w.tell(newEvent("a", "a1"), newEvent("a", "a2"), newEvent("b", "b1"), newEvent("a", "a3"), newEvent("a", "a4"))
			list := w.queuedEvents("q", "a1", "a2", "b1", "a3", "a4")
			w.settleEvent(store.EventSettlement{ID: list[4].ID, Aside: "refused"})
			group, err := w.QueuedEvents(w.Context(), "q", "a", "b", "none")
			w.ok(err)
			equal(w, "events of groups", eventKeys(group), []string{"a1", "a2", "a3", "b1"})
			equal(w, "event", group[0], list[0])
			before := w.Stats().Writes
			w.settleEvent(store.EventSettlement{ID: list[0].ID, Doc: []byte(`"all"`), Merged: []uint64{list[1].ID, list[3].ID, 77}})
			equal(w, "writes", w.Stats().Writes-before, 1)
			w.crash()
			equal(w, "document", string(w.nextEvents(9, "b1", "a1")[1].Doc), `"all"`)
			w.queuedEvents("q", "a1", "b1", "a4")
			w.checkCounts("q")
			w.settleEvent(store.EventSettlement{ID: list[1].ID, Merged: []uint64{list[0].ID}})
			w.queuedEvents("q", "a1", "b1", "a4")
		},
		"an event that was accepted holds up only others like it": func(w *harness) {
			w.tell(newEvent("a", "a1"), newEvent("a", "a2"), newEvent("a", "a3"), newEvent("b", "b1"))
			due := time.Now().Add(time.Hour)
			first := w.nextEvents(9, "a1", "b1")[0]
			w.settleEvent(store.EventSettlement{ID: first.ID, Accepted: true, Due: due})
			second := w.nextEvents(9, "a2", "b1")[0]
			w.settleEvent(store.EventSettlement{ID: second.ID, Accepted: true})
			w.nextEvents(9, "a3", "b1")
			w.checkCounts("q")
			w.crash()
			n, err := w.RetryEvents(w.Context(), "q", first.ID)
			w.ok(err)
			equal(w, "retried", n, 1)
			w.settleEvent(store.EventSettlement{ID: first.ID, Accepted: true, Due: due})
			w.nextEvents(9, "a3", "b1")
			w.settleEvent(store.EventSettlement{ID: first.ID, Done: true})
			w.nextEvents(9, "a3", "b1", "a2")
			w.queuedEvents("q", "a2", "a3", "b1")
		},
		"an event that is set aside is told after a retry": func(w *harness) {
			w.tell(newEvent("a", "a1"), newEvent("a", "a2"), newEvent("a", "a3"))
			e := w.nextEvents(9, "a1")[0]
			w.settleEvent(store.EventSettlement{ID: e.ID, Aside: "refused"})
			second := w.nextEvents(9, "a2")[0]
			w.settleEvent(store.EventSettlement{ID: second.ID, Due: time.Now().Add(time.Hour)})
			equal(w, "reason", w.queuedEvents("q", "a1", "a2", "a3")[0].Aside, "refused")
			w.checkCounts("q")
			w.nextEvents(9)
			n, err := w.RetryEvents(w.Context(), "q", e.ID, 77)
			w.ok(err)
			equal(w, "retried", n, 1)
			w.settleEvent(store.EventSettlement{ID: w.nextEvents(9, "a1")[0].ID, Aside: "refused again"})
			w.nextEvents(9)
			n, err = w.RetryEvents(w.Context(), "q")
			w.ok(err)
			equal(w, "retried", n, 3)
			equal(w, "tries", w.nextEvents(9, "a1")[0].Tries, 2)
			n, err = w.DropEvents(w.Context(), "q", e.ID, e.ID)
			w.ok(err)
			equal(w, "dropped", n, 1)
			w.nextEvents(9, "a2")
			w.checkCounts("q")
		},
		"many events are told": func(w *harness) {
			var events []store.Event
			for i := range 300 {
				events = append(events, newEvent(fmt.Sprint(i%7), fmt.Sprint(i)))
			}
			w.tell(events...)
			w.crash()
			told := make(map[string][]string)
			for n := 300; n > 0; {
				due, _, err := w.NextEvents(w.Context(), "q", 2)
				w.ok(err)
				for _, e := range due {
					told[e.Group] = append(told[e.Group], e.Key)
					w.settleEvent(store.EventSettlement{ID: e.ID, Done: true})
					n--
				}
				equal(w, "waiting", w.EventCounts("q").Waiting, n)
			}
			for i := range 300 {
				equal(w, "told", told[fmt.Sprint(i%7)][i/7], fmt.Sprint(i))
			}
			equal(w, "counts", w.EventCounts("q"), store.EventCounts{})
		},
	}
}

func eventWriteTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"a turn and a command add their events": func(w *harness) {
			w.acceptTexts("1")
			c := w.claim(0, "1")
			before := w.Stats().Commits
			m := sessionCommit("s", 0, `"m"`)
			m.Create, m.Events = newSession("s"), []store.Event{newEvent("s", "turn")}
			bad := m
			bad.Session.Messages++
			if _, err := w.CommitTurn(w.Context(), c, bad); !errors.Is(err, store.ErrConflict) {
				w.Errorf("got %v, want %v", err, store.ErrConflict)
			}
			w.queuedEvents("q")
			w.commit(c, m)
			equal(w, "commits", w.Stats().Commits-before, 1)
			w.queuedEvents("q", "turn")
			late := replied()
			late.Events = []store.Event{newEvent("s", "late")}
			_, err1 := w.FinishTurn(w.Context(), c, late)
			_, err2 := w.CommitTurn(w.Context(), c, store.Turn{End: late.End})
			for _, err := range []error{err1, err2} {
				if !errors.Is(err, store.ErrStale) {
					w.Errorf("got %v, want %v", err, store.ErrStale)
				}
			}
			w.acceptTexts("2")
			c = w.claim(0, "2")
			bare := store.Finish{End: late.End}
			bare.Outcome = inbox.Outcome{}
			if _, err := w.FinishTurn(w.Context(), c, bare); !errors.Is(err, store.ErrConflict) {
				w.Errorf("got %v, want %v", err, store.ErrConflict)
			}
			w.queuedEvents("q", "turn")
			w.finish(c, late)
			w.queuedEvents("q", "turn", "late")
			w.checkCounts("q")
		},
		"a deletion drops the events of its session and adds its own": func(w *harness) {
			for _, id := range []session.ID{"s", "s2"} {
				w.acceptTexts("x")
				m := sessionCommit(id, 0, `"m"`)
				m.Create, m.Events = newSession(id), []store.Event{newEvent(string(id), string(id)+"1"), newEvent(string(id), string(id)+"2")}
				other := newEvent(string(id), "o")
				other.Queue = "other " + string(id)
				m.Events = append(m.Events, other)
				w.commit(w.claim(0, "x"), m)
			}
			w.settleEvent(store.EventSettlement{ID: w.nextEvents(9, "s1", "s21")[0].ID, Aside: "refused"})
			forget := []store.Event{newEvent("s", "forget")}
			if _, err := w.DeleteSession(w.Context(), store.Deletion{ID: "none", Events: forget}); !errors.Is(err, session.ErrNotFound) {
				w.Errorf("got %v, want %v", err, session.ErrNotFound)
			}
			w.acceptTexts("busy")
			c := w.claim(0, "busy")
			if _, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s", Events: forget}); !errors.Is(err, session.ErrBusy) {
				w.Errorf("got %v, want %v", err, session.ErrBusy)
			}
			w.finish(c, replied())
			w.queuedEvents("q", "s1", "s2", "s21", "s22")
			_, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s", Events: forget})
			w.ok(err)
			w.queuedEvents("q", "s21", "s22", "forget")
			w.queuedEvents("other s")
			w.queuedEvents("other s2", "o")
			w.checkCounts("q")
			w.checkCounts("other s")
		},
		"a compact file has the events": func(w *harness) {
			w.tell(newEvent("a", "1"), newEvent("a", "2"), newEvent("b", "3"))
			e := w.nextEvents(9, "1", "3")[0]
			w.settleEvent(store.EventSettlement{ID: e.ID, Done: true})
			w.ok(w.Compact(w.Context()))
			w.ok(w.Prune(w.Context(), time.Now().Add(1000*time.Hour)))
			w.nextEvents(9, "2", "3")
			w.checkCounts("q")
			w.tell(newEvent("a", "4"))
			if last := w.queuedEvents("q", "2", "3", "4")[2]; last.ID <= e.ID {
				w.Errorf("ID %d was used before", last.ID)
			}
		},
	}
}
