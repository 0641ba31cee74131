package storagetest

import (
	"sync"
	"sync/atomic"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

func outboxTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"rows are sent in order, one at a time": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"), newRow(testThread, "x"))
			equal(w, "states", states(rows), []outbox.State{outbox.Attempting, outbox.Queued, outbox.Attempting})
			first := w.next(testDM, "1")
			w.checkNothingDue(testDM)
			w.next(testThread, "x")
			w.settle(sentSettlement(first.ID))
			second := w.next(testDM, "2")
			equal(w, "attempts", second.Attempts, 1)
			w.settle(sentSettlement(second.ID))
			w.checkNothingDue(testDM)
			r := w.row(first.ID)
			if r.State != outbox.Sent || r.Receipt == nil || r.Receipt.ID != "r"+r.ID.String() || r.Settled.IsZero() {
				w.Fatalf("got %+v", r)
			}
			queues, err := w.Queues(w.Context())
			w.ok(err)
			equal(w, "queues", queues, []chat.Address{testThread})
		},
		"an attempt registered with its row needs no commit": func(w *harness) {
			w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			before := w.Stats().Commits
			r := w.next(testDM, "1")
			equal(w, "commits of next", w.Stats().Commits-before, 0)
			w.settle(sentSettlement(r.ID))
			w.next(testDM, "2")
			equal(w, "commits of settle and next", w.Stats().Commits-before, 1)
		},
		"each attempt is returned to one caller": func(w *harness) {
			for range 20 {
				w.enqueue(newRow(testDM, "1"))
			}
			for range 20 {
				var wg sync.WaitGroup
				var got atomic.Uint64
				for range 8 {
					wg.Go(func() {
						r, _, ok, err := w.Next(w.Context(), testDM)
						if err != nil {
							w.Error(err)
						}
						if ok && !got.CompareAndSwap(0, uint64(r.ID)) {
							w.Errorf("%s and o%d at once", r.ID, got.Load())
						}
					})
				}
				wg.Wait()
				w.settle(sentSettlement(outbox.ID(got.Load())))
			}
			w.checkNothingDue(testDM)
		},
		"a row that failed waits until it is due, and later rows wait for it": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.NotSent, NextAttempt: time.Now().Add(time.Hour), Reason: "429"})
			if wait := w.checkNothingDue(testDM); wait < 59*time.Minute || wait > time.Hour {
				w.Fatalf("waits %s, want an hour", wait)
			}
			w.crash()
			if wait := w.checkNothingDue(testDM); wait < 59*time.Minute {
				w.Fatalf("waits %s after a crash", wait)
			}
			w.ok(w.RetryRow(w.Context(), rows[0].ID))
			r := w.next(testDM, "1")
			equal(w, "attempts", r.Attempts, 2)
			equal(w, "repeat", r.MayBeRepeat, false)
		},
		"a row that failed and is due is attempted again immediately": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"))
			w.next(testDM, "1")
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.NotSent, NextAttempt: time.Now(), MayBeRepeat: true})
			r := w.next(testDM, "1")
			equal(w, "attempts", r.Attempts, 2)
			equal(w, "repeat", r.MayBeRepeat, true)
		},
		"only rows with an attempt in progress are uncertain after a crash": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			w.crash()
			equal(w, "states", []outbox.State{w.row(rows[0].ID).State, w.row(rows[1].ID).State}, []outbox.State{outbox.Uncertain, outbox.Queued})
			r := w.next(testDM, "1")
			equal(w, "state", r.State, outbox.Uncertain)
			equal(w, "attempts", r.Attempts, 1)
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.NotSent, NextAttempt: time.Now(), MayBeRepeat: true})
			r = w.next(testDM, "1")
			equal(w, "state", r.State, outbox.Attempting)
			equal(w, "attempts", r.Attempts, 2)
		},
		"an uncertain row that is not due waits": func(w *harness) {
			r := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))[0]
			w.next(testDM, "1")
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.Uncertain, NextAttempt: time.Now().Add(time.Hour)})
			if wait := w.checkNothingDue(testDM); wait < 59*time.Minute {
				w.Fatalf("waits %s", wait)
			}
		},
		"a held row does not block its queue": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.Uncertain})
			second := w.next(testDM, "2")
			w.settle(sentSettlement(second.ID))
			w.crash()
			w.checkNothingDue(testDM)
			third := w.enqueue(newRow(testDM, "3"))[0]
			equal(w, "state", third.State, outbox.Attempting)
			w.settle(sentSettlement(w.next(testDM, "3").ID))
			w.ok(w.RetryRow(w.Context(), rows[0].ID))
			equal(w, "repeat", w.next(testDM, "1").MayBeRepeat, true)
		},
		"a row that is due later is not sent now": func(w *harness) {
			r := newRow(testDM, "1")
			r.NextAttempt = time.Now().Add(time.Hour)
			equal(w, "state", w.enqueue(r)[0].State, outbox.Queued)
			w.checkNothingDue(testDM)
		},
		"the notices of a settlement go to the end of the queue in its commit": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			before := w.Stats().Commits
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.Dead, Notices: []outbox.Row{newRow(testDM, "notice")}})
			equal(w, "commits", w.Stats().Commits-before, 1)
			w.settle(sentSettlement(w.next(testDM, "2").ID))
			r := w.next(testDM, "notice")
			equal(w, "attempts", r.Attempts, 1)
		},
		"a notice is stored also if the row was dropped meanwhile": func(w *harness) {
			r := w.enqueue(newRow(testDM, "1"))[0]
			w.next(testDM, "1")
			w.ok(w.DropRow(w.Context(), r.ID, "dropped"))
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.Dead, Notices: []outbox.Row{newRow(testDM, "notice")}})
			w.next(testDM, "notice")
		},
		"a settlement with a new address migrates the queue": func(w *harness) {
			rows := w.enqueue(newRow(testDM, "1"), newRow(testDM, "2"))
			w.next(testDM, "1")
			to := testDM
			to.Chat = "-1007"
			w.settle(outbox.Settlement{ID: rows[0].ID, State: outbox.NotSent, NextAttempt: time.Now(), MigratedTo: &to})
			w.checkNothingDue(testDM)
			r := w.next(to, "1")
			equal(w, "address", r.Msg.To, to)
			w.settle(sentSettlement(r.ID))
			w.next(to, "2")
			queues, err := w.Queues(w.Context())
			w.ok(err)
			equal(w, "queues", queues, []chat.Address{to})
		},
		"a commit's rows go to the end of their queues": func(w *harness) {
			before := w.enqueue(newRow(testDM, "before"))[0]
			w.acceptTexts("a")
			c := w.claim(0, "a")
			m := replied()
			m.Rows = []outbox.Row{newRow(testDM, "1"), newRow(testThread, "2"), newRow(testThread, "3")}
			rows := w.finish(c, m)
			equal(w, "states", states(rows), []outbox.State{outbox.Queued, outbox.Attempting, outbox.Queued})
			equal(w, "turn", rows[0].Turn, c.Turn)
			w.next(testDM, "before")
			w.settle(sentSettlement(before.ID))
			w.next(testDM, "1")
			w.next(testThread, "2")
		},
		"a recovered turn finds its preview": func(w *harness) {
			e := w.acceptTexts("a")[0]
			c := w.claim(0, "a")
			p := w.sendPreview(c)
			w.crash()
			again := w.claim(0, "a")
			equal(w, "previews", ids(again.Previews), []outbox.ID{p.ID})
			equal(w, "receipt", again.Previews[0].Receipt.ID, "r"+p.ID.String())
			m := replied()
			reply := newRow(testDM, "done")
			reply.Replaces = p.ID
			m.Rows = []outbox.Row{reply}
			rows := w.finish(again, m)
			equal(w, "replaces", rows[0].Replaces, p.ID)
			equal(w, "rows of the turn", ids(w.history(e.ID).Rows), []outbox.ID{p.ID, rows[0].ID})
		},
		"a preview that never arrived is not found": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			p := newRow(testDM, "…")
			p.Role, p.Turn = outbox.Preview, c.Turn
			p = w.enqueue(p)[0]
			w.next(testDM, "…")
			w.settle(outbox.Settlement{ID: p.ID, State: outbox.Dead, Reason: "no"})
			w.crash()
			equal(w, "previews", ids(w.claim(0, "a").Previews), nil)
			equal(w, "dead letters", w.Stats().Dead, 0)
			unsent, _, err := w.Outbox(w.Context(), outbox.Query{})
			w.ok(err)
			equal(w, "unsent", ids(unsent), nil)
		},
		"a failed entry does not block the next": func(w *harness) {
			w.acceptTexts("a")
			w.finish(w.claim(0, "a"), store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "set aside"}}})
			w.acceptTexts("b")
			w.claim(0, "b")
		},
	}
}

func states(rows []outbox.Row) []outbox.State {
	var list []outbox.State
	for _, r := range rows {
		list = append(list, r.State)
	}
	return list
}

func ids(rows []outbox.Row) []outbox.ID {
	var list []outbox.ID
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}
