package storagetest

import (
	"errors"
	"fmt"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func rawMessages(texts ...string) (rows []store.Doc[llm.Message]) {
	for _, s := range texts {
		rows = append(rows, []byte(s))
	}
	return rows
}

func sessionTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"a transcript only grows, byte for byte": func(w *harness) {
			w.acceptTexts("a")
			m := sessionCommit("s1", 0, `{"b":1, "a": "\u003c"}`, ` [2] `)
			m.Create = newSession("s1")
			w.commit(w.claim(0, "a"), m)
			w.acceptTexts("b")
			w.commit(w.claim(0, "b"), sessionCommit("s1", 2, `3`))
			w.crash()
			all, err := w.transcript("s1", 0)
			w.ok(err)
			equal(w, "transcript", rowTexts(all), []string{`{"b":1, "a": "\u003c"}`, ` [2] `, `3`})
			tail, err := w.transcript("s1", 2)
			w.ok(err)
			equal(w, "tail", rowTexts(tail), []string{`3`})
			none, err := w.transcript("s1", 3)
			w.ok(err)
			equal(w, "after the end", rowTexts(none), nil)
			none, err = w.transcript("s0", 0)
			w.ok(err)
			equal(w, "of an unknown session", rowTexts(none), nil)
		},
		"transcripts do not run into each other": func(w *harness) {
			for i, id := range []session.ID{"s1", "s10", "s"} {
				w.acceptTexts("a")
				m := sessionCommit(id, 0, fmt.Sprint(i))
				m.Create = newSession(id)
				w.commit(w.claim(0, "a"), m)
			}
			rows, err := w.transcript("s1", 0)
			w.ok(err)
			equal(w, "transcript", rowTexts(rows), []string{"0"})
		},
		"a prompt is stored once": func(w *harness) {
			w.acceptTexts("a")
			c := w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, store.Step{Create: newSession("s1"), Doc: []byte(`1`)}))
			w.crash()
			rec, ok, err := w.Session(w.Context(), key)
			w.ok(err)
			if !ok || rec.ID != "s1" || rec.Messages != 0 {
				w.Fatalf("got %+v (%t)", rec, ok)
			}
			changed := newSession("s1")
			changed.Prompt = []byte(`{"frozen": "another"}`)
			c = w.claim(0, "a")
			w.ok(w.RecordStep(w.Context(), c, store.Step{Create: changed, Doc: []byte(`2`)}))
			m := sessionCommit("s1", 0, `1`)
			m.Create = changed
			w.commit(c, m)
			prompt, err := w.Prompt(w.Context(), "s1")
			w.ok(err)
			equal(w, "prompt", string(prompt), string(newSession("s1").Prompt))
			if _, err := w.Prompt(w.Context(), "s2"); err == nil {
				w.Fatal("an unknown session has a prompt")
			}
		},
		"a prompt is replaced only by a commit with a prompt": func(w *harness) {
			w.createSession("s1", 0)
			w.acceptTexts("/reload")
			m := sessionCommit("s1", 1)
			m.Session.Revision, m.Prompt, m.Engine = 1, []byte(`{"frozen": "again"}`), []byte(`{"passes":1}`)
			c := w.claim(0, "/reload")
			bad := m
			bad.Session.ID = ""
			if _, err := w.CommitTurn(w.Context(), c, bad); !errors.Is(err, store.ErrConflict) {
				w.Fatalf("a prompt without a session: %v", err)
			}
			w.commit(c, m)
			w.crash()
			prompt, err := w.Prompt(w.Context(), "s1")
			w.ok(err)
			equal(w, "prompt", string(prompt), `{"frozen": "again"}`)
			state, err := w.Engine(w.Context(), "s1")
			w.ok(err)
			equal(w, "engine", string(state), `{"passes":1}`)
			equal(w, "revision", w.session("s1").Revision, 1)
		},
		"a prompt is built again over the stored record": func(w *harness) {
			w.createSession("s1", 0)
			w.ok(w.SetTitle(w.Context(), "s1", "Taxes"))
			w.acceptTexts("/reload", "/model")
			c := w.claim(1, "/reload")
			m := replied()
			m.Rebuild = &store.Rebuild{Session: "s1", Prompt: []byte(`{"frozen": "again"}`), Break: "reload"}
			w.finish(c, m)
			m.Rebuild = &store.Rebuild{Session: "s1"}
			m.Settings = map[session.ID]session.Settings{"s1": {Model: "m"}}
			w.finish(w.claim(1, "/model"), m)
			w.crash()
			prompt, err := w.Prompt(w.Context(), "s1")
			w.ok(err)
			equal(w, "prompt", string(prompt), `{"frozen": "again"}`)
			rec := w.session("s1")
			equal(w, "record", []any{rec.Title, rec.Revision, rec.PendingBreak, rec.Messages, rec.Settings.Model}, []any{"Taxes", 1, "reload", 1, "m"})
		},
		"a command on a deleted session is refused": func(w *harness) {
			w.acceptTexts("/model")
			c := w.claim(0, "/model")
			for _, m := range []store.Finish{
				{End: replied().End, Rebuild: &store.Rebuild{Session: "s1"}},
				{End: replied().End, Settings: map[session.ID]session.Settings{"s1": {}}},
				{End: replied().End, SetCurrent: map[session.Key]session.ID{key: "s1"}},
			} {
				if _, err := w.FinishTurn(w.Context(), c, m); !errors.Is(err, store.ErrConflict) {
					w.Fatalf("%+v: %v, want %v", m, err, store.ErrConflict)
				}
			}
			w.finish(c, replied())
		},
		"a compaction archives and deletes nothing": func(w *harness) {
			w.acceptTexts("a")
			m := sessionCommit("s1", 0, `0`, `1`, `2`, `3`)
			m.Create = newSession("s1")
			w.commit(w.claim(0, "a"), m)
			w.acceptTexts("b")
			m = sessionCommit("s1", 3, `6`)
			m.Compactions = []store.Compaction{
				{Length: 4, Append: rawMessages(`4`, `5`), From: 1, To: 4, Active: rawMessages(`0`, `"sum of 1 to 3"`, `4`, `5`)},
				{Length: 4, From: 1, To: 3, Active: rawMessages(`0`, `"sum of 1 to 4"`, `5`)},
			}
			c := w.claim(0, "b")
			for _, spoil := range []func(*store.Turn){
				func(m *store.Turn) { m.Compactions[0].Length = 5 },
				func(m *store.Turn) { m.Compactions[0].To = 7 },
				func(m *store.Turn) { m.Compactions[1].From = 4 },
				func(m *store.Turn) { m.Session.Messages++ },
			} {
				bad := m
				bad.Compactions = append([]store.Compaction(nil), m.Compactions...)
				spoil(&bad)
				if _, err := w.CommitTurn(w.Context(), c, bad); !errors.Is(err, store.ErrConflict) {
					w.Fatalf("a conflicting compaction: %v", err)
				}
			}
			w.commit(c, m)
			w.acceptTexts("c")
			m = sessionCommit("s1", 4, `7`)
			w.commit(w.claim(0, "c"), m)
			w.crash()
			rows, err := w.transcript("s1", 0)
			w.ok(err)
			equal(w, "active", rowTexts(rows), []string{`0`, `"sum of 1 to 4"`, `5`, `6`, `7`})
			rows, err = w.transcript("s1", 3)
			w.ok(err)
			equal(w, "from 3 on", rowTexts(rows), []string{`6`, `7`})
			var archived []string
			for _, span := range w.session("s1").Archive {
				rows, err := w.Rows(w.Context(), "s1", span)
				w.ok(err)
				archived = append(archived, rowTexts(rows)...)
			}
			equal(w, "archived", archived, []string{`1`, `2`, `3`, `"sum of 1 to 3"`, `4`})
		},
		"a ledger grows with its session": func(w *harness) {
			w.createSession("s1", 0)
			for i := range 3 {
				w.acceptTexts("a")
				m := sessionCommit("s1", 1+i, `1`)
				m.Calls = []store.Doc[ledger.Record]{[]byte(fmt.Sprintf(`{"n":%d}`, 2*i)), []byte(fmt.Sprintf(`{"n":%d}`, 2*i+1))}
				m.Session.Calls = 2 * (i + 1)
				c := w.claim(0, "a")
				bad := m
				bad.Session.Calls++
				if _, err := w.CommitTurn(w.Context(), c, bad); !errors.Is(err, store.ErrConflict) {
					w.Fatalf("a ledger with a gap: %v", err)
				}
				w.commit(c, m)
			}
			w.crash()
			calls, err := w.Calls(w.Context(), "s1", 4)
			w.ok(err)
			equal(w, "calls", rowTexts(calls), []string{`{"n":4}`, `{"n":5}`})
			calls, err = w.Calls(w.Context(), "s2", 0)
			w.ok(err)
			equal(w, "calls of another", rowTexts(calls), nil)
		},
		"a new session becomes current, and the old one can be resumed": func(w *harness) {
			w.createSession("s1", 0)
			w.createSession("s2", time.Minute)
			rec, _, err := w.Session(w.Context(), key)
			w.ok(err)
			equal(w, "current", rec.ID, "s2")
			w.acceptTexts("/resume")
			m := replied()
			m.SetCurrent = map[session.Key]session.ID{key: "s1"}
			w.finish(w.claim(0, "/resume"), m)
			rec, _, err = w.Session(w.Context(), key)
			w.ok(err)
			equal(w, "current", rec.ID, "s1")
			w.acceptTexts("/resume")
			m.SetCurrent[key] = "nowhere"
			c := w.claim(0, "/resume")
			if _, err := w.FinishTurn(w.Context(), c, m); err == nil {
				w.Fatal("a key points to an unknown session")
			}
		},
		"a commit can create a session without committing to it": func(w *harness) {
			w.acceptTexts("/new")
			m := replied()
			m.Create = newSession("s1")
			w.finish(w.claim(0, "/new"), m)
			rec, ok, err := w.Session(w.Context(), key)
			w.ok(err)
			if !ok || rec.ID != "s1" {
				w.Fatalf("got %+v (%t)", rec, ok)
			}
		},
		"sessions are ordered by last use": func(w *harness) {
			w.createSession("s1", 0)
			w.createSession("s2", time.Minute)
			w.createSession("s3", 2*time.Minute)
			w.acceptTexts("again")
			m := sessionCommit("s1", 1, `2`)
			m.Session.Updated = time.Now().UTC().Add(time.Hour)
			w.commit(w.claim(0, "again"), m)
			w.crash()
			recs, err := w.Sessions(w.Context(), session.Query{Max: 2})
			w.ok(err)
			equal(w, "sessions", sessionIDs(recs), []session.ID{"s1", "s3"})
			recs, err = w.Sessions(w.Context(), session.Query{})
			w.ok(err)
			equal(w, "sessions", sessionIDs(recs), []session.ID{"s1", "s3", "s2"})
		},
		"two turns cannot append at the same position": func(w *harness) {
			w.createSession("s1", 0)
			w.acceptTexts("a")
			c := w.claim(0, "a")
			if _, err := w.CommitTurn(w.Context(), c, sessionCommit("s1", 0, `lost`)); err == nil {
				w.Fatal("a row was written twice")
			}
			if _, err := w.CommitTurn(w.Context(), c, sessionCommit("s1", 2, `gap`)); err == nil {
				w.Fatal("a row was written after a gap")
			}
			w.commit(c, sessionCommit("s1", 1, `2`))
		},
		"a running turn does not undo /new": func(w *harness) {
			for _, recorded := range []bool{true, false} {
				old, young := session.ID(fmt.Sprint("old", recorded)), session.ID(fmt.Sprint("young", recorded))
				w.acceptTexts("a")
				c := w.claim(0, "a")
				first := newSession(old)
				if recorded {
					w.ok(w.RecordStep(w.Context(), c, store.Step{Create: first, Doc: []byte(`1`)}))
				}
				cmd := w.entry("/new")
				cmd.Lane = inbox.ImmediateLaneOf(key)
				w.accept(cmd)
				now, err := w.Claim(w.Context(), cmd.Lane, 0)
				w.ok(err)
				m := replied()
				m.Create = newSession(young)
				w.finish(now, m)
				if recorded {
					w.ok(w.RecordStep(w.Context(), c, store.Step{Create: first, Doc: []byte(`2`)}))
				}
				late := sessionCommit(old, 0, `1`)
				late.Create = first
				w.commit(c, late)
				rec, _, err := w.Session(w.Context(), key)
				w.ok(err)
				equal(w, "current", rec.ID, young)
				equal(w, "messages", w.session(old).Messages, 1)
			}
		},
		"an unknown session is not an error": func(w *harness) {
			if _, ok, err := w.Session(w.Context(), "k"); ok || err != nil {
				w.Fatal(ok, err)
			}
			if _, ok, err := w.SessionByID(w.Context(), "s"); ok || err != nil {
				w.Fatal(ok, err)
			}
		},
		"sessions expire by last use": func(w *harness) {
			for i, id := range []session.ID{"s1", "s2", "s3"} {
				w.createSession(id, time.Duration(i)*time.Hour)
			}
			ids := func(after time.Duration, most int) []session.ID {
				recs, err := w.Sessions(w.Context(), session.Query{Before: time.Now().Add(after), Oldest: true, Max: most})
				w.ok(err)
				return sessionIDs(recs)
			}
			equal(w, "expired", ids(-time.Hour, 0), nil)
			equal(w, "expired", ids(90*time.Minute, 0), []session.ID{"s1", "s2"})
			equal(w, "expired", ids(90*time.Minute, 1), []session.ID{"s1"})
			recs, err := w.Sessions(w.Context(), session.Query{Before: time.Now().Add(90 * time.Minute), Max: 1})
			w.ok(err)
			equal(w, "the newest that is expired", sessionIDs(recs), []session.ID{"s2"})
			_, err = w.DeleteSession(w.Context(), store.Deletion{ID: "s1"})
			w.ok(err)
			equal(w, "expired", ids(90*time.Minute, 1), []session.ID{"s2"})
		},
	}
}

// createSession creates a session with one message, last used at now plus age.
func (w *harness) createSession(id session.ID, age time.Duration) {
	w.Helper()
	w.acceptTexts("open")
	m := sessionCommit(id, 0, `1`)
	m.Create = newSession(id)
	m.Session.Updated = m.Session.Updated.Add(age)
	w.commit(w.claim(0, "open"), m)
}

func (w *harness) session(id session.ID) session.Record {
	w.Helper()
	rec, ok, err := w.SessionByID(w.Context(), id)
	w.ok(err)
	if !ok {
		w.Fatalf("no session %s", id)
	}
	return rec
}

func sessionIDs(recs []session.Record) []session.ID {
	var list []session.ID
	for _, r := range recs {
		list = append(list, r.ID)
	}
	return list
}
