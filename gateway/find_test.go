package gateway_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway"
	"hermesd/gateway/chat"
)

// A library is a room that can be asked what it has, but does not tell.
type library struct {
	*room
	err   error
	asked int
}

func (l *library) Find(context.Context, chat.Outbound) (chat.Receipt, bool, error) {
	l.asked++
	return chat.Receipt{}, false, l.err
}

func TestAPlatformThatDoesNotTellHoldsRepliesUpForAWhileOnly(t *testing.T) {
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
				l := &library{room: w.room, err: c.err}
				w.set = func(o *gateway.Options) { o.Adapters = map[chat.Account]chat.Adapter{account: l}; o.Streaming = false }
				w.start()
				defer w.stop()
				w.room.fail(fault{op: "send", after: errors.New("the connection was cut")})
				w.say("7", "a")
				w.settle(time.Second)
				w.say("7", "b")
				w.settle(c.wait)
				if d := cmp.Diff([]string{"One.", "(may be a repeat)\nOne.", "Two."}, w.room.visible("7")); d != "" {
					t.Error(d)
				}
				if l.asked == 0 || (l.asked > 1) != c.asks {
					t.Errorf("it was asked %d times", l.asked)
				}
			})
		})
	}
}
