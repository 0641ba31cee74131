package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// A Keeper is what a store does with whole sessions.
type Keeper interface {
	DeleteSession(ctx context.Context, id session.ID) (session.Deleted, error)
	Branch(ctx context.Context, from session.ID, rows int, to session.Creation) (session.Record, error)
	Expired(ctx context.Context, before time.Time, max int) ([]session.ID, error)
	SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error)
}

const (
	fileA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.jpg"
	fileB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.pdf"
	fileC = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.txt"
)

func forgetTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"of a deleted session nothing is left": deletesAll,
		"a deleted session takes only its own along": func(w *harness) {
			w.open2("s1", 0)
			w.open2("s2", 0) // the key's now
			entry := w.say("of the other")[0]
			w.commit(w.claim(0, "of the other"), said("s2", 1, `2`))
			_, err := w.DeleteSession(w.Context(), "s1")
			w.ok(err)
			equal(w, "text of another session", w.chain(entry.ID).Entry.Inbound.Text, "of the other")
			rec, ok, err := w.Session(w.Context(), key)
			w.ok(err)
			equal(w, "the key's session", []any{rec.ID, ok}, []any{session.ID("s2"), true})
			rows, err := w.Transcript(w.Context(), "s2", 0)
			w.ok(err)
			equal(w, "transcript", rowTexts(rows), []string{`1`, `2`})
			if _, err := w.DeleteSession(w.Context(), "s1"); !errors.Is(err, session.ErrNotFound) {
				w.Fatalf("deleted twice: %v", err)
			}
		},
		"a conversation in which a turn is under way is not deleted": busyStays,
		"what a deleted session has to send is sent and then gone":   sendsAndForgets,
		"what was said beside the turns of a deleted session is silent too": func(w *harness) {
			w.open2("s1", 0)
			ignored := w.entry("overheard")
			ignored.State, ignored.Inbound.IgnoreRule = inbox.Done, "not_addressed"
			entries := w.accept(ignored)
			cancelled := w.say("cancelled")[0]
			command := w.entry("/stop it")
			command.Exclusive, command.Lane = true, inbox.ImmediateLaneOf(key)
			command = w.accept(command)[0]
			c, err := w.Claim(w.Context(), inbox.ImmediateLaneOf(key), 0)
			w.ok(err)
			m := replied()
			m.Cancel, m.CancelReason = []inbox.Lane{lane}, "/stop"
			m.Rows = []outbox.Row{message(room, "stopped it")}
			w.commit(c, m)
			w.settle(sent(w.next(room, "stopped it").ID))
			waiting := w.say("waits")[0]
			_, err = w.DeleteSession(w.Context(), "s1")
			w.ok(err)
			for _, id := range []inbox.ID{entries[0].ID, cancelled.ID, command.ID} {
				for _, r := range w.chain(id).Rows {
					equal(w, "text of "+r.ID.String(), r.Msg.Text.Text, "")
				}
				equal(w, "text of "+id.String(), w.chain(id).Entry.Inbound.Text, "")
				w.outcome(id)
			}
			equal(w, "text of what waits", w.chain(waiting.ID).Entry.Inbound.Text, "waits")
			w.claim(0, "waits")
		},
		"files go with the last session that uses them":        filesGo,
		"a branch has the same bytes and a life of its own":    branches,
		"a branch of a compacted session keeps what is behind": branchesCompacted,
		"sessions expire by when they were used last": func(w *harness) {
			for i, id := range []session.ID{"s1", "s2", "s3"} {
				w.open2(id, time.Duration(i)*time.Hour)
			}
			ids := func(after time.Duration, most int) []session.ID {
				ids, err := w.Expired(w.Context(), time.Now().Add(after), most)
				w.ok(err)
				return ids
			}
			equal(w, "expired", ids(-time.Hour, 0), nil)
			equal(w, "expired", ids(90*time.Minute, 0), []session.ID{"s1", "s2"})
			equal(w, "expired", ids(90*time.Minute, 1), []session.ID{"s1"})
			_, err := w.DeleteSession(w.Context(), "s1")
			w.ok(err)
			equal(w, "expired", ids(90*time.Minute, 1), []session.ID{"s2"})
		},
		"a made up title never takes the place of a person's": func(w *harness) {
			w.open2("s1", 0)
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
			w.say("a")
			c := w.claim(0, "a")
			m := said("s1", 1, `2`)
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
				w.Fatalf("a session that is not there: %v", err)
			}
		},
	}
}

