package gateway_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

func TestPrefixOnlyGrowsAcrossRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.start()
		for i := range 6 {
			if i == 3 {
				w.stop()
				time.Sleep(24 * time.Hour) // the frozen prompt keeps its date
				w.start()
			}
			w.sendText("7", fmt.Sprint("message ", i))
			w.advance(time.Minute)
		}
		w.stop()
		reqs := w.model.Requests()
		for i := 1; i < len(reqs); i++ {
			a, b := reqs[i-1], reqs[i]
			if a.System != b.System || cmp.Diff(a.Tools, b.Tools) != "" {
				t.Errorf("call %d: the cached prompt differs from the one before", i)
			}
			if len(b.Messages) < len(a.Messages) || cmp.Diff(a.Messages, b.Messages[:len(a.Messages)]) != "" {
				t.Errorf("call %d does not begin with what call %d sent", i, i-1)
			}
			if a.Overlay == "" || strings.Contains(fmt.Sprint(b.Messages), "gateway-context") || strings.Contains(b.System, a.Overlay) {
				t.Errorf("call %d: the overlay is missing or not at the tail only", i)
			}
		}
	})
}

func TestStopKeepsInterruptedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: make(chan struct{})}, llmtest.Say("Here I am again."))
		w.start()
		w.sendText("7", "hi")
		w.advance(time.Second)
		begin := time.Now()
		w.stop()
		if d := time.Since(begin); d < time.Minute || d > 65*time.Second {
			t.Errorf("the stop took %v", d)
		}
		w.start()
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"Here I am again."}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		w.stop()
	})
}

// Replies of turns that may finish are sent too: those of a slow platform for a part of the
// drain timeout, the rest at the next start.
func TestStopSendsReplies(t *testing.T) {
	for limit, want := range map[time.Duration]int{time.Minute: 2, 10 * time.Minute: 4} {
		synctest.Test(t, func(t *testing.T) {
			wait := make(chan struct{})
			pages := strings.TrimSpace(strings.Repeat(strings.Repeat("word ", 700)+"\n\n", 4))
			w := newHarness(t, llmtest.Answer{Text: pages, Wait: wait})
			w.configure = func(o *gatewaytest.Options) { o.Limits.DrainTimeout = limit }
			w.start()
			for range want {
				w.adapter.addFaults(fault{op: "send", delay: 4 * time.Second})
			}
			w.sendText("7", "hi")
			w.advance(time.Second)
			time.AfterFunc(time.Second, func() { close(wait) })
			w.stop()
			if n := len(w.adapter.visible("7")); n != want {
				t.Errorf("with a drain timeout of %v ann sees %d messages, want %d", limit, n, want)
			}
			w.start()
			w.advance(time.Minute)
			if n := len(w.adapter.visible("7")); n != 4 {
				t.Errorf("after the next start ann sees %d messages, want 4", n)
			}
			w.stop()
		})
	}
}

func TestStopAcceptsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "done", Wait: hold}, llmtest.Say("to the late one"))
		w.start()
		w.sendText("7", "hi")
		w.advance(time.Second)
		stopped := make(chan struct{})
		go func() { w.stop(); close(stopped) }()
		w.advance(time.Second)
		w.sendText("8", "still there?")
		close(hold)
		<-stopped
		w.start()
		w.advance(time.Minute)
		if got := w.adapter.visible("8"); len(got) != 1 {
			t.Errorf("the late message got %q", got)
		}
		w.stop()
	})
}

func TestQuarantineAfterTwoCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if strings.Contains(r.Newest(), "poison") {
				return llmtest.Answer{Wait: make(chan struct{})} // the daemon is killed before it ends
			}
			return llmtest.Say("re: " + r.Newest())
		}
		w.configure = func(o *gatewaytest.Options) { o.Mode = inbox.Queue }
		w.start()
		w.sendText("7", "poison")
		w.sendText("7", "and what comes after")
		for range 2 {
			w.advance(time.Second)
			w.kill()
			w.start()
		}
		defer w.stop()
		w.advance(time.Minute)
		got := w.adapter.visible("7")
		if len(got) != 2 || !strings.Contains(got[0], "I stopped processing this message because the daemon crashed 2 times") || got[1] != "re: and what comes after" {
			t.Errorf("the person reads %q\n%s", got, w.adapter.history())
		}
		if o := w.outcome("7:1"); o != "failed(set aside)" {
			t.Errorf("the message ended %s", o)
		}
	})
}

func TestQuarantineNotWithManyTurnsAtCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		var hang atomic.Bool
		hang.Store(true)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if hang.Load() {
				return llmtest.Answer{Wait: make(chan struct{})}
			}
			return llmtest.Say("re: " + r.Newest())
		}
		w.start()
		for i := range 10 {
			w.sendText(fmt.Sprint(1000+i), "hello")
		}
		for range 3 {
			w.advance(time.Second)
			w.kill()
			w.start()
		}
		defer w.stop()
		w.advance(time.Second)
		hang.Store(false)
		w.kill()
		w.start()
		w.advance(time.Minute)
		for i := range 10 {
			if got := w.adapter.visible(fmt.Sprint(1000 + i)); len(got) != 1 || got[0] != "re: hello" {
				t.Errorf("%d reads %q", 1000+i, got)
			}
		}
	})
}

