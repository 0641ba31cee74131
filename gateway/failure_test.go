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
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

func TestFailureMessageForModelErrors(t *testing.T) {
	for class, want := range map[llm.Class]string{
		llm.Auth:            "refuses the key",
		llm.Billing:         "used up",
		llm.RateLimit:       "takes no more requests",
		llm.Overloaded:      "is overloaded",
		llm.Server:          "returned an error",
		llm.Timeout:         "returned an error",
		llm.Network:         "returned an error",
		llm.InvalidResponse: "returned an error",
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
				w.sendText("7", "hi")
				w.advance(time.Minute)
				got := w.adapter.visible("7")
				if len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "ref ") {
					t.Fatalf("the person reads %q, want %q", got, want)
				}
				if o := w.outcome("7:1"); !strings.HasPrefix(o, "failed(") {
					t.Errorf("outcome is %s", o)
				}
				w.sendText("7", "again")
				w.advance(time.Minute)
				if got := w.adapter.visible("7"); len(got) != 2 || got[1] != "Now it works." {
					t.Errorf("the next message got %q", got)
				}
				w.transcript()
			})
		})
	}
}

func TestFailureMessageForRefusalAndEmptyAnswer(t *testing.T) {
	for want, answers := range map[string][]llmtest.Answer{
		"declined to answer": {{Stop: llm.Refusal, Text: "I cannot."}},
		"an empty answer":    {{}, {}, {}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, answers...)
			w.start()
			defer w.stop()
			w.sendText("7", "hi")
			w.advance(time.Minute)
			if got := w.adapter.visible("7"); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("the person reads %q, want %q", got, want)
			}
		})
	}
}

func TestTurnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "never", Wait: make(chan struct{})})
		w.start()
		defer w.stop()
		w.sendText("7", "hi")
		w.advance(time.Hour)
		log := w.adapter.history()
		for _, want := range []string{"Still working (3 min)", "Nothing has happened for 15m0s", "so I gave up"} {
			if !strings.Contains(log, want) {
				t.Errorf("no notice %q:\n%s", want, log)
			}
		}
		if o := w.outcome("7:1"); !strings.HasPrefix(o, "failed(") {
			t.Errorf("outcome is %s", o)
		}
		notified := len(w.adapter.visible("7"))
		w.advance(time.Hour)
		if n := len(w.adapter.visible("7")); n > notified {
			t.Errorf("%d more progress notices after the end of the turn", n-notified)
		}
	})
}

func TestQueueFullNotifiesSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: make(chan struct{})})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("ok") }
		w.configure = func(o *gatewaytest.Options) { o.Mode, o.Limits.MaxQueuedMessages = inbox.Queue, 3 }
		w.start()
		defer w.stop()
		for i := range 6 {
			w.sendText("7", fmt.Sprint("message ", i))
			w.advance(time.Second)
		}
		notified := 0
		for _, s := range w.adapter.visible("7") {
			if strings.Contains(s, "I did not take this one") {
				notified++
			}
		}
		if notified != 2 {
			t.Errorf("%d of 2 were notified:\n%s", notified, w.adapter.history())
		}
		w.sendText("7", "/stop")
		w.advance(time.Minute)
	})
}

func TestQueueLimitHoldsWithinBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.configure = func(o *gatewaytest.Options) { o.Mode, o.Limits.MaxQueuedMessages = inbox.Queue, 3 }
		w.start()
		defer w.stop()
		var batch []chat.Inbound
		for i := range 5 {
			batch = append(batch, w.newMessage("7", fmt.Sprint("message ", i)), w.newMessage("8", fmt.Sprint("message ", i)))
		}
		for range 2 { // the second time nothing is new
			if err := w.gw.Accept(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(time.Minute)
		for _, c := range []string{"7", "8"} {
			answers, refusals := 0, 0
			for _, s := range w.adapter.visible(c) {
				switch {
				case strings.HasPrefix(s, "re: "):
					answers++
				case strings.Contains(s, "I did not take this one"):
					refusals++
				}
			}
			if answers != 3 || refusals != 2 {
				t.Errorf("in chat %s %d are answered and %d refused, want 3 and 2", c, answers, refusals)
			}
		}
	})
}

