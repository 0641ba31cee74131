package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/observe"
	"hermesd/gateway/schedule"
)

// A watcher notes what it is told of the road, a line each.
type watcher struct {
	mu    sync.Mutex // guards what follows
	turns []string   // in the order in which they began
	lines []string
}

// watch has the daemons of the world tell a watcher.
func (w *harness) watch() *watcher {
	o := &watcher{}
	set := w.set
	w.set = func(g *gateway.Options) {
		if set != nil {
			set(g)
		}
		g.Observe = o.note
	}
	return o
}

func (o *watcher) note(e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := ""
	switch e := e.(type) {
	case observe.EventReceived:
		line = fmt.Sprintf("%s: %s %s", e.Platform, e.Result, e.Rule)
	case observe.TurnStarted:
		line = fmt.Sprintf("%s begins: %s on %s after %v", o.turn(e.Turn), e.Kind, e.Platform, e.At.Sub(e.Accepted))
		if e.Resumed {
			line += ", again"
		}
	case observe.ModelCalled:
		line = fmt.Sprintf("%s: %s/%s %s, %d in, %d out", o.turn(e.Turn), e.Provider, e.Model, e.Stop, e.Usage.Prompt(), e.Usage.Output)
	case observe.ModelRetried:
		line = fmt.Sprintf("%s: %s, then %q", o.turn(e.Turn), e.Class, e.Fallback)
	case observe.ToolCalled:
		line = fmt.Sprintf("%s: %s", o.turn(e.Turn), e.Tool)
		if e.Failed {
			line += " failed"
		}
	case observe.MediaProcessed:
		line = fmt.Sprintf("%s, failed %t, in %v", e.Task, e.Failed, e.Took)
	case observe.Compacted:
		line = fmt.Sprintf("%s: %s by %s, %d to %d", o.turn(e.Turn), e.Reason, e.Engine, e.Before, e.After)
		if e.Failed {
			line = fmt.Sprintf("%s: %s by %s failed", o.turn(e.Turn), e.Reason, e.Engine)
		}
	case observe.TurnEnded:
		line = fmt.Sprintf("%s: %s in %v", o.turn(e.Turn), e.Result, e.Took)
	case observe.DeliveryAttempted:
		line = fmt.Sprintf("%s: %s %s", o.turn(e.Turn), e.Role, e.State)
		if e.RateLimited {
			line += ", held"
		}
	case observe.OccurrencesSkipped:
		line = fmt.Sprintf("cron: %d %s", e.Count, e.State)
	}
	o.lines = append(o.lines, strings.TrimSpace(line))
}

// turn names turns in a way that does not change.
func (o *watcher) turn(id string) string {
	if id == "" {
		return "daemon"
	}
	if !slices.Contains(o.turns, id) {
		o.turns = append(o.turns, id)
	}
	return fmt.Sprintf("turn %d", 1+slices.Index(o.turns, id))
}

// told returns what was told since the last time. Deliveries run beside turns, so
// the order is that of the lines.
func (o *watcher) told() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (o *watcher) wants(t *testing.T, what, want string) {
	t.Helper()
	if d := cmp.Diff(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""), o.told()); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func TestWatchersAreToldWhatBecomesOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("lookup", `{}`), llmtest.Answer{Text: "Here.", Delay: time.Second},
			llmtest.Answer{Wait: make(chan struct{})}, llmtest.Answer{Wait: make(chan struct{})})
		w.tools = []tool.Tool{lookup{}}
		o := w.watch()
		set := w.set
		w.set = func(g *gateway.Options) { set(g); g.Limits.MaxWaiting, g.Streaming = 1, false }
		w.start()
		defer w.stop()
		m := w.message("7", "hi")
		w.offer(m)
		w.settle(time.Minute)
		o.wants(t, "a turn with a tool", `
			telegram: accepted
			turn 1 begins: message on telegram after 0s
			turn 1: lookup
			turn 1: replied in 4s
			turn 1: reply sent
			turn 1: scripted/scripted end_turn, 10 in, 2 out
			turn 1: scripted/scripted tool_use, 10 in, 0 out`)
		w.offer(m)
		w.say("666", "let me in")
		w.say("7", "/status")
		w.settle(time.Minute)
		o.wants(t, "a repetition, a stranger and a command", `
			telegram: accepted
			telegram: duplicate
			telegram: refused unknown_dm
			turn 2 begins: command on telegram after 0s
			turn 2: replied in 0s
			turn 2: reply sent`)
		w.say("7", "hang")
		w.settle(time.Second)
		w.say("8", "hang too")
		w.settle(time.Second)
		o.told()
		for range 3 {
			in := w.message("8", "/queue and me")
			if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(time.Second)
		if told := o.told(); !strings.Contains(told, "telegram: overflow") {
			t.Errorf("too many messages: %s", told)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.gw.Accept(t.Context(), []chat.Inbound{w.message("9", "hello?")}); err == nil {
			t.Fatal("a closed store takes messages")
		}
		o.wants(t, "a store that takes nothing", "telegram: unstored")
	})
}

