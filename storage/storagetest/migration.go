package storagetest

import (
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func migrationTests() map[string]func(*harness) {
	return map[string]func(*harness){
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
			w.ok(w.RecordStep(w.Context(), c, store.Step{Create: newSession("s1"), Doc: []byte(`1`)}))
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
			w.finish(again, replied())
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
