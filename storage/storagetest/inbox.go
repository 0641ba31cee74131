package storagetest

import (
	"errors"
	"fmt"
	"sync"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

func inboxTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"a key is accepted once, also after a crash": func(w *harness) {
			e := w.acceptTexts("hello")[0]
			for range 2 {
				again, err := w.Accept(w.Context(), []store.Admission{{Entry: e}})
				w.ok(err)
				equal(w, "second acceptance", again, []store.Acceptance{{ID: e.ID}})
				w.crash()
			}
			elsewhere := e
			elsewhere.Inbound.Address.Account = "second"
			another := e
			another.Inbound.Address.Platform = chat.Discord
			w.accept(elsewhere, another)
		},
		"an entry is claimed in the same write if its admission asks for it and it is alone": func(w *harness) {
			first, second := w.entry("first"), w.entry("second")
			before := w.Stats().Commits
			accepted, err := w.Accept(w.Context(), []store.Admission{{Entry: first, Claim: true}})
			w.ok(err)
			if n := w.Stats().Commits - before; n != 1 || accepted[0].Claim == nil {
				w.Fatalf("%d commits, claim %v", n, accepted[0].Claim)
			}
			next, err := w.Accept(w.Context(), []store.Admission{{Entry: second, Claim: true}})
			w.ok(err)
			if next[0].Claim != nil {
				w.Fatal("two claims in one lane")
			}
			equal(w, "waiting", w.Waiting(lane), 1)
			w.finish(*accepted[0].Claim, store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}})
			w.claim(0, "second")
		},
		"notices are enqueued in the same write, and once": func(w *harness) {
			e := w.entry("one too many")
			e.State, e.Outcome = inbox.Done, &inbox.Outcome{Result: inbox.Failed, Reason: "too many"}
			a := store.Admission{Entry: e, Notices: []outbox.Row{newNotice("not taken")}}
			before := w.Stats().Commits
			for range 2 { // the second one is not new
				_, err := w.Accept(w.Context(), []store.Admission{a})
				w.ok(err)
			}
			if n := w.Stats().Commits - before; n != 1 {
				w.Errorf("%d commits", n)
			}
			w.crash()
			rows, _, err := w.Outbox(w.Context(), outbox.Query{Sent: true})
			w.ok(err)
			if len(rows) != 1 || rows[0].Msg.Text.Text != "not taken" || rows[0].Terminal() {
				w.Fatalf("rows %+v", rows)
			}
		},
		"values are edited in the same write, and once": func(w *harness) {
			w.ok(w.SetValue(w.Context(), "v", []byte("1")))
			double := func(old []byte) ([]byte, error) { return append(old, old...), nil }
			a := store.Admission{Entry: w.entry("hello"), Notices: []outbox.Row{newNotice("welcome")}, Edits: []store.ValueEdit{{Key: "v", Change: double}, {Key: "w", Change: func(old []byte) ([]byte, error) { return append(old, "new"...), nil }}}}
			another := a
			another.Entry = w.entry("hello again")
			before := w.Stats().Commits
			for range 2 { // the second time none is new
				_, err := w.Accept(w.Context(), []store.Admission{a, a, another})
				w.ok(err)
			}
			if n := w.Stats().Commits - before; n != 1 {
				w.Errorf("%d commits", n)
			}
			w.crash()
			for key, want := range map[string]string{"v": "1111", "w": "newnew"} {
				v, err := w.Value(w.Context(), key)
				w.ok(err)
				equal(w, key, string(v), want)
			}
		},
		"an edit that fails refuses the batch, a refused entry edits nothing": func(w *harness) {
			w.ok(w.SetValue(w.Context(), "v", []byte("old")))
			set := func(v string) []store.ValueEdit {
				return []store.ValueEdit{{Key: "v", Change: func([]byte) ([]byte, error) { return []byte(v), nil }}}
			}
			failed := errors.New("no code")
			bad := store.Admission{Entry: w.entry("bad"), Notices: []outbox.Row{newNotice("bad")}, Edits: append(set("bad"), store.ValueEdit{Key: "w", Change: func([]byte) ([]byte, error) { return nil, failed }})}
			good := store.Admission{Entry: w.entry("good"), Edits: set("good")}
			if _, err := w.Accept(w.Context(), []store.Admission{good, bad}); !errors.Is(err, failed) {
				w.Fatalf("got %v", err)
			}
			full := store.Admission{Entry: w.entry("full"), Edits: set("full"), Limit: &store.Limit{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "full"}}}
			accepted, err := w.Accept(w.Context(), []store.Admission{full})
			w.ok(err)
			equal(w, "refused", accepted[0].Refused, true)
			v, err := w.Value(w.Context(), "v")
			w.ok(err)
			equal(w, "value", string(v), "old")
			rows, _, err := w.Outbox(w.Context(), outbox.Query{Sent: true})
			w.ok(err)
			equal(w, "waiting, rows", []int{w.Waiting(lane), len(rows)}, []int{0, 0})
			accepted, err = w.Accept(w.Context(), []store.Admission{good})
			w.ok(err)
			equal(w, "new", accepted[0].IsNew, true)
		},
		"entries over their limit are refused, also within a batch; those that are not new do not count": func(w *harness) {
			old := w.acceptTexts("old")[0]
			batch := []store.Admission{{Entry: old}}
			for i := range 4 {
				batch = append(batch, store.Admission{Entry: w.entry(fmt.Sprint("new ", i))})
			}
			for i := range batch {
				text := batch[i].Entry.Inbound.Text
				batch[i].Notices = []outbox.Row{newNotice("taken: " + text)}
				batch[i].Limit = &store.Limit{MaxWaiting: 3, Outcome: inbox.Outcome{Result: inbox.Failed, Reason: "too many"}, Notices: []outbox.Row{newNotice("not taken: " + text)}}
			}
			accepted, err := w.Accept(w.Context(), batch)
			w.ok(err)
			for i, a := range accepted {
				equal(w, "refused "+batch[i].Entry.Inbound.Text, a.Refused, i > 2)
			}
			rows, _, err := w.Outbox(w.Context(), outbox.Query{Sent: true})
			w.ok(err)
			var told []string
			for _, r := range rows {
				told = append(told, r.Msg.Text.Text)
			}
			equal(w, "rows", told, []string{"taken: new 0", "taken: new 1", "not taken: new 2", "not taken: new 3"})
			equal(w, "outcome", w.outcome(accepted[4].ID), inbox.Outcome{Result: inbox.Failed, Reason: "too many"})
			w.claim(0, "old", "new 0", "new 1")
		},
		"a claim made on accept expires with its process": func(w *harness) {
			e := w.entry("hello")
			accepted, err := w.Accept(w.Context(), []store.Admission{{Entry: e, Claim: true}})
			w.ok(err)
			w.crash()
			w.checkStale(*accepted[0].Claim)
			if c := w.claim(0, "hello"); !c.Crashed || c.Turn != accepted[0].Claim.Turn {
				w.Fatalf("crashed %t, turn %s", c.Crashed, c.Turn)
			}
		},
		"the same key twice in one batch is one entry": func(w *harness) {
			e := w.entry("x")
			accepted, err := w.Accept(w.Context(), []store.Admission{{Entry: e}, {Entry: e}})
			w.ok(err)
			if !accepted[0].IsNew || accepted[1].IsNew || accepted[0].ID != accepted[1].ID {
				w.Fatalf("got %+v", accepted)
			}
			equal(w, "waiting", w.Waiting(lane), 1)
		},
		"an event without a key is rejected with its whole batch": func(w *harness) {
			good, bad := w.entry("good"), w.entry("bad")
			bad.Inbound.IdempotencyKey = ""
			if _, err := w.Accept(w.Context(), []store.Admission{{Entry: good}, {Entry: bad}}); err == nil {
				w.Fatal("it was accepted")
			}
			equal(w, "waiting", w.Waiting(lane), 0)
			w.accept(good)
		},
		"entries wait in their order": func(w *harness) {
			w.acceptTexts("a", "b")
			w.acceptTexts("c")
			equal(w, "waiting", w.Waiting(lane), 3)
			w.claim(0, "a", "b", "c")
			equal(w, "waiting", w.Waiting(lane), 0)
		},
		"an entry accepted as done is stored only for its history": func(w *harness) {
			e := w.entry("spam")
			e.State, e.Outcome = inbox.Done, &inbox.Outcome{Result: inbox.Silent, Reason: "not_allowed"}
			e = w.accept(e)[0]
			equal(w, "waiting", w.Waiting(lane), 0)
			w.claim(0)
			equal(w, "outcome", w.outcome(e.ID), inbox.Outcome{Result: inbox.Silent, Reason: "not_allowed"})
			lanes, err := w.Lanes(w.Context())
			w.ok(err)
			equal(w, "lanes", lanes, nil)
		},
		"an edit changes a waiting entry": func(w *harness) {
			e := w.acceptTexts("teh")[0]
			edit := w.edit(e, "the")
			edit.Inbound.Files = []chat.File{{Kind: chat.Photo, Ref: "f"}}
			edit = w.accept(edit)[0]
			equal(w, "outcome of the edit", w.outcome(edit.ID), inbox.Outcome{Result: inbox.Silent, Reason: "edit_applied"})
			w.crash()
			c := w.claim(0, "the")
			equal(w, "files", c.Entries[0].Inbound.Files, edit.Inbound.Files)
		},
		"an edit of a claimed, done or unknown entry is too late": func(w *harness) {
			e := w.acceptTexts("teh")[0]
			c := w.claim(0, "teh")
			unknown := w.entry("never seen")
			late := []inbox.Entry{w.edit(e, "claimed"), w.edit(unknown, "unknown")}
			late = w.accept(late...)
			w.finish(c, replied())
			late = append(late, w.accept(w.edit(e, "done"))...)
			for _, l := range late {
				equal(w, "outcome of "+l.Inbound.Text, w.outcome(l.ID), inbox.Outcome{Result: inbox.Silent, Reason: "edit_too_late"})
			}
			equal(w, "text", w.history(e.ID).Entry.Inbound.Text, "teh")
		},
		"an edit after the first step is too late": func(w *harness) {
			e := w.acceptTexts("teh")[0]
			w.ok(w.RecordStep(w.Context(), w.claim(0, "teh"), store.Step{Doc: []byte(`1`)}))
			w.crash()
			edit := w.accept(w.edit(e, "the"))[0]
			equal(w, "outcome", w.outcome(edit.ID).Reason, "edit_too_late")
			w.claim(0, "teh")
		},
		"lanes are ordered by their oldest entry": func(w *harness) {
			first, second, third := w.entry("1"), w.entry("2"), w.entry("3")
			first.Lane, second.Lane, third.Lane = "z", "a", "z"
			w.accept(first, second, third)
			lanes, err := w.Lanes(w.Context())
			w.ok(err)
			equal(w, "lanes", lanes, []inbox.Lane{"z", "a"})
			c, err := w.Claim(w.Context(), "z", 1)
			w.ok(err)
			w.finish(c, replied())
			lanes, err = w.Lanes(w.Context())
			w.ok(err)
			equal(w, "lanes", lanes, []inbox.Lane{"a", "z"})
		},
		"concurrent accepts lose nothing": func(w *harness) {
			const n = 64
			var wg sync.WaitGroup
			ids := make([]inbox.ID, n)
			for i := range n {
				wg.Go(func() {
					e := inbox.Entry{Lane: inbox.Lane(fmt.Sprint("l", i%4)), Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint("p", i), Kind: chat.Message, Address: testDM}}
					accepted, err := w.Accept(w.Context(), []store.Admission{{Entry: e}})
					if err != nil || !accepted[0].IsNew {
						w.Errorf("accept %d: %+v, %v", i, accepted, err)
						return
					}
					ids[i] = accepted[0].ID
				})
			}
			wg.Wait()
			w.crash()
			for i, id := range ids {
				equal(w, "key", w.history(id).Entry.Inbound.IdempotencyKey, fmt.Sprint("p", i))
			}
			equal(w, "waiting", w.Stats().Waiting, n)
		},
	}
}

// newNotice returns a row that tells the sender of entries something.
func newNotice(text string) outbox.Row {
	return outbox.Row{Role: outbox.Notice, Msg: chat.Outbound{To: testDM, Text: chat.PlainText(text)}}
}

// edit returns the event that e was edited.
func (w *harness) edit(e inbox.Entry, text string) inbox.Entry {
	ed := w.entry(text)
	ed.Inbound.Kind, ed.Inbound.EditedKey, ed.Inbound.ID = chat.Edit, e.Inbound.IdempotencyKey, e.Inbound.ID
	return ed
}
