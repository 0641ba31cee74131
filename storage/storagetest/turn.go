package storagetest

import (
	"context"
	"errors"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func turnTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"a claim takes at most max entries": func(w *harness) {
			w.acceptTexts("a", "b", "c")
			c := w.claim(2, "a", "b")
			equal(w, "remaining", c.Remaining, 1)
			w.finish(c, replied())
			c = w.claim(2, "c")
			equal(w, "remaining", c.Remaining, 0)
			if c.Crashed {
				w.Fatal("nothing has crashed")
			}
		},
		"a lane has one claim at a time": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.acceptTexts("b")
			equal(w, "remaining", w.claim(0).Remaining, 1)
			w.finish(c, replied())
			w.claim(0, "b")
		},
		"lanes do not wait for each other": func(w *harness) {
			w.acceptTexts("a")
			e := w.entry("b")
			e.Lane = inbox.ImmediateLaneOf(key)
			w.accept(e)
			w.claim(0, "a")
			c, err := w.Claim(w.Context(), inbox.ImmediateLaneOf(key), 0)
			w.ok(err)
			equal(w, "texts", texts(c.Entries), []string{"b"})
		},
		"an exclusive entry is claimed alone": func(w *harness) {
			exclusive := w.entry("/new")
			exclusive.Exclusive = true
			w.accept(w.entry("a"), w.entry("b"), exclusive, w.entry("c"))
			c := w.claim(0, "a", "b")
			joined, err := w.Join(w.Context(), c, false)
			w.ok(err)
			equal(w, "joined", texts(joined), nil)
			w.finish(c, replied())
			c = w.claim(0, "/new")
			equal(w, "remaining", c.Remaining, 1)
			joined, err = w.Join(w.Context(), c, false)
			w.ok(err)
			equal(w, "joined", texts(joined), nil)
			w.finish(c, replied())
			w.claim(0, "c")
		},
		"a joined entry ends with the turn": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			b := w.acceptTexts("b")[0]
			joined, err := w.Join(w.Context(), c, false)
			w.ok(err)
			equal(w, "joined", texts(joined), []string{"b"})
			equal(w, "turn", joined[0].Turn, c.Turn)
			equal(w, "waiting", w.Waiting(lane), 0)
			w.finish(c, replied())
			equal(w, "outcome", w.outcome(b.ID).Result, inbox.Replied)
		},
		"a joined entry is claimed again with the turn": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.acceptTexts("b")
			_, err := w.Join(w.Context(), c, false)
			w.ok(err)
			w.acceptTexts("c")
			w.crash()
			again := w.claim(0, "a", "b")
			equal(w, "turn", again.Turn, c.Turn)
			equal(w, "remaining", again.Remaining, 1)
		},
		"release lets newer entries merge": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.acceptTexts("b")
			w.ok(w.Release(w.Context(), c))
			equal(w, "waiting", w.Waiting(lane), 2)
			again := w.claim(0, "a", "b")
			if again.Turn == c.Turn || again.Crashed {
				w.Fatalf("got turn %s, crashed %t", again.Turn, again.Crashed)
			}
		},
		"release keeps steps": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`{"n": 1}`)}))
			w.acceptTexts("b")
			w.ok(w.Release(w.Context(), c))
			w.checkStale(c)
			again := w.claim(0, "a")
			equal(w, "turn", again.Turn, c.Turn)
			equal(w, "steps", rowTexts(again.Steps), []string{`{"n": 1}`})
			equal(w, "crashes", again.Entries[0].Crashes, 0)
			equal(w, "remaining", again.Remaining, 1)
		},
		"release keeps a visible preview": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			p := w.sendPreview(c)
			w.ok(w.Release(w.Context(), c))
			again := w.claim(0, "a")
			equal(w, "turn", again.Turn, c.Turn)
			equal(w, "previews", len(again.Previews), 1)
			equal(w, "preview", again.Previews[0].ID, p.ID)
			w.enqueue(outbox.Row{Role: outbox.Preview, Turn: c.Turn, Msg: p.Msg, Delete: p.ID})
			w.ok(w.Release(w.Context(), again))
			if third := w.claim(0, "a"); third.Turn == c.Turn || len(third.Previews) > 0 {
				w.Fatalf("turn %s with %d previews, want a new one", third.Turn, len(third.Previews))
			}
		},
		"the deletion of a preview is known to later claims of its entries": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			p := w.sendPreview(c)
			d := w.enqueue(outbox.Row{Role: outbox.Preview, Turn: c.Turn, Msg: p.Msg, Delete: p.ID})[0]
			w.crash()
			c = w.claim(0, "a")
			equal(w, "deletions after a crash", c.Deletions, []outbox.ID{d.ID})
			w.ok(w.Release(w.Context(), c))
			w.acceptTexts("b")
			again := w.claim(0, "a", "b")
			if again.Turn == c.Turn {
				w.Fatal("the turn was kept")
			}
			equal(w, "deletions after a release", again.Deletions, []outbox.ID{d.ID})
		},
		"a preview of unknown fate is among the previews": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			row := outbox.Row{Role: outbox.Preview, Turn: c.Turn, Msg: chat.Outbound{To: testDM, Text: chat.PlainText("so far")}}
			lost, refused := w.enqueue(row)[0], w.enqueue(row)[0]
			w.settle(outbox.Settlement{ID: lost.ID, State: outbox.Dead, MayBeRepeat: true})
			w.settle(outbox.Settlement{ID: refused.ID, State: outbox.Dead})
			w.crash()
			equal(w, "previews", ids(w.claim(0, "a").Previews), []outbox.ID{lost.ID})
		},
		"a crash is counted, and steps are kept": func(w *harness) {
			e := w.acceptTexts("a")[0]
			c := w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`1`)}))
			w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(` 2 `)}))
			w.crash()
			equal(w, "waiting", w.Waiting(lane), 1)
			equal(w, "state", w.history(e.ID).Entry.State, inbox.Waiting)
			w.checkStale(c)
			again := w.claim(0, "a")
			equal(w, "turn", again.Turn, c.Turn)
			equal(w, "steps", rowTexts(again.Steps), []string{`1`, ` 2 `})
			equal(w, "crashed", again.Crashed, true)
			equal(w, "crashes", again.Entries[0].Crashes, 1)
			if again.Epoch <= c.Epoch {
				w.Fatalf("epoch %d after %d", again.Epoch, c.Epoch)
			}
			w.checkStale(c)
		},
		"crashes in a row add up, unless there was progress": func(w *harness) {
			w.acceptTexts("a")
			for i, step := range []struct {
				progress bool
				want     int
			}{{false, 0}, {false, 1}, {true, 2}, {false, 1}, {true, 2}, {true, 1}, {false, 1}, {false, 2}} {
				c := w.claim(0, "a")
				if got := c.Entries[0].Crashes; got != step.want {
					w.Fatalf("claim %d: %d crashes, want %d", i, got, step.want)
				}
				if step.progress {
					w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`1`)}))
				}
				w.crash()
			}
		},
		"a crash is blamed on the only turn, or the only one that ran at an earlier crash": func(w *harness) {
			blamed := func(l inbox.Lane) (n int) {
				list, err := w.Interrupted(w.Context())
				w.ok(err)
				for _, e := range list {
					if e.Lane == l {
						return e.CrashesAlone
					}
				}
				return -1 // it did not run at the crash
			}
			crash := func(lanes ...inbox.Lane) {
				for _, l := range lanes {
					c, err := w.Claim(w.Context(), l, 0)
					w.ok(err)
					if c.Turn == "" {
						w.Fatalf("nothing waits in %s", l)
					}
				}
				w.crash()
			}
			for _, l := range []inbox.Lane{"a", "b", "c"} {
				e := w.entry(string(l))
				e.Lane = l
				w.accept(e)
			}
			equal(w, "before a crash", blamed("a"), -1)
			crash("a")
			equal(w, "a alone", blamed("a"), 1)
			equal(w, "b waits", blamed("b"), -1)
			crash("a", "b")
			equal(w, "a, and b for the first time", blamed("a"), 2)
			equal(w, "b for the first time", blamed("b"), 0)
			crash("a", "b", "c")
			equal(w, "a with b, which has crashed", blamed("a"), 2)
			equal(w, "b with a", blamed("b"), 0)
			crash("b", "c")
			crash("b")
			equal(w, "b alone", blamed("b"), 1)
			equal(w, "c", blamed("c"), 0)
			c, err := w.Claim(w.Context(), "b", 0)
			w.ok(err)
			equal(w, "b while it runs", blamed("b"), -1)
			w.finish(c, replied())
			crash("c")
			c, err = w.Claim(w.Context(), "c", 0)
			w.ok(err)
			w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`1`)}))
			w.crash()
			equal(w, "c after progress", blamed("c"), 1)
		},
		"a crash without a claim is not counted": func(w *harness) {
			w.acceptTexts("a")
			w.crash()
			if c := w.claim(0, "a"); c.Crashed || c.Entries[0].Crashes != 0 {
				w.Fatalf("crashed %t, %d times", c.Crashed, c.Entries[0].Crashes)
			}
		},
		"an ended claim is stale": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.finish(c, replied())
			w.checkStale(c)
			w.checkStale(store.Claim{Lane: lane})
			w.checkStale(store.Claim{Lane: lane, Turn: "t-never", Epoch: c.Epoch})
		},
		"each entry has its own outcome": func(w *harness) {
			es := w.acceptTexts("a", "b", "c")
			c := w.claim(0, "a", "b", "c")
			m := replied()
			m.Outcomes = map[inbox.ID]inbox.Outcome{
				es[0].ID: {Result: inbox.Replied, MergedInto: es[2].ID},
				99:       {Result: inbox.Failed},
			}
			m.Trace = []byte(`{"model":"m"}`)
			w.finish(c, m)
			equal(w, "first", w.outcome(es[0].ID), inbox.Outcome{Result: inbox.Replied, MergedInto: es[2].ID})
			equal(w, "second", w.outcome(es[1].ID), inbox.Outcome{Result: inbox.Replied})
			equal(w, "trace", string(w.history(es[2].ID).Trace), `{"model":"m"}`)
		},
		"a commit without an outcome is rejected": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			m := sessionCommit("s1", 0, `1`)
			m.Outcome = inbox.Outcome{}
			if _, err := w.CommitTurn(w.Context(), c, m); err == nil {
				w.Fatal("it was accepted")
			}
			if _, ok, err := w.SessionByID(w.Context(), "s1"); ok || err != nil {
				w.Fatalf("the session exists (%t, %v)", ok, err)
			}
			w.finish(c, replied())
		},
		"cancel ends waiting entries of the named lanes": func(w *harness) {
			waits := w.acceptTexts("a")[0]
			stop := w.entry("/stop")
			stop.Lane = inbox.ImmediateLaneOf(key)
			running := w.claim(0, "a")
			b := w.acceptTexts("b")[0]
			w.accept(stop)
			c, err := w.Claim(w.Context(), stop.Lane, 0)
			w.ok(err)
			m := replied()
			m.Cancel, m.CancelReason = []inbox.Lane{lane}, "/stop"
			w.finish(c, m)
			equal(w, "waiting", w.Waiting(lane), 0)
			equal(w, "outcome", w.outcome(b.ID), inbox.Outcome{Result: inbox.Cancelled, Reason: "/stop"})
			equal(w, "running", w.history(waits.ID).Entry.State, inbox.Claimed)
			w.finish(running, replied())
			w.claim(0)
		},
		"cancel ends an interrupted turn": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`1`)}))
			w.crash()
			stop := w.entry("/stop")
			stop.Lane = inbox.ImmediateLaneOf(key)
			w.accept(stop)
			now, err := w.Claim(w.Context(), stop.Lane, 0)
			w.ok(err)
			m := replied()
			m.Cancel, m.CancelReason = []inbox.Lane{lane}, "/stop"
			w.finish(now, m)
			w.claim(0)
			w.acceptTexts("b")
			if c := w.claim(0, "b"); len(c.Steps) > 0 || c.Crashed {
				w.Fatalf("%d steps, crashed %t", len(c.Steps), c.Crashed)
			}
		},
		"cancel deletes the preview of an interrupted turn": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			p := w.sendPreview(c)
			w.crash()
			stop := w.entry("/stop")
			stop.Lane = inbox.ImmediateLaneOf(key)
			w.accept(stop)
			now, err := w.Claim(w.Context(), stop.Lane, 0)
			w.ok(err)
			m := replied()
			m.Cancel, m.Rows = []inbox.Lane{lane}, []outbox.Row{newRow(testDM, "cancelled")}
			rows := w.finish(now, m)
			equal(w, "deleted", deleted(rows), []outbox.ID{p.ID, 0})
			equal(w, "turns", []string{rows[0].Turn, rows[1].Turn}, []string{c.Turn, now.Turn})
			equal(w, "states", states(rows), []outbox.State{outbox.Attempting, outbox.Queued})
			equal(w, "addresses", []chat.Address{rows[0].Msg.To, rows[1].Msg.To}, []chat.Address{testDM, testDM})
		},
		"what came after an immediate command is not merged with what came before": func(w *harness) {
			w.acceptTexts("a")
			stop := w.entry("/stop")
			stop.Lane = inbox.ImmediateLaneOf(key)
			w.accept(stop)
			w.acceptTexts("b")
			c := w.claim(0, "a")
			joined, err := w.Join(w.Context(), c, false)
			w.ok(err)
			equal(w, "joined before the command is done", len(joined), 0)
			now, err := w.Claim(w.Context(), stop.Lane, 0)
			w.ok(err)
			w.finish(now, replied())
			joined, err = w.Join(w.Context(), c, false)
			w.ok(err)
			equal(w, "joined after the command", len(joined), 1)
		},
		"a canceled context changes nothing": func(w *harness) {
			w.acceptTexts("a")
			ctx, cancel := context.WithCancelCause(w.Context())
			why := errors.New("no more")
			cancel(why)
			if _, err := w.Claim(ctx, lane, 0); !errors.Is(err, why) {
				w.Fatalf("got %v, want %v", err, why)
			}
			w.claim(0, "a")
		},
		"a commit is all or nothing": func(w *harness) {
			e := w.acceptTexts("a")[0]
			c := w.claim(0, "a")
			m := sessionCommit("s1", 5, `1`) // the transcript has no 5 rows
			m.Rows = []outbox.Row{newRow(testDM, "hello")}
			m.Create = newSession("s1")
			if _, err := w.CommitTurn(w.Context(), c, m); err == nil || errors.Is(err, store.ErrStale) {
				w.Fatalf("got %v, want a conflict of the length", err)
			}
			equal(w, "state", w.history(e.ID).Entry.State, inbox.Claimed)
			w.checkNothingDue(testDM)
			if _, ok, err := w.Session(w.Context(), key); ok || err != nil {
				w.Fatalf("the session exists (%t, %v)", ok, err)
			}
			m.Session.Messages = 1
			w.commit(c, m)
			w.next(testDM, "hello")
		},
	}
}

