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

// What is said right behind a command is said after it.
func TestWhatIsSaidBehindACommandBelongsToWhatTheCommandMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.start()
		defer w.stop()
		w.talk("a")
		batch := []chat.Inbound{w.message("7", "/new"), w.message("7", "b")} // of one poll
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		recs, err := w.store.Sessions(t.Context(), 0)
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d sessions, %v", len(recs), err)
		}
		if r := w.model.Requests(); len(r) != 2 || len(r[1].Messages) != 1 {
			t.Errorf("the second message was answered in the old conversation")
		}
	})
}

func TestAStopCancelsWhatCameBeforeItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Never mind then."))
		w.start()
		defer w.stop()
		batch := []chat.Inbound{w.message("7", "do it"), w.message("7", "/stop"), w.message("7", "do this instead")}
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		if d := cmp.Diff([]string{"cancelled(/stop)", "replied"}, []string{w.outcome("7:1"), w.outcome("7:3")}); d != "" {
			t.Errorf("%s\n%s", d, strings.Join(w.room.visible("7"), "\n"))
		}
	})
}
