// Package storagetest is the suite that every store passes.
package storagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// A Store is a store that can be closed. To close it with claims that are not
// ended, and to open it again, is what a crash is to it.
type Store interface {
	gateway.Store
	Keeper
	gateway.RunStore
	schedule.Store
	io.Closer
}

// An Open opens the store in dir, and makes it if there is none. It fails t if
// it cannot.
type Open func(t testing.TB, dir string) Store

// Suite checks that the stores that open opens keep what the ports promise.
func Suite(t *testing.T, open Open) {
	for _, group := range []map[string]func(*harness){inboxTests(), turnTests(), outboxTests(), sessionTests(), forgetTests(), otherTests(), slotTests()} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, open)
				test(w)
			})
		}
	}
	t.Run("it behaves like its model", func(t *testing.T) {
		t.Parallel()
		checkModel(t, open)
	})
}

// A harness is one store under test.
type harness struct {
	testing.TB
	Store
	dir  string
	open Open
	keys int
}

func newWorld(t *testing.T, open Open) *harness {
	w := &harness{TB: t, dir: t.TempDir(), open: open}
	w.Store = open(t, w.dir)
	t.Cleanup(func() {
		if v, ok := w.Store.(verifier); ok && !t.Failed() {
			w.ok(v.Verify(context.Background()))
		}
		w.ok(w.Close())
	})
	return w
}

// A verifier can tell whether all that it keeps fits.
type verifier interface{ Verify(context.Context) error }

// crash ends the process that has the store, and starts another.
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

// equal fails unless got is want.
func equal[T any](w *harness, what string, got, want T) {
	w.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); d != "" {
		w.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

var (
	room  = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
	other = chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-8", Thread: "2"}
)

const (
	key  session.Key = "agent:main:telegram:dm:7"
	lane             = inbox.Lane(key)
)

// entry returns an entry with a key of its own.
func (w *harness) entry(text string) inbox.Entry {
	w.keys++
	id := fmt.Sprintf("k%d", w.keys)
	return inbox.Entry{
		Lane: lane, Session: key,
		Inbound: chat.Inbound{IdempotencyKey: id, ID: "p" + id, Kind: chat.Message, Address: room, Sender: chat.Person{ID: "7"}, Text: text, SentAt: time.Now().UTC()},
	}
}

// accept adds entries and returns them with their ids.
func (w *harness) accept(entries ...inbox.Entry) []inbox.Entry {
	w.Helper()
	taken, err := w.Accept(w.Context(), entries)
	w.ok(err)
	if len(taken) != len(entries) {
		w.Fatalf("%d entries accepted, got %d answers", len(entries), len(taken))
	}
	for i := range entries {
		if !taken[i].IsNew || taken[i].ID == 0 {
			w.Fatalf("entry %d: %+v, want a fresh one", i, taken[i])
		}
		entries[i].ID = taken[i].ID
	}
	return entries
}

// say accepts one entry per text.
func (w *harness) say(texts ...string) []inbox.Entry {
	w.Helper()
	var entries []inbox.Entry
	for _, text := range texts {
		entries = append(entries, w.entry(text))
	}
	return w.accept(entries...)
}

// claim claims lane and checks which texts it got.
func (w *harness) claim(most int, want ...string) inbox.Claim {
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

func replied() inbox.Commit { return inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}} }

func (w *harness) commit(c inbox.Claim, m inbox.Commit) []outbox.Row {
	w.Helper()
	rows, err := w.CommitTurn(w.Context(), c, m)
	w.ok(err)
	return rows
}

// chain returns the story of one entry.
func (w *harness) chain(id inbox.ID) inbox.MessageHistory {
	w.Helper()
	chains, err := w.MessageHistory(w.Context(), id.String())
	w.ok(err)
	if len(chains) != 1 {
		w.Fatalf("%d chains for %s, want 1", len(chains), id)
	}
	return chains[0]
}

func (w *harness) outcome(id inbox.ID) inbox.Outcome {
	w.Helper()
	e := w.chain(id).Entry
	if e.State != inbox.Done || e.Outcome == nil {
		w.Fatalf("%s is %s, want done", id, e.State)
	}
	return *e.Outcome
}

func message(to chat.Address, text string) outbox.Row {
	return outbox.Row{Role: outbox.Reply, Msg: chat.Outbound{To: to, Text: chat.PlainText(text)}}
}

func (w *harness) enqueue(rows ...outbox.Row) []outbox.Row {
	w.Helper()
	added, err := w.Enqueue(w.Context(), rows)
	w.ok(err)
	return added
}

// next takes the next row of room's queue and checks its text.
func (w *harness) next(to chat.Address, text string) outbox.Row {
	w.Helper()
	r, _, ok, err := w.Next(w.Context(), to)
	w.ok(err)
	if !ok || r.Msg.Text.Text != text {
		w.Fatalf("next is %q (%t), want %q", r.Msg.Text.Text, ok, text)
	}
	return r
}

// nothing checks that nothing of a queue is to be done now.
func (w *harness) nothing(to chat.Address) time.Duration {
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

func sent(id outbox.ID) outbox.Settlement {
	return outbox.Settlement{ID: id, State: outbox.Sent, Receipt: &chat.Receipt{ID: "r" + id.String()}}
}

func (w *harness) row(id outbox.ID) outbox.Row {
	w.Helper()
	r, err := w.Row(w.Context(), id)
	w.ok(err)
	return r
}

// opening is a session that begins.
func opening(id session.ID) *session.Creation {
	now := time.Now().UTC()
	return &session.Creation{
		Record: session.Record{ID: id, Key: key, Address: room, Owner: "7", Created: now, Updated: now},
		Prompt: json.RawMessage(`{"frozen": "` + string(id) + `"}`),
	}
}

// said is a commit that adds messages to a session that has before of them.
func said(id session.ID, before int, messages ...string) inbox.Commit {
	m := replied()
	m.Session = opening(id).Record
	m.Session.Messages = before + len(messages)
	for _, text := range messages {
		m.Messages = append(m.Messages, json.RawMessage(text))
	}
	return m
}

func rowTexts(rows []json.RawMessage) []string {
	var list []string
	for _, r := range rows {
		list = append(list, string(r))
	}
	return list
}
