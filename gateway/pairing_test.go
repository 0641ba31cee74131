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

	"go.uber.org/zap"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// enablePairing makes the daemons issue pairing codes; user 7 is allowlisted. The
// result returns the manager of the running daemon.
func (w *harness) enablePairing(rules map[chat.Account]access.AccountRules) func() *pairing.Manager {
	var b *pairing.Manager
	before := w.configure
	w.configure = func(o *gatewaytest.Options) {
		if before != nil {
			before(o)
		}
		var err error
		if b, err = pairing.Open(w.t.Context(), o.Store.(*bolt.Store), chat.ProfilesOf(chat.Profile{Platform: chat.Telegram, Pairing: true}), o.Log); err != nil {
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

// pairingCode returns the code that was sent to a chat.
func (w *harness) pairingCode(in string) string {
	w.t.Helper()
	seen := w.adapter.visible(in)
	if len(seen) == 0 {
		w.t.Fatalf("no message in %s", in)
	}
	m := codeIn.FindStringSubmatch(seen[len(seen)-1])
	if m == nil {
		w.t.Fatalf("%s got %q", in, seen)
	}
	return m[1]
}

// Before delivery the outbox row must hold the code.
func TestPairingCodeIsNotStoredAfterDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.enablePairing(nil)
		w.refuseSends(1)
		w.start()
		defer w.stop()
		w.accept(w.newMessage("55", "hello?"))
		holds := func() (texts int) {
			rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			return strings.Count(fmt.Sprintf("%+v", rows[0]), "send this code")
		}
		synctest.Wait()
		if holds() != 1 {
			t.Error("what is not delivered yet is gone")
		}
		w.advance(time.Minute)
		w.pairingCode("55")
		if holds() != 0 {
			t.Error("the delivered code is still in the store")
		}
	})
}

func TestPairingCodeGrantsAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Welcome."))
		manager := w.enablePairing(nil)
		w.start()
		first := w.newMessage("55", "secret plans")
		w.accept(first)
		w.advance(time.Second)
		code := w.pairingCode("55")
		if got := w.adapter.visible("55")[0]; !strings.Contains(got, "hermesd pairing approve telegram "+code) {
			t.Errorf("got %q", got)
		}
		w.accept(first) // the platform delivers it again
		second := w.newMessage("55", "hello?")
		w.accept(second)
		w.advance(time.Second)
		if n := len(w.adapter.visible("55")); n != 1 {
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
		if _, err := manager().Approve(t.Context(), chat.Telegram, code); err != nil {
			t.Fatal(err)
		}
		w.sendText("55", "hello!")
		w.advance(time.Minute)
		if got := w.adapter.visible("55"); len(got) != 2 || got[1] != "Welcome." {
			t.Errorf("visible %q", got)
		}
		for _, r := range w.model.Requests() {
			if strings.Contains(fmt.Sprint(r), "secret plans") {
				t.Error("what the stranger wrote reached the model")
			}
		}
		if _, err := manager().Revoke(t.Context(), chat.Telegram, "55"); err != nil {
			t.Fatal(err)
		}
		w.advance(pairing.CodeInterval)
		w.sendText("55", "still there?")
		w.advance(time.Second)
		if again := w.pairingCode("55"); again == code {
			t.Error("the same code again")
		}
	})
}

// Only a direct message gets a code.
func TestPairingCodeOnlyForDirectMessages(t *testing.T) {
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
				manager := w.enablePairing(map[chat.Account]access.AccountRules{{Platform: chat.Telegram, Name: "quiet"}: {UnknownDM: access.Ignore}})
				w.start()
				defer w.stop()
				in := w.newMessage("55", "hello")
				change(&in)
				w.accept(in)
				w.advance(time.Second)
				if n := len(manager().List().Pending); n != 0 || len(w.adapter.visible("")) != 0 {
					t.Errorf("%d codes, visible %q", n, w.adapter.visible(""))
				}
			})
		})
	}
}

