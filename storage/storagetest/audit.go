package storagetest

import (
	"fmt"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
)

func auditTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"stats count unfinished records": func(w *harness) {
			w.acceptTexts("a", "b", "c")
			w.claim(1, "a")
			w.enqueue(newRow(testDM, "1"), newRow(testThread, "2"))
			w.next(testThread, "2")
			r, _, err := w.Outbox(w.Context(), outbox.Query{})
			w.ok(err)
			w.settle(outbox.Settlement{ID: r[1].ID, State: outbox.Dead})
			s := w.Stats()
			equal(w, "figures", []int{s.Waiting, s.Claimed, s.Outbox, s.Dead, int(s.Accepted)}, []int{2, 1, 1, 1, 3})
			w.crash()
			s = w.Stats()
			equal(w, "figures", []int{s.Waiting, s.Claimed, s.Outbox, s.Dead, int(s.Accepted)}, []int{3, 0, 1, 1, 0})
			if s.Epoch != 2 || s.Bytes == 0 || s.Error != "" {
				w.Fatalf("got %+v", s)
			}
		},
		"a dead row does not block its queue and can be retried": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.Dead, Reason: "blocked"})
			w.settle(sentSettlement(w.next(testDM, "2").ID))
			unsent, _, err := w.Outbox(w.Context(), outbox.Query{})
			w.ok(err)
			equal(w, "unsent", ids(unsent), []outbox.ID{rows[0].ID})
			equal(w, "dead", w.Stats().Dead, 1)
			all, _, err := w.Outbox(w.Context(), outbox.Query{Sent: true})
			w.ok(err)
			equal(w, "all", len(all), 2)
			for q, want := range map[outbox.Query][]outbox.ID{
				{Max: 5}: {rows[0].ID}, {Sent: true, Max: 1}: {rows[1].ID},
				{ID: rows[0].ID}: {rows[0].ID}, {ID: rows[1].ID}: nil, {ID: rows[1].ID, Sent: true}: {rows[1].ID}, {ID: 99, Sent: true}: nil,
			} {
				got, older, err := w.Outbox(w.Context(), q)
				w.ok(err)
				equal(w, fmt.Sprintf("rows of %+v", q), ids(got), want)
				equal(w, fmt.Sprintf("older rows of %+v", q), older > 0, q == outbox.Query{Sent: true, Max: 1})
			}
			w.crash()
			equal(w, "dead", w.Stats().Dead, 1)
			w.ok(w.RetryRow(w.Context(), rows[0].ID))
			equal(w, "dead", w.Stats().Dead, 0)
			w.settle(sentSettlement(w.next(testDM, "1").ID))
			if err := w.RetryRow(w.Context(), rows[0].ID); err == nil {
				w.Fatal("a sent row was retried")
			}
		},
		"a dropped row stays dead, unless it arrived": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			w.ok(w.DropRow(w.Context(), rows[0].ID, "not needed"))
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.NotSent, NextAttempt: time.Now()})
			r := w.row(rows[0].ID)
			equal(w, "state", r.State, outbox.Dead)
			equal(w, "reason", r.Reason, "not needed")
			w.next(testDM, "2")
			w.settle(sentSettlement(rows[0].ID))
			equal(w, "state", w.row(rows[0].ID).State, outbox.Sent)
			equal(w, "dead", w.Stats().Dead, 0)
			if err := w.DropRow(w.Context(), rows[0].ID, "x"); err == nil {
				w.Fatal("a sent row was dropped")
			}
		},
		"a row with an attempt in progress is not sent twice after drop and retry": func(w *harness) {
			r := w.enqueue(newRow(testDM, "1"))[0]
			w.next(testDM, "1")
			w.ok(w.DropRow(w.Context(), r.ID, "not needed"))
			w.ok(w.RetryRow(w.Context(), r.ID))
			w.checkNothingDue(testDM)
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.NotSent, NextAttempt: time.Now()})
			equal(w, "attempts", w.next(testDM, "1").Attempts, 2)
		},
		"an unknown row is an error": func(w *harness) {
			if _, err := w.Row(w.Context(), 99); err == nil {
				w.Fatal("got a row")
			}
			if err := w.RetryRow(w.Context(), 99); err == nil {
				w.Fatal("it was retried")
			}
			if err := w.DropRow(w.Context(), 99, ""); err == nil {
				w.Fatal("it was dropped")
			}
		},
		"an idempotency key leads to a message of its account only": func(w *harness) {
			other, e := w.entry("other"), w.entry("hello")
			e.Inbound.Address.Account = "work"
			accepted := w.accept(other, e)
			from, k := e.Inbound.Address.AccountID(), e.Inbound.IdempotencyKey
			h, ok, err := w.MessageByKey(w.Context(), from, k)
			w.ok(err)
			if !ok || h.Entry.ID != accepted[1].ID || h.Entry.Inbound.Text != "hello" || h.Entry.Outcome != nil {
				w.Fatalf("got %+v (%t)", h.Entry, ok)
			}
			for _, by := range []struct {
				from chat.Account
				key  string
			}{{from, other.Inbound.IdempotencyKey}, {from, ""}, {chat.Account{Platform: from.Platform}, k}, {chat.Account{Platform: chat.HTTP, Name: "work"}, k}} {
				if _, ok, err := w.MessageByKey(w.Context(), by.from, by.key); ok || err != nil {
					w.Fatalf("%+v: %t, %v", by, ok, err)
				}
			}
		},
		"each ID of an answer leads to its history": func(w *harness) {
			e := w.acceptTexts("why?")[0]
			c := w.claim(0, "why?")
			m := replied()
			m.Rows = []outbox.Row{newRow(testDM, "because")}
			r := w.finish(c, m)[0]
			w.settle(sentSettlement(w.next(testDM, "because").ID))
			for _, id := range []string{"r" + r.ID.String(), r.ID.String(), c.Turn, e.Inbound.IdempotencyKey, e.Inbound.ID, e.ID.String()} {
				histories, err := w.MessageHistory(w.Context(), id)
				w.ok(err)
				if len(histories) != 1 || histories[0].Entry.ID != e.ID || len(histories[0].Rows) != 1 || histories[0].Rows[0].ID != r.ID {
					w.Fatalf("why %s: %+v", id, histories)
				}
			}
			for _, id := range []string{"m99", "o99", "nothing", ""} {
				histories, err := w.MessageHistory(w.Context(), id)
				w.ok(err)
				equal(w, "why "+id, len(histories), 0)
			}
			alone := w.enqueue(newRow(testDM, "notice"))[0]
			histories, err := w.MessageHistory(w.Context(), alone.ID.String())
			w.ok(err)
			if len(histories) != 1 || histories[0].Entry.ID != 0 || histories[0].Rows[0].ID != alone.ID {
				w.Fatalf("why %s: %+v", alone.ID, histories)
			}
		},
	}
}
