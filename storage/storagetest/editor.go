package storagetest

import (
	"errors"
	"strings"

	"hermesd/agent/llm/ledger"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

const (
	fileA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.jpg"
	fileB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.pdf"
	fileC = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.txt"
)

func editorTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"nothing of a deleted session remains": testDeleteSession,
		"a deletion affects only its session": func(w *harness) {
			w.createSession("s1", 0)
			w.createSession("s2", 0) // now the current one
			entry := w.acceptTexts("of the other")[0]
			w.commit(w.claim(0, "of the other"), sessionCommit("s2", 1, `2`))
			_, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
			w.ok(err)
			equal(w, "text of another session", w.history(entry.ID).Entry.Inbound.Text, "of the other")
			rec, ok, err := w.Session(w.Context(), key)
			w.ok(err)
			equal(w, "the key's session", []any{rec.ID, ok}, []any{session.ID("s2"), true})
			rows, err := w.transcript("s2", 0)
			w.ok(err)
			equal(w, "transcript", rowTexts(rows), []string{`1`, `2`})
			if _, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"}); !errors.Is(err, session.ErrNotFound) {
				w.Fatalf("deleted twice: %v", err)
			}
		},
		"a conversation with a running turn is not deleted":           testDeleteBusySession,
		"unsent rows of a deleted session are sent and then redacted": testDeleteUnsentRows,
		"messages outside the turns of a deleted session are redacted": func(w *harness) {
			w.createSession("s1", 0)
			ignored := w.entry("overheard")
			ignored.State, ignored.Inbound.IgnoreRule = inbox.Done, "not_addressed"
			entries := w.accept(ignored)
			cancelled := w.acceptTexts("cancelled")[0]
			command := w.entry("/stop it")
			command.Exclusive, command.Lane = true, inbox.ImmediateLaneOf(key)
			command = w.accept(command)[0]
			c, err := w.Claim(w.Context(), inbox.ImmediateLaneOf(key), 0)
			w.ok(err)
			m := replied()
			m.Cancel, m.CancelReason = []inbox.Lane{lane}, "/stop"
			m.Rows = []outbox.Row{newRow(testDM, "stopped it")}
			w.finish(c, m)
			w.settle(sentSettlement(w.next(testDM, "stopped it").ID))
			waiting := w.acceptTexts("waits")[0]
			_, err = w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
			w.ok(err)
			for _, id := range []inbox.ID{entries[0].ID, cancelled.ID, command.ID} {
				for _, r := range w.history(id).Rows {
					equal(w, "text of "+r.ID.String(), r.Msg.Text.Text, "")
				}
				equal(w, "text of "+id.String(), w.history(id).Entry.Inbound.Text, "")
				w.outcome(id)
			}
			equal(w, "text of the waiting entry", w.history(waiting.ID).Entry.Inbound.Text, "waits")
			w.claim(0, "waits")
		},
		"files are deleted with the last session that uses them": testDeleteFiles,
		"a branch has the same bytes and is independent":         testBranch,
		"a branch of a compacted session keeps the archive":      testBranchOfCompacted,
		"a suggested title never replaces a title from the user": func(w *harness) {
			w.createSession("s1", 0)
			suggest := func(title string, want bool) {
				w.Helper()
				set, err := w.SuggestTitle(w.Context(), "s1", title)
				w.ok(err)
				equal(w, "it is set", set, want)
			}
			suggest("Made up", true)
			suggest("", false)
			suggest("Made up better", true)
			equal(w, "made up", w.session("s1").TitleAuto, true)
			w.acceptTexts("a")
			c := w.claim(0, "a")
			m := sessionCommit("s1", 1, `2`)
			m.Session.Title, m.Session.TitleAuto = "Made up better", true
			w.ok(w.SetTitle(w.Context(), "s1", "Mine"))
			suggest("Made up", false)
			w.commit(c, m)
			suggest("Made up", false)
			rec := w.session("s1")
			equal(w, "title", []any{rec.Title, rec.TitleAuto}, []any{"Mine", false})
			w.ok(w.SetTitle(w.Context(), "s1", ""))
			suggest("Made up", true)
			if _, err := w.SuggestTitle(w.Context(), "nowhere", "x"); !errors.Is(err, session.ErrNotFound) {
				w.Fatalf("an unknown session: %v", err)
			}
		},
		"a title survives a turn that started before it": func(w *harness) {
			w.createSession("s1", 0)
			w.acceptTexts("a")
			c := w.claim(0, "a")
			m := sessionCommit("s1", 1, `2`)
			m.Session.Title = ""
			w.ok(w.SetTitle(w.Context(), "s1", "Taxes"))
			w.commit(c, m)
			equal(w, "title", w.session("s1").Title, "Taxes")
			w.acceptTexts("b")
			m = sessionCommit("s1", 2, `3`)
			c = w.claim(0, "b")
			m.Session = w.session("s1")
			m.Session.Messages = 3
			w.ok(w.SetTitle(w.Context(), "s1", "Holidays"))
			w.commit(c, m)
			equal(w, "title", w.session("s1").Title, "Holidays")
			if err := w.SetTitle(w.Context(), "nowhere", "x"); err == nil {
				w.Fatal("an unknown session got a title")
			}
		},
	}
}