// A thousand unknown senders use no more space than three.
func TestPairingManyStrangersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Yes."))
		manager := w.enablePairing(nil)
		w.start()
		defer w.stop()
		long := strings.Repeat("x", 4000)
		for i := range 10 {
			var batch []chat.Inbound
			for j := range 100 {
				for range 2 {
					batch = append(batch, w.newMessage(fmt.Sprint(50_000+100*i+j), long))
				}
			}
			if err := w.gw.Accept(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(time.Minute)
		rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
		if err != nil || len(rows) != pairing.MaxPending || len(manager().List().Pending) != pairing.MaxPending {
			t.Errorf("%d rows, %d codes, %v", len(rows), len(manager().List().Pending), err)
		}
		kept, err := w.store.Value(t.Context(), "pairing")
		if err != nil || len(kept) > 4000 {
			t.Errorf("%d bytes are kept, %v", len(kept), err)
		}
		if n := w.store.Stats().Bytes; n > 4<<20 { // 8 MB were received
			t.Errorf("the store has %d bytes", n)
		}
		lanes, err := w.store.Lanes(t.Context())
		if err != nil || len(lanes) != 0 {
			t.Errorf("lanes %v, %v", lanes, err)
		}
		w.sendText("7", "still there?")
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 1 || got[0] != "Yes." {
			t.Errorf("visible %q", got)
		}
	})
}

// storedCode returns the number of stored codes and of rows that hold one.
func (w *harness) storedCode() (codes, rows int) {
	w.t.Helper()
	b, err := pairing.Open(w.t.Context(), w.store, chat.ProfilesOf(chat.Profile{Platform: chat.Telegram, Pairing: true}), zap.NewNop())
	if err != nil {
		w.t.Fatal(err)
	}
	all, _, err := w.store.Outbox(w.t.Context(), outbox.Query{Sent: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(b.List().Pending), len(all)
}

// A refused write stores neither a code nor the message with it, and the sender is
// offered another code at once.
func TestPairingRefusedWriteOffersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		broken := &failingStore{}
		manager := w.enablePairing(nil)
		inner := w.configure
		w.configure = func(o *gatewaytest.Options) {
			inner(o)
			broken.Store = o.Store
			o.Store, o.Log = broken, nil
		}
		w.start()
		defer w.stop()
		in := w.newMessage("55", "hello")
		broken.accept = errors.New("no space left on device")
		for range 2 {
			if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err == nil {
				t.Fatal("accepted")
			}
			w.advance(time.Second)
			if codes, rows := w.storedCode(); codes+rows+len(manager().List().Pending)+len(w.adapter.visible("55")) != 0 {
				t.Fatalf("%d codes, %d rows, visible %q", codes, rows, w.adapter.visible("55"))
			}
		}
		broken.accept = nil
		before := w.store.Stats().Commits
		w.accept(in)
		w.advance(time.Second)
		if n := w.store.Stats().Commits - before; n != 2 {
			t.Errorf("%d commits for a message with its code, and for the receipt of that", n)
		}
		if _, err := manager().Approve(t.Context(), chat.Telegram, w.pairingCode("55")); err != nil {
			t.Error(err)
		}
	})
}

// The process dies before or after the write that accepts a stranger's message: the code
// and the message with it are both stored or both not, and there is one code.
func TestPairingCodeSurvivesCrash(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint(stored), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t)
				manager := w.enablePairing(nil)
				inner := w.configure
				w.configure = func(o *gatewaytest.Options) { inner(o); o.Store, o.Log = &lastAcceptStore{o.Store, stored}, nil }
				w.start()
				in := w.newMessage("55", "hello")
				if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err == nil {
					t.Fatal("accepted")
				}
				w.kill()
				w.configure = inner
				w.start()
				defer w.stop()
				if codes, rows := w.storedCode(); stored && codes+rows != 2 || !stored && codes+rows != 0 {
					t.Errorf("%d codes, %d rows", codes, rows)
				}
				w.accept(in) // the platform delivers it again
				w.advance(time.Minute)
				if n := len(w.adapter.visible("55")); n != 1 {
					t.Errorf("%d messages", n)
				}
				if _, err := manager().Approve(t.Context(), chat.Telegram, w.pairingCode("55")); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A lastAcceptStore is the store of a process that dies before or after the write of Accept.
type lastAcceptStore struct {
	store.Store
	stored bool
}

func (s *lastAcceptStore) Accept(ctx context.Context, admissions []store.Admission) ([]store.Acceptance, error) {
	if s.stored {
		if _, err := s.Store.Accept(ctx, admissions); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("died")
}

// A failingStore fails to accept.
type failingStore struct {
	store.Store
	accept error
}

func (s *failingStore) Accept(ctx context.Context, admissions []store.Admission) ([]store.Acceptance, error) {
	if s.accept != nil {
		return nil, s.accept
	}
	return s.Store.Accept(ctx, admissions)
}
