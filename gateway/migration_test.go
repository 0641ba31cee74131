package gateway_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
)

// newMigration returns the event that a chat has a new ID.
func (w *harness) newMigration(from, to string) chat.Inbound {
	in := w.newMessage(from, "")
	in.Kind = chat.Migrated
	at := in.Address
	at.Chat = to
	in.MigratedTo = &at
	return in
}

// After an outage one batch has what was said before a migration, and after it.
func TestMigrationMovesMessagesOfSameBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("first"), llmtest.Say("second"))
		w.configure = func(o *gatewaytest.Options) {
			moves, err := chatmigration.Open(t.Context(), w.store)
			if err != nil {
				t.Fatal(err)
			}
			o.Mode, o.Moves = inbox.Queue, moves
		}
		w.start()
		defer w.stop()
		after := w.newMessage("-100", "two")
		after.Sender.ID = "7"
		batch := []chat.Inbound{w.newMessage("7", "one"), w.newMigration("7", "-100"), after}
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if d := cmp.Diff([]string{"first", "second"}, w.adapter.visible("-100")); d != "" {
			t.Errorf("%s\n%s", d, w.adapter.history())
		}
		if ms := w.transcript(); len(ms) != 4 {
			t.Errorf("the conversation has %d messages", len(ms))
		}
	})
}

// A suspect whose chat gets a new ID still waits for the one before it.
func TestMigrationKeepsSuspectHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		var answers atomic.Bool
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if answers.Load() {
				return llmtest.Say("re: " + r.Newest())
			}
			return llmtest.Answer{Wait: make(chan struct{})}
		}
		w.start()
		for i := range 3 {
			w.sendText(fmt.Sprint(1000+i), "hello")
		}
		for range 2 {
			w.advance(time.Second)
			w.kill()
			w.start()
		}
		defer w.stop()
		w.advance(time.Second)
		before := len(w.model.Requests())
		w.accept(w.newMigration("1001", "-1001"))
		w.advance(time.Minute)
		if n := len(w.model.Requests()) - before; n != 0 {
			t.Errorf("the migration resumed %d turns", n)
		}
		answers.Store(true)
		w.advance(5 * time.Minute)
		if got := w.adapter.visible("-1001"); len(got) != 1 || got[0] != "re: hello" {
			t.Errorf("in the chat with the new ID: %q\n%s", got, w.adapter.history())
		}
	})
}
