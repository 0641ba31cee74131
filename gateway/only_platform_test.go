package gateway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway"
	"hermesd/gateway/chat"
)

// Turns of other platforms, also interrupted ones, wait for a daemon that runs all
// platforms.
func TestOnlyPlatformLeavesOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: make(chan struct{})})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.start()
		w.sendText("7", "before")
		w.advance(time.Second)
		w.kill()
		w.configure = func(o *gateway.Options) { o.OnlyPlatform = chat.Console }
		w.start()
		w.sendText("7", "meanwhile")
		w.advance(time.Hour)
		if n := len(w.model.Requests()); n > 1 {
			t.Errorf("the model was asked %d times", n-1)
		}
		if got := w.adapter.visible("7"); len(got) > 0 {
			t.Errorf("answered: %q", got)
		}
		w.stop()
		for _, only := range []chat.Platform{chat.Telegram, ""} {
			w.configure = func(o *gateway.Options) { o.OnlyPlatform = only }
			w.start()
			w.sendText("7", "last")
			w.advance(time.Hour)
			if only == "" {
				break
			}
			w.stop()
		}
		if got := w.adapter.visible("7"); len(got) == 0 {
			t.Error("nothing is answered")
		}
		for _, key := range []string{"7:1", "7:2", "7:3", "7:4"} {
			if o := w.outcome(key); o == "waiting" || o == "claimed" {
				t.Errorf("%s is %s", key, o)
			}
		}
		w.stop()
	})
}
