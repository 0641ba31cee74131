// Package storagetest defines the test suite that every store must pass.
//
// It has one function per port, with a test per promise. [Suite] runs all of them, and a
// model test that compares a store with a model in memory under random operations and
// crashes.
package storagetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// An Open opens the store in dir, or creates it if there is none. It fails t if it
// cannot. Closing a store while claims are open and opening it again simulates a crash.
type Open func(t testing.TB, dir string) store.Store

// Suite checks that the stores returned by open keep the promises of all ports, alone and
// together.
func Suite(t *testing.T, open Open) {
	for name, check := range map[string]func(*testing.T, Open){
		"inbox": Inbox, "turns": Turns, "sessions": Sessions, "editor": Editor,
		"outbox": Outbox, "audit": Audit, "jobs": Jobs, "values": Values, "events": Events, "upkeep": Upkeep,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open)
		})
	}
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		checkModel(t, open)
	})
}

// Inbox checks store.Inbox, without StartRuns, which Jobs checks.
func Inbox(t *testing.T, open Open) {
	run(t, open, inboxTests())
	run(t, open, migrationTests())
}

// Turns checks store.Turns.
func Turns(t *testing.T, open Open) { run(t, open, turnTests()) }

// Sessions checks store.Sessions, and what commits do to a session.
func Sessions(t *testing.T, open Open) { run(t, open, sessionTests()) }

// Editor checks store.Editor.
func Editor(t *testing.T, open Open) { run(t, open, editorTests()) }

// Outbox checks store.Outbox.
func Outbox(t *testing.T, open Open) { run(t, open, outboxTests()) }

// Audit checks store.Audit.
func Audit(t *testing.T, open Open) { run(t, open, auditTests()) }

// Jobs checks store.Jobs, and that runs start and end with their occurrences.
func Jobs(t *testing.T, open Open) { run(t, open, jobTests()) }

// Values checks store.Values.
func Values(t *testing.T, open Open) { run(t, open, valueTests()) }

// Events checks store.Events, and the writes that add events.
func Events(t *testing.T, open Open) { run(t, open, eventTests()) }

// Upkeep checks store.Upkeep, without Backup, whose file only the tests of the store itself
// can open; all tests verify and close their stores.
func Upkeep(t *testing.T, open Open) { run(t, open, upkeepTests()) }

func run(t *testing.T, open Open, tests map[string]func(*harness)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newHarness(t, open))
		})
	}
}

// A harness is one store under test.
type harness struct {
	testing.TB
	store.Store
	dir  string
	open Open
	keys int
}

func newHarness(t *testing.T, open Open) *harness {
	w := &harness{TB: t, dir: t.TempDir(), open: open}
	w.Store = open(t, w.dir)
	t.Cleanup(func() {
		if !t.Failed() {
			w.ok(w.Verify(context.Background()))
		}
		w.ok(w.Close())
	})
	return w
}

// crash simulates the end of the process that uses the store and the start of
// another.
func (w *harness) crash() {
	w.Helper()
	w.ok(w.Close())
	w.Store = w.open(w.TB, w.dir)
}

func (w *harness) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// equal fails the test unless got equals want.
func equal[T any](w *harness, what string, got, want T) {
	w.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); d != "" {
		w.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

var (
	testDM     = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
	testThread = chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-8", Thread: "2"}
)

const (
	key  session.Key = "agent:main:telegram:dm:7"
	lane             = inbox.Lane(key)
)

// entry returns an entry with a unique key.
func (w *harness) entry(text string) inbox.Entry {
	w.keys++
	id := fmt.Sprintf("k%d", w.keys)
	return inbox.Entry{
		Lane: lane, Session: key,
		Inbound: chat.Inbound{IdempotencyKey: id, ID: "p" + id, Kind: chat.Message, Address: testDM, Sender: chat.Person{ID: "7"}, Text: text, SentAt: time.Now().UTC()},
	}
}

// accept accepts entries and returns them with their IDs.
func (w *harness) accept(entries ...inbox.Entry) []inbox.Entry {
	w.Helper()
	admissions := make([]store.Admission, len(entries))
	for i, e := range entries {
		admissions[i].Entry = e
	}
	accepted, err := w.Accept(w.Context(), admissions)
	w.ok(err)
	if len(accepted) != len(entries) {
		w.Fatalf("%d entries accepted, got %d answers", len(entries), len(accepted))
	}
	for i := range entries {
		if !accepted[i].IsNew || accepted[i].ID == 0 {
			w.Fatalf("entry %d: %+v, want a new one", i, accepted[i])
		}
		entries[i].ID = accepted[i].ID
	}
	return entries
}

// acceptTexts accepts one entry per text.
func (w *harness) acceptTexts(texts ...string) []inbox.Entry {
	w.Helper()
	var entries []inbox.Entry
	for _, text := range texts {
		entries = append(entries, w.entry(text))
	}
	return w.accept(entries...)
}

// claim claims lane and checks the texts of the claim.
func (w *harness) claim(most int, want ...string) store.Claim {
	w.Helper()
	c, err := w.Claim(w.Context(), lane, most)
	w.ok(err)
	equal(w, "texts of the claim", texts(c.Entries), want)
	if (c.Turn == "") != (len(want) == 0) {
		w.Fatalf("turn %q for %d entries", c.Turn, len(want))
	}
	return c
}

func texts(entries []inbox.Entry) []string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Inbound.Text)
	}
	return list
}

