package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
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

// The IDs of messages are those of their chat. After a migration the answer neither changes
// nor quotes the message in the new chat that has the ID of its preview or question, and an
// unneeded preview is not deleted there.
func TestMigrationLeavesMessagesOfNewChat(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer llmtest.Answer
		op     string
		want   []string
	}{
		{"edit", llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 3500 * time.Millisecond}, "edit",
			[]string{outbox.RepeatNotice + "\n" + strings.Repeat("word ", 20) + "end"}},
		{"deletion", llmtest.Answer{Text: strings.Repeat("word ", 20), Delay: 3500 * time.Millisecond, Err: llmtest.Fail(llm.Auth).Err}, "delete", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, c.answer)
				w.start()
				defer w.stop()
				in := w.newMessage("-7", "hello")
				in.Address.Kind, in.Sender.ID = chat.Group, "7"
				to := in.Address
				to.Chat = "-100"
				w.adapter.addFaults(fault{op: c.op, before: &chat.SendError{Outcome: chat.Transient, MigratedTo: &to, Reason: "moved"}})
				w.accept(in)
				w.advance(time.Hour)
				all := w.adapter.history()
				if strings.Contains(all, "-100 ~") || strings.Contains(all, "-100 -") || strings.Contains(all, "-100 < ") && strings.Contains(all[strings.Index(all, "-100 < "):], "(re ") {
					t.Errorf("a message of the new chat was changed or quoted:\n%s", all)
				}
				if got := w.adapter.visible("-100"); c.want != nil && !slices.Equal(got, c.want) {
					t.Errorf("in the new chat: %q\n%s", got, all)
				}
			})
		})
	}
}
