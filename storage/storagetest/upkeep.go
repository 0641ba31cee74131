package storagetest

import (
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

func upkeepTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"compaction keeps what is stored, and claims and attempts in progress": func(w *harness) {
			w.createSession("s1", 0)
			w.ok(w.SetValue(w.Context(), "v", []byte("value")))
			w.acceptTexts("a")
			c := w.claim(0, "a")
			row := w.enqueue(newRow(testDM, "1"))[0]
			w.next(testDM, "1")
			w.ok(w.Compact(w.Context()))
			w.checkNothingDue(testDM)
			w.settle(sentSettlement(row.ID))
			w.commit(c, sessionCommit("s1", 1, `2`))
			w.ok(w.Compact(w.Context()))
			w.crash()
			rows, err := w.transcript("s1", 0)
			w.ok(err)
			equal(w, "transcript", rowTexts(rows), []string{`1`, `2`})
			v, err := w.Value(w.Context(), "v")
			w.ok(err)
			equal(w, "value", string(v), "value")
			equal(w, "row", w.row(row.ID).State, outbox.Sent)
			w.claim(0)
		},
		"prune deletes old records and keeps unfinished ones": func(w *harness) {
			done := w.acceptTexts("done")[0]
			w.finish(w.claim(0, "done"), store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: []outbox.Row{newRow(testDM, "x")}}})
			w.settle(sentSettlement(w.next(testDM, "x").ID))
			w.enqueue(newRow(testDM, "waits"))
			waits := w.acceptTexts("waits")[0]
			now := time.Now()
			w.ok(w.Prune(w.Context(), now.Add(71*time.Hour)))
			again, err := w.Accept(w.Context(), []store.Admission{{Entry: done}})
			w.ok(err)
			equal(w, "key after 71 h", again[0].IsNew, false)
			w.ok(w.Prune(w.Context(), now.Add(6*24*time.Hour)))
			equal(w, "outcome after 6 days", w.outcome(done.ID).Result, inbox.Replied)
			again, err = w.Accept(w.Context(), []store.Admission{{Entry: done}})
			w.ok(err)
			equal(w, "key after 6 days", again[0].IsNew, true)
			w.ok(w.Prune(w.Context(), now.Add(8*24*time.Hour)))
			histories, err := w.MessageHistory(w.Context(), done.ID.String())
			w.ok(err)
			equal(w, "histories after 8 days", len(histories), 0)
			equal(w, "state", w.history(waits.ID).Entry.State, inbox.Waiting)
			rows, _, err := w.Outbox(w.Context(), outbox.Query{Sent: true})
			w.ok(err)
			equal(w, "rows", len(rows), 1)
			w.crash()
			w.claim(0, "waits", "done")
		},
	}
}