// One of ten messages crashes the daemon as soon as its turn runs. It alone is set aside,
// and a conversation in which nothing ran does not wait.
func TestQuarantineFindsGuiltyAmongManyTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		var poisoned atomic.Bool
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if strings.Contains(r.Newest(), "poison") {
				poisoned.Store(true)
				return llmtest.Answer{Wait: make(chan struct{})}
			}
			if strings.Contains(r.Newest(), "quick") {
				return llmtest.Say("quick")
			}
			wait := make(chan struct{})
			time.AfterFunc(3*time.Second, func() { close(wait) })
			return llmtest.Answer{Text: "re: " + r.Newest(), Wait: wait}
		}
		w.start()
		for i := range 10 {
			text := "hello"
			if i == 5 {
				text = "poison"
			}
			w.sendText(fmt.Sprint(1000+i), text)
		}
		deaths := 0
		for i := 0; !strings.HasPrefix(w.outcome("1005:6"), "failed") && i < 200; i++ {
			w.sendText("7", "quick")
			w.advance(time.Second)
			if got := w.adapter.visible("7"); got[len(got)-1] != "quick" || len(got) != i+1 {
				t.Fatalf("in the other chat: %q", got)
			}
			if poisoned.Swap(false) {
				deaths++
				w.kill()
				w.start()
			}
		}
		defer w.stop()
		w.advance(time.Minute)
		if o := w.outcome("1005:6"); o != "failed(set aside)" || deaths != 5 {
			t.Errorf("the message that crashes the daemon ended %s after %d deaths", o, deaths)
		}
		for i := range 10 {
			if got := w.adapter.visible(fmt.Sprint(1000 + i)); i != 5 && (len(got) != 1 || got[0] != "re: hello") {
				t.Errorf("%d reads %q", 1000+i, got)
			}
		}
	})
}

func TestResumedTurnMustBeRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Wait: make(chan struct{})})
		w.start()
		w.sendText("7", "is it raining?")
		w.advance(time.Second)
		w.kill()
		time.Sleep(3 * time.Hour)
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 1 || !strings.Contains(got[0], "too long ago to go on by myself") {
			t.Errorf("the person reads %q", got)
		}
		if tr := w.transcript(); len(tr) != 2 || tr[0].Text() != "is it raining?" {
			t.Errorf("history keeps %v", tr)
		}
	})
}

func TestBacklogNotifiesSenderOfOldMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.start()
		defer w.stop()
		m := w.newMessage("7", "from the day before yesterday")
		m.SentAt = time.Now().Add(-48 * time.Hour)
		w.accept(m)
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 1 || !strings.Contains(got[0], "too old to answer by myself") {
			t.Errorf("the person reads %q", got)
		}
		if tr := w.transcript(); len(tr) != 2 || tr[0].Text() != "from the day before yesterday" {
			t.Errorf("history keeps %v", tr)
		}
	})
}

// Users return to background commands.
func TestResetWaitsForBackgroundCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."), llmtest.Say("Three."))
		var running atomic.Int64
		running.Store(1)
		w.configure = func(o *gatewaytest.Options) {
			o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{Idle: time.Hour} }
			o.Host = &fakeHost{background: &running}
		}
		w.start()
		defer w.stop()
		for _, said := range []string{"first", "second"} {
			w.sendText("7", said)
			w.advance(2 * time.Hour)
		}
		running.Store(0)
		w.sendText("7", "third")
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 4 || got[1] != "Two." || !strings.HasPrefix(got[2], "A new conversation begins,") {
			t.Errorf("the person reads %q", got)
		}
	})
}

// The clock of the host may be wrong by days.
func TestBacklogUsesPlatformClock(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead, stamp time.Duration // of the host's clock; of the message, by that clock
		late         bool
	}{
		"our clock is right":                   {0, -48 * time.Hour, true},
		"it is ahead, and the message is new":  {25 * time.Hour, -25 * time.Hour, false},
		"it is ahead, and the message is old":  {25 * time.Hour, -50 * time.Hour, true},
		"it is behind, and the message is old": {-48 * time.Hour, -time.Hour, true},
		"it is behind, and the message is new": {-48 * time.Hour, 48 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("Here I am."))
				w.adapter.clockAhead = tt.ahead
				w.start()
				defer w.stop()
				m := w.newMessage("7", "are you there?")
				m.SentAt = time.Now().Add(tt.stamp)
				w.accept(m)
				w.advance(time.Minute)
				if got := w.adapter.visible("7"); len(got) != 1 || strings.Contains(got[0], "too old to answer") != tt.late {
					t.Errorf("the person reads %q", got)
				}
			})
		})
	}
}

func TestResetByPolicyNotifiesUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.configure = func(o *gatewaytest.Options) {
			o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{Idle: time.Hour} }
		}
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(2 * time.Hour)
		w.sendText("7", "second")
		w.advance(time.Minute)
		got := w.adapter.visible("7")
		if len(got) != 3 || !strings.HasPrefix(got[1], "A new conversation begins, because nothing was said for 2 hours.") || got[2] != "Two." {
			t.Errorf("the person reads %q", got)
		}
		if reqs := w.model.Requests(); len(reqs[1].Messages) != 1 {
			t.Errorf("the new conversation begins with %d messages", len(reqs[1].Messages))
		}
	})
}
