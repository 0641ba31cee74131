package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/storage/bolt"
)

// pairs has a world offer codes to strangers; person 7 is on a list. It returns
// the book of the daemon that runs.
func (w *harness) pairs(rules map[chat.Account]access.AccountRules) func() *pairing.Manager {
	var b *pairing.Manager
	before := w.set
	w.set = func(o *gateway.Options) {
		if before != nil {
			before(o)
		}
		var err error
		if b, err = pairing.Open(w.t.Context(), o.Store.(*bolt.Store), o.Log); err != nil {
			w.t.Fatal(err)
		}
		if rules == nil {
			rules = map[chat.Account]access.AccountRules{account: {AllowFrom: []string{"7"}}}
		}
		if o.Access, err = access.New(access.Policy{Accounts: rules, Pairing: b}); err != nil {
			w.t.Fatal(err)
		}
		o.Pairing = b
	}
	return func() *pairing.Manager { return b }
}

var codeIn = regexp.MustCompile("\n([A-HJ-NP-Z2-9]{8})\n")

// told returns the code that was told in a chat.
func (w *harness) told(in string) string {
	w.t.Helper()
	seen := w.room.visible(in)
	if len(seen) == 0 {
		w.t.Fatalf("nothing was said in %s", in)
	}
	m := codeIn.FindStringSubmatch(seen[len(seen)-1])
	if m == nil {
		w.t.Fatalf("%s was told %q", in, seen)
	}
	return m[1]
}

// TestACodeThatWasToldIsKeptNowhere: while it is not told the row must hold it.
func TestACodeThatWasToldIsKeptNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.pairs(nil)
		w.busy(1)
		w.start()
		defer w.stop()
		w.offer(w.message("55", "hello?"))
		holds := func() (texts int) {
			rows, err := w.store.Outbox(t.Context(), true)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			return strings.Count(fmt.Sprintf("%+v", rows[0]), "give this code")
		}
		synctest.Wait()
		if holds() != 1 {
			t.Error("what is not delivered yet is gone")
		}
		w.settle(time.Minute)
		w.told("55")
		if holds() != 0 {
			t.Error("what was delivered still stands in the store")
		}
	})
}

func TestAStrangerIsLetInByACode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Welcome."))
		book := w.pairs(nil)
		w.start()
		first := w.message("55", "secret plans")
		w.offer(first)
		w.settle(time.Second)
		code := w.told("55")
		if got := w.room.visible("55")[0]; !strings.Contains(got, "hermesd pairing approve telegram "+code) {
			t.Errorf("told %q", got)
		}
		w.offer(first) // the platform delivers it again
		second := w.message("55", "hello?")
		w.offer(second)
		w.settle(time.Second)
		if n := len(w.room.visible("55")); n != 1 {
			t.Errorf("%d answers", n)
		}
		for key, want := range map[string]string{first.IdempotencyKey: "replied(pairing_offered)", second.IdempotencyKey: "silent(pairing_recent)"} {
			if got := w.outcome(key); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
			chains, err := w.store.MessageHistory(t.Context(), key)
			if err != nil || len(chains) != 1 || chains[0].Entry.Inbound.Text != "" {
				t.Errorf("what the stranger wrote is kept: %+v, %v", chains, err)
			}
		}
		w.kill()
		w.start()
		defer w.stop()
		if _, err := book().Approve(t.Context(), chat.Telegram, code); err != nil {
			t.Fatal(err)
		}
		w.say("55", "hello!")
		w.settle(time.Minute)
		if got := w.room.visible("55"); len(got) != 2 || got[1] != "Welcome." {
			t.Errorf("visible %q", got)
		}
		for _, r := range w.model.Requests() {
			if strings.Contains(fmt.Sprint(r), "secret plans") {
				t.Error("what the stranger wrote reached the model")
			}
		}
		if _, err := book().Revoke(t.Context(), chat.Telegram, "55"); err != nil {
			t.Fatal(err)
		}
		w.settle(pairing.CodeInterval)
		w.say("55", "still there?")
		w.settle(time.Second)
		if again := w.told("55"); again == code {
			t.Error("the same code again")
		}
	})
}