func testDeleteSession(w *harness) {
	entry := w.acceptTexts("my secret")[0]
	m := sessionCommit("s1", 0, `"0"`, `"my secret"`)
	m.Create, m.Engine, m.Trace = newSession("s1"), []byte(`{"passes":1}`), []byte(`{"error":"my secret"}`)
	m.Calls, m.Session.Calls = []store.Doc[ledger.Record]{[]byte(`{"n":0}`)}, 1
	m.Compactions = []store.Compaction{{Append: rawMessages(`"archived secret"`), To: 1}}
	m.Rows = []outbox.Row{newRow(testDM, "your secret")}
	row := w.commit(w.claim(0, "my secret"), m)[0]
	w.settle(sentSettlement(w.next(testDM, "your secret").ID))

	f, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
	w.ok(err)
	equal(w, "deleted", f, session.Deleted{ID: "s1", Messages: 3, Entries: 1, Rows: 1})
	for range 2 {
		_, ok, err := w.SessionByID(w.Context(), "s1")
		w.ok(err)
		equal(w, "session exists", ok, false)
		_, ok, err = w.Session(w.Context(), key)
		w.ok(err)
		equal(w, "its key has a session", ok, false)
		recs, err := w.Sessions(w.Context(), session.Query{})
		w.ok(err)
		equal(w, "sessions", len(recs), 0)
		rows, err := w.Rows(w.Context(), "s1", session.Span{To: 99})
		w.ok(err)
		equal(w, "rows", rowTexts(rows), nil)
		calls, err := w.Calls(w.Context(), "s1", 0)
		w.ok(err)
		equal(w, "ledger", len(calls), 0)
		state, err := w.Engine(w.Context(), "s1")
		w.ok(err)
		equal(w, "engine", string(state), "")
		if _, err := w.Prompt(w.Context(), "s1"); err == nil {
			w.Fatal("its prompt is stored")
		}
		history := w.history(entry.ID)
		equal(w, "text and trace", []string{history.Entry.Inbound.Text, string(history.Trace)}, []string{"", ""})
		equal(w, "outcome", history.Entry.Outcome.Result, inbox.Replied)
		equal(w, "receipt", w.row(row.ID).Receipt.ID, "r"+row.ID.String())
		equal(w, "answer", w.row(row.ID).Msg.Text.Text, "")
		entry.ID = 0
		again, err := w.Accept(w.Context(), []store.Admission{{Entry: entry}})
		w.ok(err)
		equal(w, "the same message again", again[0].IsNew, false)
		entry.ID = history.Entry.ID
		w.crash()
	}
	w.createSession("s1", 0) // the ID of a deleted session can be used again
	rows, err := w.transcript("s1", 0)
	w.ok(err)
	equal(w, "transcript", rowTexts(rows), []string{`1`})
}

