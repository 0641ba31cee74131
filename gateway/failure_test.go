package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

func TestWhatTheModelCannotDoIsSaid(t *testing.T) {
	for class, want := range map[llm.Class]string{
		llm.Auth:            "refuses the key",
		llm.Billing:         "used up",
		llm.RateLimit:       "takes no more requests",
		llm.Overloaded:      "is overloaded",
		llm.Server:          "does not answer properly",
		llm.Timeout:         "does not answer properly",
		llm.Network:         "does not answer properly",
		llm.InvalidResponse: "does not answer properly",
		llm.ContextOverflow: "too long for the model",
		llm.ImageTooLarge:   "image is too large",
		llm.NotFound:        "does not know the configured model",
		llm.ContentPolicy:   "declined this",
		llm.Format:          "refused the request",
	} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Fail(class), llmtest.Say("Now it works."))
				w.start()
				defer w.stop()
				w.say("7", "hi")
				w.settle(time.Minute)
				got := w.room.visible("7")
				if len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "ref ") {
					t.Fatalf("the person reads %q, want %q", got, want)
				}
				if o := w.outcome("7:1"); !strings.HasPrefix(o, "failed(") {
					t.Errorf("outcome is %s", o)
				}
				w.say("7", "again")
				w.settle(time.Minute)
				if got := w.room.visible("7"); len(got) != 2 || got[1] != "Now it works." {
					t.Errorf("the next message got %q", got)
				}
				w.transcript()
			})
		})
	}
}

func TestARefusalAndAnEmptyAnswerAreSaid(t *testing.T) {
	for want, answers := range map[string][]llmtest.Answer{
		"declined to answer": {{Stop: llm.Refusal, Text: "I cannot."}},
		"an empty answer":    {{}, {}, {}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, answers...)
			w.start()
			defer w.stop()
			w.say("7", "hi")
			w.settle(time.Minute)
			if got := w.room.visible("7"); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("the person reads %q, want %q", got, want)
			}
		})
	}
}

func TestATurnThatShowsNoLifeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "never", Wait: make(chan struct{})})
		w.start()
		defer w.stop()
		w.say("7", "hi")
		w.settle(time.Hour)
		log := w.room.history()
		for _, want := range []string{"Still working (3 min)", "Nothing has happened for 15m0s", "so I gave up"} {
			if !strings.Contains(log, want) {
				t.Errorf("nobody was told %q:\n%s", want, log)
			}
		}
		if o := w.outcome("7:1"); !strings.HasPrefix(o, "failed(") {
			t.Errorf("outcome is %s", o)
		}
		told := len(w.room.visible("7"))
		w.settle(time.Hour)
		if n := len(w.room.visible("7")); n > told {
			t.Errorf("the turn is over, and %d more notices say that it goes on", n-told)
		}
	})
}

func TestTooManyWaitingMessagesAreRefusedInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: make(chan struct{})})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("ok") }
		w.set = func(o *gateway.Options) { o.Mode, o.Limits.MaxWaiting = inbox.Queue, 3 }
		w.start()
		defer w.stop()
		for i := range 6 {
			w.say("7", fmt.Sprint("message ", i))
			w.settle(time.Second)
		}
		told := 0
		for _, s := range w.room.visible("7") {
			if strings.Contains(s, "I did not take this one") {
				told++
			}
		}
		if told != 2 {
			t.Errorf("%d of 2 were told:\n%s", told, w.room.history())
		}
		w.say("7", "/stop")
		w.settle(time.Minute)
	})
}

// A dying store takes what comes in, and nothing that is said after that.
type dying struct{ gateway.Store }

func (dying) Enqueue(context.Context, []outbox.Row) ([]outbox.Row, error) {
	return nil, errors.New("the process dies here")
}

// TestARefusalIsToldAlsoIfTheProcessDiesBehindIt: the platform was told that the
// message is ours, so nobody else will say it.
func TestARefusalIsToldAlsoIfTheProcessDiesBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		never := make(chan struct{})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "never", Wait: never} }
		w.set = func(o *gateway.Options) {
			o.Mode, o.Limits.MaxWaiting, o.Streaming, o.Store = inbox.Queue, 1, false, dying{o.Store}
		}
		w.start()
		for range 3 {
			w.say("7", "hello")
			synctest.Wait()
		}
		w.kill()
		w.set = func(o *gateway.Options) { o.Mode, o.Streaming = inbox.Queue, false }
		w.start()
		defer w.stop()
		w.settle(time.Minute)
		var told int
		for _, s := range w.room.visible("7") {
			if strings.Contains(s, "I did not take this one") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d of 1 were told: %q", told, w.room.visible("7"))
		}
	})
}

func TestAcceptFailsVisiblyWhenTheStoreIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.start()
		w.stop()
		if err := w.gw.Accept(context.Background(), []chat.Inbound{w.message("7", "hi")}); err == nil {
			t.Error("a message was accepted without a store")
		}
	})
}

// refusing is a store that refuses the next commits for good.
type refusing struct {
	gateway.Store
	left atomic.Int32
}

func (s *refusing) CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error) {
	if s.left.Add(-1) >= 0 {
		return nil, fmt.Errorf("commit: %w", inbox.ErrConflict)
	}
	return s.Store.CommitTurn(ctx, c, m)
}

func TestACommitThatIsRefusedForGoodIsToldAndDoesNotBlockTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("lost"), llmtest.Say("Fine again."))
		w.set = func(o *gateway.Options) {
			s := &refusing{Store: o.Store}
			s.left.Store(1)
			o.Store, o.Log = s, nil
		}
		w.start()
		defer w.stop()
		w.say("7", "hi")
		w.settle(time.Minute)
		w.say("7", "and now?")
		w.settle(time.Minute)
		got := w.room.visible("7")
		if len(got) != 2 || !strings.Contains(got[0], "Something went wrong on my side") || got[1] != "Fine again." {
			t.Errorf("the person reads %q", got)
		}
	})
}