// Only a message that somebody writes directly is offered a code.
func TestNothingElseGetsACode(t *testing.T) {
	for name, change := range map[string]func(*chat.Inbound){
		"a group":       func(in *chat.Inbound) { in.Address.Kind = chat.Group },
		"a bot":         func(in *chat.Inbound) { in.Sender.Bot = true },
		"nobody":        func(in *chat.Inbound) { in.Sender.ID = "" },
		"an edit":       func(in *chat.Inbound) { in.Kind, in.EditedKey = chat.Edit, "x" },
		"a button":      func(in *chat.Inbound) { in.Kind = chat.Callback },
		"who is left":   func(in *chat.Inbound) { in.IgnoreRule = "not_addressed" },
		"another bot's": func(in *chat.Inbound) { in.Address.Account = "quiet" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t)
				book := w.pairs(map[chat.Account]access.AccountRules{{Platform: chat.Telegram, Name: "quiet"}: {UnknownDM: access.Ignore}})
				w.start()
				defer w.stop()
				in := w.message("55", "hello")
				change(&in)
				w.offer(in)
				w.settle(time.Second)
				if n := len(book().List().Pending); n != 0 || len(w.room.visible("")) != 0 {
					t.Errorf("%d codes, visible %q", n, w.room.visible(""))
				}
			})
		})
	}
}

// A thousand strangers cost what three do.
func TestACrowdOfStrangersFillsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Yes."))
		book := w.pairs(nil)
		w.start()
		defer w.stop()
		long := strings.Repeat("x", 4000)
		for i := range 10 {
			var batch []chat.Inbound
			for j := range 100 {
				for range 2 {
					batch = append(batch, w.message(fmt.Sprint(50_000+100*i+j), long))
				}
			}
			if err := w.gw.Accept(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(time.Minute)
		rows, err := w.store.Outbox(t.Context(), true)
		if err != nil || len(rows) != pairing.MaxPending || len(book().List().Pending) != pairing.MaxPending {
			t.Errorf("%d rows, %d codes, %v", len(rows), len(book().List().Pending), err)
		}
		kept, err := w.store.Value(t.Context(), "pairing")
		if err != nil || len(kept) > 4000 {
			t.Errorf("%d bytes are kept, %v", len(kept), err)
		}
		if n := w.store.Stats().Bytes; n > 4<<20 { // 8 MB were written to us
			t.Errorf("the store has %d bytes", n)
		}
		lanes, err := w.store.Lanes(t.Context())
		if err != nil || len(lanes) != 0 {
			t.Errorf("lanes %v, %v", lanes, err)
		}
		w.say("7", "still there?")
		w.settle(time.Minute)
		if got := w.room.visible("7"); len(got) != 1 || got[0] != "Yes." {
			t.Errorf("visible %q", got)
		}
	})
}

// What cannot be taken promises nothing, and what cannot be told is asked again.
func TestAStrangerWhoCouldNotBeToldMayAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		broken := &brokenStore{}
		book := w.pairs(nil)
		inner := w.set
		w.set = func(o *gateway.Options) {
			inner(o)
			broken.Store = o.Store
			o.Store, o.Log = broken, nil
		}
		w.start()
		defer w.stop()
		in := w.message("55", "hello")
		broken.accept = errors.New("no space left on device")
		if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err == nil {
			t.Fatal("accepted")
		}
		broken.accept, broken.enqueue = nil, errors.New("no space left on device")
		w.offer(in)
		if n := len(book().List().Pending); n != 0 {
			t.Errorf("%d codes nobody was told", n)
		}
		broken.enqueue = nil
		w.say("55", "hello?")
		w.settle(time.Second)
		if _, err := book().Approve(t.Context(), chat.Telegram, w.told("55")); err != nil {
			t.Error(err)
		}
	})
}

// A brokenStore refuses some writes.
type brokenStore struct {
	gateway.Store
	accept, enqueue error
}

func (s *brokenStore) Accept(ctx context.Context, entries []inbox.Entry) ([]inbox.Acceptance, error) {
	if s.accept != nil {
		return nil, s.accept
	}
	return s.Store.Accept(ctx, entries)
}

func (s *brokenStore) Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error) {
	if s.enqueue != nil {
		return nil, s.enqueue
	}
	return s.Store.Enqueue(ctx, rows)
}
