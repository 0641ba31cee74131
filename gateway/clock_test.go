package gateway_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/schedule"
	"hermesd/storage/bolt"
)

// Every synctest bubble starts at the same instant: the data that a daemon stored in
// one bubble comes from the future for a daemon in the next bubble, and from the past
// after a sleep.

// runInBubble runs f with a harness on an existing directory, in its own bubble.
func runInBubble(t *testing.T, dir string, f func(w *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.dir = dir
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.configure = func(o *gatewaytest.Options) { o.Log = nil }
		f(w)
	})
}

// refuseSends makes the next sends fail.
func (w *harness) refuseSends(times int) {
	for range times {
		w.adapter.addFaults(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "busy"}})
	}
}

// expectVisible checks the messages in a chat; repeats must be marked.
func (w *harness) expectVisible(t *testing.T, id string, want ...string) {
	t.Helper()
	var got []string
	for _, s := range w.adapter.visible(id) {
		got = append(got, strings.TrimPrefix(s, "(may be a repeat)\n"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s reads %q, want %q", id, got, want)
	}
}

func TestClockSetBackDelaysNothing(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	var earlier chat.Inbound
	runInBubble(t, dir, func(w *harness) {
		w.start()
		w.advance(10 * time.Hour)
		w.sendText("9", "done before")
		earlier = w.newMessage("9", "done before")
		w.sendCount--
		earlier.ID, earlier.IdempotencyKey = fmt.Sprint(w.sendCount), fmt.Sprint("9:", w.sendCount)
		w.advance(time.Minute)
		w.refuseSends(1000)
		w.sendText("7", "refused") // its answer waits for a retry
		w.advance(30 * time.Minute)
		w.model.Then(llmtest.Answer{Text: "never", Wait: make(chan struct{})})
		w.sendText("8", "cut off") // its turn is running
		w.advance(time.Minute)
		w.kill()
	})
	runInBubble(t, dir, func(w *harness) {
		w.sendCount = 100
		w.start()
		defer w.stop()
		w.advance(2 * time.Minute)
		w.expectVisible(t, "7", "echo: refused")
		w.expectVisible(t, "8", "echo: cut off")
		w.accept(earlier)
		w.sendText("9", "new")
		w.advance(time.Minute)
		w.expectVisible(t, "9", "echo: new") // earlier messages are known as duplicates
		if up := time.Since(w.gw.Control().Status().Started); up != 3*time.Minute {
			t.Errorf("it is up for %v", up)
		}
		if lanes, rows := w.unfinished(); len(lanes)+len(rows) > 0 {
			t.Errorf("left: %v, %v", lanes, rows)
		}
	})
}

func TestClockSetBackSessionsStillReset(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	runInBubble(t, dir, func(w *harness) {
		w.start()
		w.advance(10 * time.Hour)
		w.sendText("7", "old")
		w.advance(time.Minute)
		w.stop()
	})
	runInBubble(t, dir, func(w *harness) {
		w.sendCount = 100
		w.start()
		defer w.stop()
		w.sendText("7", "/new")
		w.advance(time.Minute)
		w.sendText("7", "fresh")
		w.advance(time.Minute)
		for _, m := range w.model.Requests()[0].Messages {
			for _, b := range m.Blocks {
				if strings.Contains(b.Text, "old") {
					t.Errorf("after /new the model reads %q", b.Text)
				}
			}
		}
	})
}

func TestClockSetForwardDropsNothing(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	runInBubble(t, dir, func(w *harness) {
		w.start()
		w.refuseSends(1000)
		w.sendText("7", "one") // its answer waits for a retry
		w.advance(10 * time.Minute)
		w.sendText("7", "two") // its answer is queued behind the other
		w.advance(10 * time.Minute)
		w.kill()
	})
	runInBubble(t, dir, func(w *harness) {
		time.Sleep(25 * time.Hour)
		w.sendCount = 100
		w.refuseSends(3)
		w.start()
		defer w.stop()
		w.advance(2 * time.Hour)
		w.expectVisible(t, "7", "echo: one", "echo: two")
	})
}

// A lease expires early if the clock is set forward while a turn runs.
func TestClockExpiredLeaseDoesNotRepeatTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		slow := make(chan struct{})
		w.model.Then(llmtest.Answer{Text: "first", Wait: slow})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.configure = func(o *gatewaytest.Options) {
			o.Log, o.Mode = nil, "queue"
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(t.Context(), filepath.Join(w.dir, "hermesd.db"), bolt.Options{Lease: 1})
			if err != nil {
				t.Fatal(err)
			}
			w.store, o.Store = s, s
		}
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		w.advance(time.Minute)
		w.sendText("7", "two")
		w.advance(time.Minute)
		if n := len(w.model.Requests()); n != 1 {
			t.Errorf("the model is asked %d times", n)
		}
		close(slow)
		w.advance(time.Minute)
		got := w.adapter.visible("7")
		if len(got) == 0 || !strings.Contains(got[0], "first") || !strings.Contains(got[len(got)-1], "echo: two") || len(w.model.Requests()) != 2 {
			t.Errorf("it says %q", got)
		}
	})
}

func TestClockSetBackKeepsAnnouncements(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	owner := func(w *harness) {
		w.configure = func(o *gatewaytest.Options) { o.Access, o.Cron.Attach, o.Log = ownerChecker(w.t), true, nil }
	}
	runInBubble(t, dir, func(w *harness) {
		owner(w)
		w.start()
		w.advance(10 * time.Hour)
		w.sendText("7", "hello")
		w.advance(time.Minute)
		w.stop()
	})
	runInBubble(t, dir, func(w *harness) {
		owner(w)
		w.sendCount = 100
		w.start()
		defer w.stop()
		in := "in 10m"
		w.createJob(schedule.JobPatch{Prompt: ptrTo("look"), Schedule: &in})
		w.advance(11 * time.Minute)
		w.sendText("7", "and?")
		w.advance(time.Minute)
		if rs := w.model.Requests(); len(rs) != 2 || !strings.Contains(rs[1].Newest(), "as the scheduled prompt") {
			t.Errorf("it was asked %d times, and does not know of the run", len(rs))
		}
		w.sendText("7", "again")
		w.advance(time.Minute)
		if rs := w.model.Requests(); len(rs) != 3 || strings.Contains(rs[2].Newest(), "as the scheduled prompt") {
			t.Errorf("%d requests; the run must be announced once", len(rs))
		}
	})
}