// deleted returns the IDs of the previews that rows delete, 0 for other rows.
func deleted(rows []outbox.Row) []outbox.ID {
	var list []outbox.ID
	for _, r := range rows {
		list = append(list, r.Delete)
	}
	return list
}

// checkStale checks that claim c can write nothing.
func (w *harness) checkStale(c store.Claim) {
	w.Helper()
	for what, do := range map[string]func() error{
		"join":    func() error { _, err := w.Join(w.Context(), c, false); return err },
		"release": func() error { return w.Release(w.Context(), c) },
		"step": func() error {
			return w.RecordStep(w.Context(), c, store.Step{Create: newSession(session.ID("stale-" + c.Turn)), Doc: []byte(`0`)})
		},
		"commit": func() error {
			_, err := w.CommitTurn(w.Context(), c, sessionCommit(session.ID("stale-"+c.Turn), 0, `1`))
			return err
		},
		"finish": func() error { _, err := w.FinishTurn(w.Context(), c, replied()); return err },
	} {
		if err := do(); !errors.Is(err, store.ErrStale) {
			w.Fatalf("%s with a stale claim: %v, want %v", what, err, store.ErrStale)
		}
	}
	if _, ok, err := w.SessionByID(w.Context(), session.ID("stale-"+c.Turn)); ok || err != nil {
		w.Fatalf("a stale claim created a session (%t, %v)", ok, err)
	}
}

// sendPreview sends the preview of a turn.
func (w *harness) sendPreview(c store.Claim) outbox.Row {
	w.Helper()
	p := newRow(testDM, "…")
	p.Role, p.Turn = outbox.Preview, c.Turn
	p = w.enqueue(p)[0]
	w.next(testDM, "…")
	w.settle(sentSettlement(p.ID))
	return p
}
