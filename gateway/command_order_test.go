package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
)

// Messages that arrive in the same batch after a command are processed after it.
func TestCommandAppliesToLaterMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.start()
		defer w.stop()
		w.talk("a")
		batch := []chat.Inbound{w.newMessage("7", "/new"), w.newMessage("7", "b")} // of one poll
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		recs, err := w.store.Sessions(t.Context(), 0)
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d sessions, %v", len(recs), err)
		}
		if r := w.model.Requests(); len(r) != 2 || len(r[1].Messages) != 1 {
			t.Errorf("the second message was answered in the old conversation")
		}
	})
}

func TestStopCancelsOnlyEarlierMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Never mind then."))
		w.start()
		defer w.stop()
		batch := []chat.Inbound{w.newMessage("7", "do it"), w.newMessage("7", "/stop"), w.newMessage("7", "do this instead")}
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if d := cmp.Diff([]string{"cancelled(/stop)", "replied"}, []string{w.outcome("7:1"), w.outcome("7:3")}); d != "" {
			t.Errorf("%s\n%s", d, strings.Join(w.adapter.visible("7"), "\n"))
		}
	})
}