func testDeleteBusySession(w *harness) {
	w.createSession("s1", 0)
	w.acceptTexts("a")
	c := w.claim(0, "a")
	busy := func(when string) {
		w.Helper()
		if _, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"}); !errors.Is(err, session.ErrBusy) {
			w.Fatalf("%s: %v", when, err)
		}
		equal(w, "messages", w.session("s1").Messages, 1)
	}
	busy("a turn is claimed")
	w.ok(w.RecordStep(w.Context(), c, store.Step{Doc: []byte(`1`)}))
	w.crash()
	busy("a turn is interrupted")
	w.commit(w.claim(0, "a"), sessionCommit("s1", 1, `2`))
	command := w.entry("/forget")
	command.Exclusive = true
	w.accept(command)
	c = w.claim(0, "/forget")
	_, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"}) // the claimed command itself may delete the session
	w.ok(err)
	w.finish(c, replied())
}

func testDeleteUnsentRows(w *harness) {
	w.acceptTexts("a")
	m := sessionCommit("s1", 0, `1`)
	m.Create = newSession("s1")
	m.Rows = []outbox.Row{newRow(testDM, "1"), newRow(testDM, "2"), newRow(testThread, "3"), newRow(testThread, "4")}
	rows := w.commit(w.claim(0, "a"), m)
	first := w.next(testDM, "1")
	dead := w.next(testThread, "3")
	w.settle(outbox.Settlement{ID: dead.ID, State: outbox.Dead, Reason: "blocked: 3"})
	_, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
	w.ok(err)
	if _, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"}); !errors.Is(err, session.ErrNotFound) {
		w.Fatalf("got %v", err)
	}
	r := w.row(dead.ID)
	equal(w, "the dead one", []string{r.Msg.Text.Text, r.Reason}, []string{"", ""})
	if err := w.RetryRow(w.Context(), dead.ID); err == nil {
		w.Fatal("a row without its text was retried")
	}
	equal(w, "dead letters", w.Stats().Dead, 0)
	equal(w, "what is being sent", w.row(first.ID).Msg.Text.Text, "1")
	w.settle(sentSettlement(first.ID))
	equal(w, "once it is sent", w.row(first.ID).Msg.Text.Text, "")
	w.crash()
	w.settle(sentSettlement(w.next(testDM, "2").ID))
	equal(w, "after a crash", w.row(rows[1].ID).Msg.Text.Text, "")
	w.ok(w.DropRow(w.Context(), rows[3].ID, "dropped"))
	equal(w, "once it is dropped", w.row(rows[3].ID).Msg.Text.Text, "")
	equal(w, "address", w.row(rows[3].ID).Msg.To, testThread)
}

func testDeleteFiles(w *harness) {
	withFile := func(id session.ID, names ...string) {
		w.Helper()
		e := w.entry("look")
		e.Inbound.Files = []chat.File{{Kind: chat.Photo, Path: "/home/x/media/" + names[0]}}
		w.accept(e)
		m := sessionCommit(id, 0, `{"blocks":[{"type":"image","path":"/home/x/media/`+names[0]+`"},{"text":"stored at /home/x/media/`+names[1]+`]"}]}`)
		m.Create = newSession(id)
		m.Session.Files = names[2:]
		w.commit(w.claim(0, "look"), m)
	}
	withFile("s1", fileA, fileB, fileC)
	withFile("s2", fileB, fileB, fileC)
	f, err := w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
	w.ok(err)
	equal(w, "unused files", f.Files, []string{fileA})
	f, err = w.DeleteSession(w.Context(), store.Deletion{ID: "s2"})
	w.ok(err)
	equal(w, "unused files", f.Files, []string{fileB, fileC})
}

