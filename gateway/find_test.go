package gateway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
)

// An unsearchableAdapter implements Find, but every call fails.
type unsearchableAdapter struct {
	*fakeAdapter
	err   error
	asked int
	since time.Duration // age of the message at the last call
}

func (l *unsearchableAdapter) Find(_ context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	l.asked++
	l.since = time.Since(m.CreatedAt)
	return chat.Receipt{}, false, l.err
}

func TestFindFailureDelaysRepliesOnlyBriefly(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		wait time.Duration
		asks bool // more than once
	}{
		{"it never will", &chat.SendError{Outcome: chat.Permanent, Reason: "the app has no scope channels:history"}, time.Minute, false},
		{"it does not now", errors.New("away"), 40 * time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
				l := &unsearchableAdapter{fakeAdapter: w.adapter, err: c.err}
				w.configure = func(o *gatewaytest.Options) { o.Accounts = accountsOf(l); o.Streaming = false }
				w.start()
				defer w.stop()
				w.adapter.addFaults(fault{op: "send", after: errors.New("the connection was cut")})
				w.sendText("7", "a")
				w.advance(time.Second)
				w.sendText("7", "b")
				w.advance(c.wait)
				if d := cmp.Diff([]string{"One.", "(may be a repeat)\nOne.", "Two."}, w.adapter.visible("7")); d != "" {
					t.Error(d)
				}
				if l.asked == 0 || (l.asked > 1) != c.asks || l.asked > 50 {
					t.Errorf("it was asked %d times", l.asked)
				}
				if l.since > time.Hour {
					t.Errorf("the message was made %v before", l.since)
				}
			})
		})
	}
}

// A platform is asked for a message no sooner than it allows.
func TestFindHonorsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."))
		l := &unsearchableAdapter{fakeAdapter: w.adapter, err: rateLimitError(4 * time.Minute)}
		w.configure = func(o *gatewaytest.Options) { o.Accounts = accountsOf(l); o.Streaming = false }
		w.start()
		defer w.stop()
		w.adapter.addFaults(fault{op: "send", after: errors.New("the connection was cut")})
		w.sendText("7", "a")
		w.advance(10 * time.Minute)
		if l.asked != 3 {
			t.Errorf("it was asked %d times in ten minutes, every four minutes is allowed", l.asked)
		}
	})
}