func deletesAll(w *harness) {
	entry := w.say("my secret")[0]
	m := said("s1", 0, `"0"`, `"my secret"`)
	m.Create, m.Engine, m.Trace = opening("s1"), json.RawMessage(`{"passes":1}`), json.RawMessage(`{"error":"my secret"}`)
	m.Calls, m.Session.Calls = raws(`{"n":0}`), 1
	m.Compactions = []inbox.Compaction{{Append: raws(`"archived secret"`), To: 1}}
	m.Rows = []outbox.Row{message(room, "your secret")}
	row := w.commit(w.claim(0, "my secret"), m)[0]
	w.settle(sent(w.next(room, "your secret").ID))

	f, err := w.DeleteSession(w.Context(), "s1")
	w.ok(err)
	equal(w, "what went", f, session.Deleted{ID: "s1", Messages: 3, Entries: 1, Rows: 1})
	for range 2 {
		_, ok, err := w.SessionByID(w.Context(), "s1")
		w.ok(err)
		equal(w, "it is there", ok, false)
		_, ok, err = w.Session(w.Context(), key)
		w.ok(err)
		equal(w, "its key leads somewhere", ok, false)
		recs, err := w.Sessions(w.Context(), 0)
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
			w.Fatal("its prompt is there")
		}
		chain := w.chain(entry.ID)
		equal(w, "text and trace", []string{chain.Entry.Inbound.Text, string(chain.Trace)}, []string{"", ""})
		equal(w, "outcome", chain.Entry.Outcome.Result, inbox.Replied)
		equal(w, "receipt", w.row(row.ID).Receipt.ID, "r"+row.ID.String())
		equal(w, "answer", w.row(row.ID).Msg.Text.Text, "")
		entry.ID = 0
		again, err := w.Accept(w.Context(), []inbox.Entry{entry})
		w.ok(err)
		equal(w, "the same message again", again[0].IsNew, false)
		entry.ID = chain.Entry.ID
		w.crash()
	}
	w.open2("s1", 0) // an id that was deleted can begin anew
	rows, err := w.Transcript(w.Context(), "s1", 0)
	w.ok(err)
	equal(w, "transcript", rowTexts(rows), []string{`1`})
}

func busyStays(w *harness) {
	w.open2("s1", 0)
	w.say("a")
	c := w.claim(0, "a")
	busy := func(when string) {
		w.Helper()
		if _, err := w.DeleteSession(w.Context(), "s1"); !errors.Is(err, session.ErrBusy) {
			w.Fatalf("%s: %v", when, err)
		}
		equal(w, "messages", w.session("s1").Messages, 1)
	}
	busy("a turn is claimed")
	w.ok(w.RecordStep(w.Context(), c, nil, inbox.Step(`1`)))
	w.crash()
	busy("a turn goes on later")
	w.commit(w.claim(0, "a"), said("s1", 1, `2`))
	command := w.entry("/forget")
	command.Exclusive = true
	w.accept(command)
	c = w.claim(0, "/forget")
	_, err := w.DeleteSession(w.Context(), "s1") // it is the command that asks
	w.ok(err)
	w.commit(c, replied())
}

func sendsAndForgets(w *harness) {
	w.say("a")
	m := said("s1", 0, `1`)
	m.Create = opening("s1")
	m.Rows = []outbox.Row{message(room, "1"), message(room, "2"), message(other, "3"), message(other, "4")}
	rows := w.commit(w.claim(0, "a"), m)
	first := w.next(room, "1")
	dead := w.next(other, "3")
	w.settle(outbox.Settlement{ID: dead.ID, State: outbox.Dead, Reason: "blocked: 3"})
	_, err := w.DeleteSession(w.Context(), "s1")
	w.ok(err)
	if _, err := w.DeleteSession(w.Context(), "s1"); !errors.Is(err, session.ErrNotFound) {
		w.Fatalf("got %v", err)
	}
	r := w.row(dead.ID)
	equal(w, "the dead one", []string{r.Msg.Text.Text, r.Reason}, []string{"", ""})
	if err := w.RetryRow(w.Context(), dead.ID); err == nil {
		w.Fatal("a row without its text is sent again")
	}
	equal(w, "dead letters", w.Stats().Dead, 0)
	equal(w, "what is being sent", w.row(first.ID).Msg.Text.Text, "1")
	w.settle(sent(first.ID))
	equal(w, "once it is sent", w.row(first.ID).Msg.Text.Text, "")
	w.crash()
	w.settle(sent(w.next(room, "2").ID))
	equal(w, "after a crash", w.row(rows[1].ID).Msg.Text.Text, "")
	w.ok(w.DropRow(w.Context(), rows[3].ID, "dropped"))
	equal(w, "once it is dropped", w.row(rows[3].ID).Msg.Text.Text, "")
	equal(w, "address", w.row(rows[3].ID).Msg.To, other)
}

