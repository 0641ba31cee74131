package storagetest

import (
	"errors"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func otherTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"small values are stored": func(w *harness) {
			v, err := w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", v, nil)
			w.ok(w.SetValue(w.Context(), "k", []byte("v")))
			w.crash()
			v, err = w.Value(w.Context(), "k")
			w.ok(err)
			equal(w, "value", string(v), "v")
			w.ok(w.SetValue(w.Context(), "k", nil))
			v, err = w.Value(w.Context(), "k")
			w.ok(err)
			if v != nil {
				w.Fatalf("got %q, want nothing", v)
			}
		},
		"a small value is changed in one write": func(w *harness) {
			w.ok(store.Save(w.Context(), w, "n", 1))
			edits := make(chan error)
			for range 20 {
				go func() {
					edits <- store.Change(w.Context(), w, "n", func(n int) (int, error) { return n + 1, nil })
				}()
			}
			for range 20 {
				w.ok(<-edits)
			}
			w.crash()
			refused := errors.New("refused")
			if err := store.Change(w.Context(), w, "n", func(int) (int, error) { return 0, refused }); !errors.Is(err, refused) {
				w.Fatalf("got %v, want the error of the change", err)
			}
			n, err := store.Load[int](w.Context(), w, "n")
			w.ok(err)
			equal(w, "number", n, 21)
			w.ok(w.EditValue(w.Context(), "n", func(old []byte) ([]byte, error) {
				equal(w, "stored bytes", string(old), "21")
				return nil, nil
			}))
			v, err := w.Value(w.Context(), "n")
			w.ok(err)
			if v != nil {
				w.Fatalf("got %q, want nothing", v)
			}
		},
		"stats count unfinished records": func(w *harness) {
			w.acceptTexts("a", "b", "c")
			w.claim(1, "a")
			w.enqueue(newRow(testDM, "1"), newRow(testThread, "2"))
			w.next(testThread, "2")
			r, err := w.Outbox(w.Context(), false)
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
		"prune deletes old records and keeps unfinished ones": func(w *harness) {
			done := w.acceptTexts("done")[0]
			w.commit(w.claim(0, "done"), inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: []outbox.Row{newRow(testDM, "x")}})
			w.settle(sentSettlement(w.next(testDM, "x").ID))
			w.enqueue(newRow(testDM, "waits"))
			waits := w.acceptTexts("waits")[0]
			now := time.Now()
			w.ok(w.Prune(w.Context(), now.Add(71*time.Hour)))
			again, err := w.Accept(w.Context(), []inbox.Admission{{Entry: done}})
			w.ok(err)
			equal(w, "key after 71 h", again[0].IsNew, false)
			w.ok(w.Prune(w.Context(), now.Add(6*24*time.Hour)))
			equal(w, "outcome after 6 days", w.outcome(done.ID).Result, inbox.Replied)
			again, err = w.Accept(w.Context(), []inbox.Admission{{Entry: done}})
			w.ok(err)
			equal(w, "key after 6 days", again[0].IsNew, true)
			w.ok(w.Prune(w.Context(), now.Add(8*24*time.Hour)))
			histories, err := w.MessageHistory(w.Context(), done.ID.String())
			w.ok(err)
			equal(w, "histories after 8 days", len(histories), 0)
			equal(w, "state", w.history(waits.ID).Entry.State, inbox.Waiting)
			rows, err := w.Outbox(w.Context(), true)
			w.ok(err)
			equal(w, "rows", len(rows), 1)
			w.crash()
			w.claim(0, "waits", "done")
		},
		"everything follows a chat migration": testChatMigration,
		"a running turn survives a chat migration": func(w *harness) {
			w.createSession("s1", 0)
			w.acceptTexts("a")
			c := w.claim(0, "a")
			to := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1007"}
			w.ok(w.MigrateChat(w.Context(), testDM, to, rekey))
			w.commit(c, sessionCommit("s1", 1, `2`))
			rec, ok, err := w.Session(w.Context(), rekey(session.Record{Address: to}))
			w.ok(err)
			if !ok || rec.ID != "s1" || rec.Messages != 2 || rec.Address != to {
				w.Fatalf("got %+v (%t)", rec, ok)
			}
			w.claim(0)
		},
		"an interrupted turn continues in the new lane after a chat migration": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, newSession("s1"), inbox.Step(`1`)))
			w.crash()
			to := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1007"}
			w.ok(w.MigrateChat(w.Context(), testDM, to, rekey))
			w.claim(0)
			k := rekey(session.Record{Address: to})
			again, err := w.Claim(w.Context(), inbox.LaneOf(k), 0)
			w.ok(err)
			equal(w, "turn", again.Turn, c.Turn)
			equal(w, "steps", len(again.Steps), 1)
			equal(w, "session", again.Entries[0].Session, k)
			w.commit(again, replied())
		},
	}
}

// rekey returns the session keys of these tests.
func rekey(r session.Record) session.Key {
	return session.KeyFor("", r.Address, r.Owner, session.KeyPolicy{})
}

func testChatMigration(w *harness) {
	w.createSession("s1", 0)
	w.acceptTexts("waits")
	now := w.entry("/status")
	now.Lane = inbox.ImmediateLaneOf(key)
	w.accept(now)
	unopened := w.entry("first words")
	unopened.Inbound.Address.Thread, unopened.Inbound.Address.Kind = "5", chat.Thread
	unopened.Session = rekey(session.Record{Address: unopened.Inbound.Address})
	unopened.Lane = inbox.LaneOf(unopened.Session)
	w.accept(unopened)
	w.enqueue(newRow(testDM, "1"), newRow(testThread, "x"))
	w.next(testDM, "1")

	to := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-1007"}
	w.ok(w.MigrateChat(w.Context(), testDM, to, rekey))
	w.crash()

	k := rekey(session.Record{Address: to})
	rec, ok, err := w.Session(w.Context(), k)
	w.ok(err)
	if !ok || rec.ID != "s1" || rec.Address != to || rec.Key != k {
		w.Fatalf("got %+v (%t)", rec, ok)
	}
	if rec, ok, err := w.Session(w.Context(), key); err != nil || ok && rec.ID != "s1" {
		w.Fatalf("the old key leads to %+v, %v", rec, err)
	}
	thread := to
	thread.Thread, thread.Kind = "5", chat.Thread
	for l, want := range map[inbox.Lane]string{
		inbox.LaneOf(k): "waits", inbox.ImmediateLaneOf(k): "/status", inbox.LaneOf(rekey(session.Record{Address: thread})): "first words",
	} {
		c, err := w.Claim(w.Context(), l, 0)
		w.ok(err)
		equal(w, "in lane "+string(l), texts(c.Entries), []string{want})
		equal(w, "chat", c.Entries[0].Inbound.Address.Chat, "-1007")
	}
	equal(w, "left in the old lane", w.Waiting(lane), 0)
	equal(w, "state", w.next(to, "1").State, outbox.Uncertain)
	w.checkNothingDue(testDM)
	equal(w, "other chats stay", w.next(testThread, "x").Msg.To, testThread)
}
