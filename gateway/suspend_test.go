package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
)

func TestASessionThatWasUnderWayInThreeCrashesIsNotGoneOnWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("hello"))
		w.start()
		w.say("7", "hi")
		w.settle(time.Second)
		hang := llmtest.Answer{Text: "never", Wait: make(chan struct{})}
		w.model.Then(hang, hang)
		w.say("7", "one")
		w.settle(time.Second)
		for range 2 {
			w.kill()
			w.start()
			w.settle(time.Second)
		}
		if o := w.outcome("7:2"); o != "failed(set aside)" {
			t.Fatalf("the first message: %s", o)
		}
		w.model.Then(hang)
		w.say("7", "two")
		w.settle(time.Second)
		w.kill()
		w.model.Then(llmtest.Say("here I am"))
		w.start()
		w.settle(time.Minute)
		if o := w.outcome("7:3"); o != "failed(too late)" {
			t.Errorf("the second message: %s", o)
		}
		all := strings.Join(w.room.visible("7"), "\n")
		if !strings.Contains(all, "died three times in a row") || strings.Contains(all, "here I am") {
			t.Errorf("what is seen:\n%s", all)
		}
		w.say("7", "three") // a person asks for it
		w.settle(time.Minute)
		if o := w.outcome("7:4"); o != "replied" {
			t.Errorf("the third message: %s", o)
		}
		w.stop()
	})
}

// TestWhatIsNotGoneOnWithIsToldOfAllMessages that were one input: who wrote several
// must not take one for answered.
func TestWhatIsNotGoneOnWithIsToldOfAllMessages(t *testing.T) {
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
		w.say("7", "hello")
		w.settle(time.Second)
		w.say("7", "one")
		w.settle(time.Second)
		for range 2 {
			w.kill()
			w.start()
			w.settle(time.Second)
		}
		if err := w.gw.Pause(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.say("7", "two")
		w.say("7", "three")
		w.settle(time.Second)
		if err := w.gw.Pause(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		w.kill()
		w.start()
		w.settle(time.Minute)
		seen := w.room.visible("7")
		if last := seen[len(seen)-1]; !strings.Contains(last, "died three times in a row") || !strings.Contains(last, "these 2 messages") {
			t.Errorf("%q", seen)
		}
		w.stop()
	})
}
