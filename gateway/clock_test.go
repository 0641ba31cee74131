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
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/storage/bolt"
)

// Every bubble begins at the same instant: a daemon in a second one finds what
// the first one has left by a clock that is set back, and after a pause by one
// that is put forward.

// life runs a daemon in a bubble of its own, in a home that is there already.
func life(t *testing.T, dir string, f func(w *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.dir = dir
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.set = func(o *gateway.Options) { o.Log = nil }
		f(w)
	})
}

// busy refuses the next sends.
func (w *harness) busy(times int) {
	for range times {
		w.room.fail(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "busy"}})
	}
}

// reads are the messages in a chat, in which one that may be a repeat says so.
func (w *harness) reads(t *testing.T, id string, want ...string) {
	t.Helper()
	var got []string
	for _, s := range w.room.visible(id) {
		got = append(got, strings.TrimPrefix(s, "(may be a repeat)\n"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s reads %q, want %q", id, got, want)
	}
}

func TestAClockThatIsSetBackHoldsNothingUp(t *testing.T) {
	dir := home(t)
	var told chat.Inbound
	life(t, dir, func(w *harness) {
		w.start()
		w.settle(10 * time.Hour)
		w.say("9", "done before")
		told = w.message("9", "done before")
		w.sent--
		told.ID, told.IdempotencyKey = fmt.Sprint(w.sent), fmt.Sprint("9:", w.sent)
		w.settle(time.Minute)
		w.busy(1000)
		w.say("7", "refused") // its answer waits to be tried again
		w.settle(30 * time.Minute)
		w.model.Then(llmtest.Answer{Text: "never", Wait: make(chan struct{})})
		w.say("8", "cut off") // its turn is under way
		w.settle(time.Minute)
		w.kill()
	})
	life(t, dir, func(w *harness) {
		w.sent = 100
		w.start()
		defer w.stop()
		w.settle(2 * time.Minute)
		w.reads(t, "7", "echo: refused")
		w.reads(t, "8", "echo: cut off")
		w.offer(told)
		w.say("9", "new")
		w.settle(time.Minute)
		w.reads(t, "9", "echo: new") // what was done before is known
		if up := time.Since(w.gw.Status().Started); up != 3*time.Minute {
			t.Errorf("it is up for %v", up)
		}
		if lanes, rows := w.open(); len(lanes)+len(rows) > 0 {
			t.Errorf("left: %v, %v", lanes, rows)
		}
	})
}

func TestAConversationBeginsAnewAlsoByAClockThatIsSetBack(t *testing.T) {
	dir := home(t)
	life(t, dir, func(w *harness) {
		w.start()
		w.settle(10 * time.Hour)
		w.say("7", "old")
		w.settle(time.Minute)
		w.stop()
	})
	life(t, dir, func(w *harness) {
		w.sent = 100
		w.start()
		defer w.stop()
		w.say("7", "/new")
		w.settle(time.Minute)
		w.say("7", "fresh")
		w.settle(time.Minute)
		for _, m := range w.model.Requests()[0].Messages {
			for _, b := range m.Blocks {
				if strings.Contains(b.Text, "old") {
					t.Errorf("after /new the model reads %q", b.Text)
				}
			}
		}
	})
}

func TestAClockThatIsPutForwardGivesNothingUp(t *testing.T) {
	dir := home(t)
	life(t, dir, func(w *harness) {
		w.start()
		w.busy(1000)
		w.say("7", "one") // its answer waits to be tried again
		w.settle(10 * time.Minute)
		w.say("7", "two") // its answer waits behind the other
		w.settle(10 * time.Minute)
		w.kill()
	})
	life(t, dir, func(w *harness) {
		time.Sleep(25 * time.Hour)
		w.sent = 100
		w.busy(3)
		w.start()
		defer w.stop()
		w.settle(2 * time.Hour)
		w.reads(t, "7", "echo: one", "echo: two")
	})
}

// A lease that is over is what a clock does that is put forward while a turn runs.
func TestATurnWhoseLeaseIsOverIsNotDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		slow := make(chan struct{})
		w.model.Then(llmtest.Answer{Text: "first", Wait: slow})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.set = func(o *gateway.Options) {
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
		w.say("7", "one")
		w.settle(time.Minute)
		w.say("7", "two")
		w.settle(time.Minute)
		if n := len(w.model.Requests()); n != 1 {
			t.Errorf("the model is asked %d times", n)
		}
		close(slow)
		w.settle(time.Minute)
		got := w.room.visible("7")
		if len(got) == 0 || !strings.Contains(got[0], "first") || !strings.Contains(got[len(got)-1], "echo: two") || len(w.model.Requests()) != 2 {
			t.Errorf("it says %q", got)
		}
	})
}

func TestAConversationKnowsOfScheduledRunsAlsoByAClockThatIsSetBack(t *testing.T) {
	dir := home(t)
	owner := func(w *harness) {
		w.set = func(o *gateway.Options) { o.Access, o.Cron.Attach, o.Log = owned(w.t), true, nil }
	}
	life(t, dir, func(w *harness) {
		owner(w)
		w.start()
		w.settle(10 * time.Hour)
		w.say("7", "hello")
		w.settle(time.Minute)
		w.stop()
	})
	life(t, dir, func(w *harness) {
		owner(w)
		w.sent = 100
		w.start()
		defer w.stop()
		in := "in 10m"
		w.job(schedule.JobPatch{Prompt: text("look"), Schedule: &in})
		w.settle(11 * time.Minute)
		w.say("7", "and?")
		w.settle(time.Minute)
		if rs := w.model.Requests(); len(rs) != 2 || !strings.Contains(rs[1].Newest(), "as the scheduled prompt") {
			t.Errorf("it was asked %d times, and does not know of the run", len(rs))
		}
		w.say("7", "again")
		w.settle(time.Minute)
		if rs := w.model.Requests(); len(rs) != 3 || strings.Contains(rs[2].Newest(), "as the scheduled prompt") {
			t.Errorf("it was asked %d times, and is told again of the run", len(rs))
		}
	})
}