func testBranch(w *harness) {
	w.acceptTexts("a")
	m := sessionCommit("s1", 0, `{"b":1, "a": "\u003c"}`, ` [2] `, `3`, `4`)
	m.Create, m.Engine, m.Session.PromptMessages = newSession("s1"), []byte(`{"e":1}`), 3
	m.Calls, m.Session.Calls = []store.Doc[ledger.Record]{[]byte(`{"n":0}`)}, 1
	w.commit(w.claim(0, "a"), m)
	to := *newSession("s2")
	to.Prompt = []byte(`{"another": "prompt"}`)
	rec, err := w.Branch(w.Context(), "s1", 2, to)
	w.ok(err)
	w.crash()
	equal(w, "record", w.session("s2"), rec)
	equal(w, "counts", []int{rec.Messages, rec.Start, rec.Calls, rec.PromptMessages}, []int{2, 0, 0, 0})
	rows, err := w.transcript("s2", 0)
	w.ok(err)
	equal(w, "transcript", rowTexts(rows), []string{`{"b":1, "a": "\u003c"}`, ` [2] `})
	prompt, err := w.Prompt(w.Context(), "s2")
	w.ok(err)
	equal(w, "prompt", string(prompt), string(newSession("s1").Prompt))
	current, _, err := w.Session(w.Context(), key)
	w.ok(err)
	equal(w, "the key's session", current.ID, session.ID("s2"))

	w.acceptTexts("b")
	w.commit(w.claim(0, "b"), sessionCommit("s2", 2, `"other"`))
	rows, err = w.transcript("s1", 0)
	w.ok(err)
	equal(w, "original session", rowTexts(rows), []string{`{"b":1, "a": "\u003c"}`, ` [2] `, `3`, `4`})
	for why, call := range map[string]func() error{
		"an ID that is in use": func() error { _, err := w.Branch(w.Context(), "s2", 1, *newSession("s1")); return err },
		"after the end":        func() error { _, err := w.Branch(w.Context(), "s1", 5, *newSession("s3")); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrConflict) {
			w.Fatalf("%s: %v", why, err)
		}
	}
	if _, err := w.Branch(w.Context(), "s0", 0, *newSession("s3")); !errors.Is(err, session.ErrNotFound) {
		w.Fatalf("branch of an unknown session: %v", err)
	}
	_, err = w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
	w.ok(err)
	equal(w, "the branch", w.session("s2").Messages, 3)
	if rec, err = w.Branch(w.Context(), "s2", 0, *newSession("s4")); err != nil || rec.Messages != 0 {
		w.Fatalf("an empty branch: %+v, %v", rec, err)
	}
}

func testBranchOfCompacted(w *harness) {
	w.acceptTexts("a")
	m := sessionCommit("s1", 0, `0`, `1`, `2`)
	m.Create = newSession("s1")
	w.commit(w.claim(0, "a"), m)
	w.acceptTexts("b")
	m = sessionCommit("s1", 2, `5`, `6`)
	m.Compactions = []store.Compaction{{Length: 3, From: 0, To: 2, Active: rawMessages(`"sum"`, `2`)}}
	m.Engine = []byte(`{"leaf":[0,2]}`)
	w.commit(w.claim(0, "b"), m)
	was := w.session("s1")
	rec, err := w.Branch(w.Context(), "s1", -1, *newSession("s2"))
	w.ok(err)
	equal(w, "numbers", []any{rec.Start, rec.Messages, rec.Archive}, []any{was.Start, was.Messages, was.Archive})
	rec, err = w.Branch(w.Context(), "s1", 3, *newSession("s3"))
	w.ok(err)
	rows, err := w.transcript("s3", 0)
	w.ok(err)
	equal(w, "transcript", strings.Join(rowTexts(rows), " "), `"sum" 2 5`)
	rows, err = w.Rows(w.Context(), "s3", rec.Archive[0])
	w.ok(err)
	equal(w, "archive", rowTexts(rows), []string{`0`, `1`})
	state, err := w.Engine(w.Context(), "s3")
	w.ok(err)
	equal(w, "engine", string(state), `{"leaf":[0,2]}`)
}