func TestWatchersAreToldHowTurnsEnd(t *testing.T) {
	hang := llmtest.Answer{Text: "never", Delay: time.Hour}
	answers := func(a ...llmtest.Answer) []llmtest.Answer { return a }
	for name, c := range map[string]struct {
		answers []llmtest.Answer
		says    []string
		want    string
	}{
		"failed":    {answers(llmtest.Fail(llm.Auth)), []string{"a"}, "failed"},
		"cancelled": {answers(hang), []string{"a", "/stop"}, "cancelled replied"},
		"released":  {answers(hang, llmtest.Say("b")), []string{"a", "b"}, "released replied"},
		"superseded": {
			answers(llmtest.Use("lookup", `{}`), hang, llmtest.Say("b")),
			[]string{"a", "b"}, "superseded replied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, c.answers...)
				w.tools = []tool.Tool{lookup{}}
				o := w.watch()
				w.start()
				defer w.stop()
				for _, text := range c.says {
					w.say("7", text)
					w.settle(5 * time.Second)
				}
				w.settle(time.Minute)
				var got []string
				for line := range strings.Lines(o.told()) {
					if f := strings.Fields(line); len(f) == 5 && f[3] == "in" {
						got = append(got, f[2])
					}
				}
				slices.Sort(got)
				want := strings.Fields(c.want)
				slices.Sort(want)
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestWatchersAreToldOfATurnThatGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Wait: make(chan struct{})}, llmtest.Say("Here."))
		o := w.watch()
		w.start()
		w.say("7", "hi")
		w.settle(time.Second)
		w.kill()
		o.told()
		w.start()
		defer w.stop()
		w.settle(time.Minute)
		if told := o.told(); !strings.Contains(told, "turn 1 begins: message on telegram after 1s, again") || !strings.Contains(told, "turn 1: replied in") {
			t.Errorf("told:\n%s", told)
		}
	})
}

func TestWatchersAreToldOfCallsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "Here.", Notices: []llm.Notice{{Fallback: "other/model", Err: &llm.Error{Class: llm.Overloaded, Provider: "first"}}}})
		o := w.watch()
		w.start()
		defer w.stop()
		w.talk("hi")
		if told := o.told(); !strings.Contains(told, `turn 1: overloaded, then "other/model"`) {
			t.Errorf("told:\n%s", told)
		}
		got := w.gw.Status().Fallbacks
		if got.Count != 1 || got.Model != "other/model" || got.Reason != "first is overloaded" || got.At.IsZero() || time.Since(got.At) > time.Hour {
			t.Errorf("the status says %+v", got)
		}
		w.talk("and now?") // the first model again
		if n := w.gw.Status().Fallbacks.Count; n != 1 {
			t.Errorf("then %d", n)
		}
	})
}

func TestWatchersAreToldOfCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), sized("Three.", 300), sized("Four.", 86_000), sized("Five.", 300))
		f := &folder{limit: 1 << 30}
		w.compressing(f, 100_000)
		o := w.watch()
		w.start()
		defer w.stop()
		w.talk("a", "b")
		o.told()
		w.talk("c")
		if told := o.told(); !strings.Contains(told, "turn 3: hygiene by folder, 86") || !strings.Contains(told, " to 100") {
			t.Errorf("hygiene: %s", told)
		}
		if c := w.gw.Status().BackgroundCompactions; c.Started != 1 || c.Adopted != 1 {
			t.Errorf("%+v", c)
		}
		w.talk("d")
		f.err = fmt.Errorf("the model is asleep")
		w.talk("e")
		if told := o.told(); !strings.Contains(told, "turn 5: hygiene by folder failed") {
			t.Errorf("hygiene that fails: %s", told)
		}
		w.say("7", "/compress")
		w.settle(time.Minute)
		if told := o.told(); !strings.Contains(told, "turn 6: compression by folder failed") {
			t.Errorf("/compress that fails: %s", told)
		}
		f.err = nil
		w.say("7", "/compress")
		w.settle(time.Minute)
		if told := o.told(); !strings.Contains(told, "turn 7: compression by folder, ") {
			t.Errorf("/compress: %s", told)
		}
		if said := w.talk("/context"); !strings.Contains(said, "of all conversations: compactions beside turns since the start: 4; adopted 2, failed 2; the newest made 100 tokens of 308") {
			t.Errorf("/context: %s", said)
		}
	})
}

func TestWatchersAreToldOfDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		o := w.watch()
		w.start()
		defer w.stop()
		w.room.fail(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "try later", RetryAfter: time.Minute}})
		w.say("7", "a")
		w.settle(10 * time.Second)
		if told := o.told(); !strings.Contains(told, "turn 1: reply known_not_sent") {
			t.Errorf("told:\n%s", told)
		}
		w.settle(10 * time.Minute)
		if told := o.told(); !strings.Contains(told, "turn 1: reply sent") {
			t.Errorf("told:\n%s", told)
		}
		w.room.fail(fault{op: "send", before: &chat.SendError{Outcome: chat.Permanent, Reason: "you are blocked"}})
		w.say("7", "b")
		w.settle(10 * time.Minute)
		if told := o.told(); !strings.Contains(told, "turn 2: reply dead") {
			t.Errorf("told:\n%s", told)
		}
	})
}

func TestWatchersAreToldOfScheduledRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t, llmtest.Say("Good morning."))
		o := w.watch()
		w.start()
		w.job(schedule.JobPatch{Prompt: text("say good morning")})
		w.settle(61 * time.Minute)
		if told := o.told(); !strings.Contains(told, "begins: scheduled on cron") || !strings.Contains(told, "turn 1: replied in") {
			t.Errorf("told:\n%s", told)
		}
		w.stop()
		w.settle(5 * time.Hour)
		w.start()
		defer w.stop()
		w.settle(time.Minute)
		if told := o.told(); strings.Count(told, "cron: 1 missed") != 4 {
			t.Errorf("told:\n%s", told)
		}
	})
}
