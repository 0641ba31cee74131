package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
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
		w.configure = func(o *gatewaytest.Options) { o.OnlyPlatform = chat.Console }
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
			w.configure = func(o *gatewaytest.Options) { o.OnlyPlatform = only }
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

// A reply that was being sent when the process died stays in doubt while its platform is
// not configured, and is looked for where that is possible.
func TestUncertainReplyWithoutPlatform(t *testing.T) {
	for _, canFind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Say("Hello."))
			var a chat.Adapter = w.adapter
			want := []string{"Hello.", "(may be a repeat)\nHello."}
			if canFind {
				a, want = &searchableAdapter{w.adapter}, want[:1]
			}
			w.adapter.addFaults(fault{op: "send", delay: 2 * time.Second})
			for _, connected := range []*accounts.Set{accountsOf(a), accounts.New(accounts.Options{Log: zap.NewNop()}), accountsOf(a)} {
				w.configure = func(o *gatewaytest.Options) { o.Accounts = connected }
				w.start()
				if w.sendCount == 0 {
					w.sendText("7", "hi")
					w.advance(time.Second)
					w.kill()
					continue
				}
				w.advance(time.Hour)
				w.stop()
			}
			if d := cmp.Diff(want, w.adapter.visible("7")); d != "" {
				t.Errorf("can find %v: %s", canFind, d)
			}
		})
	}
}

// A searchableAdapter finds every message.
type searchableAdapter struct{ *fakeAdapter }

func (searchableAdapter) Find(context.Context, chat.Outbound) (chat.Receipt, bool, error) {
	return chat.Receipt{ID: "found"}, true, nil
}