// A dyingStore accepts events and fails on later outbound messages.
type dyingStore struct{ store.Store }

func (dyingStore) Enqueue(context.Context, []outbox.Row) ([]outbox.Row, error) {
	return nil, errors.New("the process dies here")
}

// The event was acknowledged to the platform, so the notice must not be lost.
func TestQueueFullNoticeSurvivesCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		never := make(chan struct{})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "never", Wait: never} }
		w.configure = func(o *gatewaytest.Options) {
			o.Mode, o.Limits.MaxQueuedMessages, o.Streaming, o.Store = inbox.Queue, 1, false, dyingStore{o.Store}
		}
		w.start()
		for range 3 {
			w.sendText("7", "hello")
			synctest.Wait()
		}
		w.kill()
		w.configure = func(o *gatewaytest.Options) { o.Mode, o.Streaming = inbox.Queue, false }
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		var notified int
		for _, s := range w.adapter.visible("7") {
			if strings.Contains(s, "I did not take this one") {
				notified++
			}
		}
		if notified != 1 {
			t.Errorf("%d of 1 were notified: %q", notified, w.adapter.visible("7"))
		}
	})
}

func TestAcceptReturnsStoreError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.start()
		w.stop()
		if err := w.gw.Accept(context.Background(), []chat.Inbound{w.newMessage("7", "hi")}); err == nil {
			t.Error("a message was accepted without a store")
		}
	})
}

// A refusingStore fails the next commits permanently.
type refusingStore struct {
	store.Store
	left atomic.Int32
}

func (s *refusingStore) CommitTurn(ctx context.Context, c store.Claim, m store.Turn) ([]outbox.Row, error) {
	if s.left.Add(-1) >= 0 {
		return nil, fmt.Errorf("commit: %w", store.ErrConflict)
	}
	return s.Store.CommitTurn(ctx, c, m)
}

func (s *refusingStore) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) ([]outbox.Row, error) {
	if s.left.Add(-1) >= 0 {
		return nil, fmt.Errorf("commit: %w", store.ErrConflict)
	}
	return s.Store.FinishTurn(ctx, c, m)
}

func TestCommitFailureIsReportedAndUnblocksLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("lost"), llmtest.Say("Fine again."))
		w.configure = func(o *gatewaytest.Options) {
			s := &refusingStore{Store: o.Store}
			s.left.Store(1)
			o.Store, o.Log = s, nil
		}
		w.start()
		defer w.stop()
		w.sendText("7", "hi")
		w.advance(time.Minute)
		w.sendText("7", "and now?")
		w.advance(time.Minute)
		got := w.adapter.visible("7")
		if len(got) != 2 || !strings.Contains(got[0], "Something went wrong on my side") || got[1] != "Fine again." {
			t.Errorf("the person reads %q", got)
		}
	})
}

func TestRefusedCommitsHaveAnEnd(t *testing.T) {
	for _, c := range []struct {
		refused int32
		outcome string // of the first message, an hour later
		stored  int32  // commits that succeed
	}{
		{2, "failed(", 1}, // the failure is stored, its text is not
		{3, "claimed", 0},
	} {
		t.Run(fmt.Sprint(c.refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("lost"), llmtest.Say("Fine again."))
				s := &refusingStore{}
				w.configure = func(o *gatewaytest.Options) {
					if s.Store == nil { // the first daemon
						s.left.Store(c.refused)
						s.Store, o.Store = o.Store, s
					}
					o.Log = nil
				}
				w.start()
				id := w.sendText("7", "hi")
				w.advance(time.Hour)
				if got := w.outcome(id); !strings.HasPrefix(got, c.outcome) {
					t.Errorf("after an hour: %s", got)
				}
				if n := -s.left.Load(); n != c.stored {
					t.Errorf("%d commits after those that were refused", n)
				}
				if got := w.adapter.visible("7"); len(got) > 0 {
					t.Errorf("the person reads %q", got)
				}
				w.kill()
				w.start()
				defer w.stop()
				w.advance(time.Hour)
				if got := w.outcome(id); got == "claimed" || got == "waiting" {
					t.Errorf("after the next start: %s", got)
				}
			})
		})
	}
}
