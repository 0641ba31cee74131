package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
)

func TestSuspendAfterThreeCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("hello"))
		w.start()
		w.sendText("7", "hi")
		w.advance(time.Second)
		hang := llmtest.Answer{Text: "never", Wait: make(chan struct{})}
		w.model.Then(hang, hang)
		w.sendText("7", "one")
		w.advance(time.Second)
		for range 2 {
			w.kill()
			w.start()
			w.advance(time.Second)
		}
		if o := w.outcome("7:2"); o != "failed(set aside)" {
			t.Fatalf("the first message: %s", o)
		}
		w.model.Then(hang)
		w.sendText("7", "two")
		w.advance(time.Second)
		w.kill()
		w.model.Then(llmtest.Say("here I am"))
		w.start()
		w.advance(time.Minute)
		if o := w.outcome("7:3"); o != "failed(too late)" {
			t.Errorf("the second message: %s", o)
		}
		all := strings.Join(w.adapter.visible("7"), "\n")
		if !strings.Contains(all, "died three times in a row") || strings.Contains(all, "here I am") {
			t.Errorf("what is seen:\n%s", all)
		}
		w.sendText("7", "three") // a new message resumes the conversation
		w.advance(time.Minute)
		if o := w.outcome("7:4"); o != "replied" {
			t.Errorf("the third message: %s", o)
		}
		w.stop()
	})
}

// The notice covers all messages that were one input: none may appear answered.
func TestSuspendNoticeQuotesAllMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		hang := make(chan struct{})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if strings.Contains(r.Newest(), "hello") {
				return llmtest.Say("hi")
			}
			return llmtest.Answer{Text: "never", Wait: hang}
		}
		w.start()
		w.sendText("7", "hello")
		w.advance(time.Second)
		w.sendText("7", "one")
		w.advance(time.Second)
		for range 2 {
			w.kill()
			w.start()
			w.advance(time.Second)
		}
		if err := w.gw.Control().Pause(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.sendText("7", "two")
		w.sendText("7", "three")
		w.advance(time.Second)
		if err := w.gw.Control().Pause(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		w.kill()
		w.start()
		w.advance(time.Minute)
		seen := w.adapter.visible("7")
		if last := seen[len(seen)-1]; !strings.Contains(last, "died three times in a row") || !strings.Contains(last, "these 2 messages") {
			t.Errorf("%q", seen)
		}
		w.stop()
	})
}