func filesGo(w *harness) {
	withFile := func(id session.ID, names ...string) {
		w.Helper()
		e := w.entry("look")
		e.Inbound.Files = []chat.File{{Kind: chat.Photo, Path: "/home/x/media/" + names[0]}}
		w.accept(e)
		m := said(id, 0, `{"blocks":[{"type":"image","path":"/home/x/media/`+names[0]+`"},{"text":"stored at /home/x/media/`+names[1]+`]"}]}`)
		m.Create = opening(id)
		m.Session.Files = names[2:]
		w.commit(w.claim(0, "look"), m)
	}
	withFile("s1", fileA, fileB, fileC)
	withFile("s2", fileB, fileB, fileC)
	f, err := w.DeleteSession(w.Context(), "s1")
	w.ok(err)
	equal(w, "files of nobody", f.Files, []string{fileA})
	f, err = w.DeleteSession(w.Context(), "s2")
	w.ok(err)
	equal(w, "files of nobody", f.Files, []string{fileB, fileC})
}

func branches(w *harness) {
	w.say("a")
	m := said("s1", 0, `{"b":1, "a": "\u003c"}`, ` [2] `, `3`, `4`)
	m.Create, m.Engine, m.Session.PromptMessages = opening("s1"), json.RawMessage(`{"e":1}`), 3
	m.Calls, m.Session.Calls = raws(`{"n":0}`), 1
	w.commit(w.claim(0, "a"), m)
	to := *opening("s2")
	to.Prompt = json.RawMessage(`{"another": "prompt"}`)
	rec, err := w.Branch(w.Context(), "s1", 2, to)
	w.ok(err)
	w.crash()
	equal(w, "record", w.session("s2"), rec)
	equal(w, "counts", []int{rec.Messages, rec.Start, rec.Calls, rec.PromptMessages}, []int{2, 0, 0, 0})
	rows, err := w.Transcript(w.Context(), "s2", 0)
	w.ok(err)
	equal(w, "transcript", rowTexts(rows), []string{`{"b":1, "a": "\u003c"}`, ` [2] `})
	prompt, err := w.Prompt(w.Context(), "s2")
	w.ok(err)
	equal(w, "prompt", string(prompt), string(opening("s1").Prompt))
	current, _, err := w.Session(w.Context(), key)
	w.ok(err)
	equal(w, "the key's session", current.ID, session.ID("s2"))

	w.say("b")
	w.commit(w.claim(0, "b"), said("s2", 2, `"other"`))
	rows, err = w.Transcript(w.Context(), "s1", 0)
	w.ok(err)
	equal(w, "the one it came from", rowTexts(rows), []string{`{"b":1, "a": "\u003c"}`, ` [2] `, `3`, `4`})
	for why, call := range map[string]func() error{
		"an id that is taken": func() error { _, err := w.Branch(w.Context(), "s2", 1, *opening("s1")); return err },
		"behind the end":      func() error { _, err := w.Branch(w.Context(), "s1", 5, *opening("s3")); return err },
	} {
		if err := call(); !errors.Is(err, inbox.ErrConflict) {
			w.Fatalf("%s: %v", why, err)
		}
	}
	if _, err := w.Branch(w.Context(), "s0", 0, *opening("s3")); !errors.Is(err, session.ErrNotFound) {
		w.Fatalf("of nothing: %v", err)
	}
	_, err = w.DeleteSession(w.Context(), "s1")
	w.ok(err)
	equal(w, "the branch", w.session("s2").Messages, 3)
	if rec, err = w.Branch(w.Context(), "s2", 0, *opening("s4")); err != nil || rec.Messages != 0 {
		w.Fatalf("an empty branch: %+v, %v", rec, err)
	}
}

func branchesCompacted(w *harness) {
	w.say("a")
	m := said("s1", 0, `0`, `1`, `2`)
	m.Create = opening("s1")
	w.commit(w.claim(0, "a"), m)
	w.say("b")
	m = said("s1", 2, `5`, `6`)
	m.Compactions = []inbox.Compaction{{Length: 3, From: 0, To: 2, Active: raws(`"sum"`, `2`)}}
	m.Engine = json.RawMessage(`{"leaf":[0,2]}`)
	w.commit(w.claim(0, "b"), m)
	was := w.session("s1")
	rec, err := w.Branch(w.Context(), "s1", -1, *opening("s2"))
	w.ok(err)
	equal(w, "numbers", []any{rec.Start, rec.Messages, rec.Archive}, []any{was.Start, was.Messages, was.Archive})
	rec, err = w.Branch(w.Context(), "s1", 3, *opening("s3"))
	w.ok(err)
	rows, err := w.Transcript(w.Context(), "s3", 0)
	w.ok(err)
	equal(w, "transcript", strings.Join(rowTexts(rows), " "), `"sum" 2 5`)
	rows, err = w.Rows(w.Context(), "s3", rec.Archive[0])
	w.ok(err)
	equal(w, "archive", rowTexts(rows), []string{`0`, `1`})
	state, err := w.Engine(w.Context(), "s3")
	w.ok(err)
	equal(w, "engine", string(state), `{"leaf":[0,2]}`)
}