func replied() store.Finish {
	return store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}}
}

func (w *harness) commit(c store.Claim, m store.Turn) []outbox.Row {
	w.Helper()
	rows, err := w.CommitTurn(w.Context(), c, m)
	w.ok(err)
	return rows
}

func (w *harness) finish(c store.Claim, m store.Finish) []outbox.Row {
	w.Helper()
	rows, err := w.FinishTurn(w.Context(), c, m)
	w.ok(err)
	return rows
}

// history returns the history of one entry.
func (w *harness) history(id inbox.ID) store.MessageHistory {
	w.Helper()
	histories, err := w.MessageHistory(w.Context(), id.String())
	w.ok(err)
	if len(histories) != 1 {
		w.Fatalf("%d histories for %s, want 1", len(histories), id)
	}
	return histories[0]
}

func (w *harness) outcome(id inbox.ID) inbox.Outcome {
	w.Helper()
	e := w.history(id).Entry
	if e.State != inbox.Done || e.Outcome == nil {
		w.Fatalf("%s is %s, want done", id, e.State)
	}
	return *e.Outcome
}

func newRow(to chat.Address, text string) outbox.Row {
	return outbox.Row{Role: outbox.Reply, Msg: chat.Outbound{To: to, Text: chat.PlainText(text)}}
}

func (w *harness) enqueue(rows ...outbox.Row) []outbox.Row {
	w.Helper()
	added, err := w.Enqueue(w.Context(), rows)
	w.ok(err)
	return added
}

// next returns the next row of a queue and checks its text.
func (w *harness) next(to chat.Address, text string) outbox.Row {
	w.Helper()
	r, _, ok, err := w.Next(w.Context(), to)
	w.ok(err)
	if !ok || r.Msg.Text.Text != text {
		w.Fatalf("next is %q (%t), want %q", r.Msg.Text.Text, ok, text)
	}
	return r
}

// checkNothingDue checks that no row of a queue is due, and returns the time to
// wait.
func (w *harness) checkNothingDue(to chat.Address) time.Duration {
	w.Helper()
	r, wait, ok, err := w.Next(w.Context(), to)
	w.ok(err)
	if ok {
		w.Fatalf("next is %s %q, want nothing", r.ID, r.Msg.Text.Text)
	}
	return wait
}

func (w *harness) settle(s outbox.Settlement) {
	w.Helper()
	w.ok(w.Settle(w.Context(), s))
}

func sentSettlement(id outbox.ID) outbox.Settlement {
	return outbox.Settlement{ID: id, State: outbox.Sent, Receipt: &chat.Receipt{ID: "r" + id.String()}}
}

func (w *harness) row(id outbox.ID) outbox.Row {
	w.Helper()
	r, err := w.Row(w.Context(), id)
	w.ok(err)
	return r
}

// newSession returns the creation of a session.
func newSession(id session.ID) *store.Creation {
	now := time.Now().UTC()
	return &store.Creation{
		Record: session.Record{ID: id, Key: key, Address: testDM, Owner: "7", Created: now, Updated: now},
		Prompt: []byte(`{"frozen": "` + string(id) + `"}`),
	}
}

// sessionCommit returns a commit that adds messages to a session of before
// messages.
func sessionCommit(id session.ID, before int, messages ...string) store.Turn {
	m := store.Turn{End: replied().End, Session: newSession(id).Record}
	m.Session.Messages = before + len(messages)
	for _, text := range messages {
		m.Messages = append(m.Messages, []byte(text))
	}
	return m
}

// Transcript returns the rows of the active transcript of a session from index from on.
func Transcript(ctx context.Context, s store.Sessions, id session.ID, from int) ([]store.Doc[llm.Message], error) {
	rec, ok, err := s.SessionByID(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return s.Rows(ctx, id, session.Span{From: rec.Start + from, To: rec.Active().To})
}

func (w *harness) transcript(id session.ID, from int) ([]store.Doc[llm.Message], error) {
	return Transcript(w.Context(), w, id, from)
}

func rowTexts[T ~[]byte](rows []T) []string {
	var list []string
	for _, r := range rows {
		list = append(list, string(r))
	}
	return list
}
