package gateway_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
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

// A suspect whose chat gets a new ID still waits for the one before it.
func TestMigrationKeepsSuspectHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Wait: make(chan struct{})} }
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
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.advance(5 * time.Minute)
		if got := w.adapter.visible("-1001"); len(got) != 1 || got[0] != "re: hello" {
			t.Errorf("in the chat with the new ID: %q\n%s", got, w.adapter.history())
		}
	})
}
