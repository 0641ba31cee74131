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
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/observe"
	"hermesd/gateway/schedule"
)

// A recordingObserver records the observer events, one line each.
type recordingObserver struct {
	mu    sync.Mutex // guards the fields below
	turns []string   // in the order of their start
	lines []string
}

// observe adds a recordingObserver to the daemons of the harness.
func (w *harness) observe() *recordingObserver {
	o := &recordingObserver{}
	set := w.configure
	w.configure = func(g *gatewaytest.Options) {
		if set != nil {
			set(g)
		}
		g.Observe = o.record
	}
	return o
}

func (o *recordingObserver) record(e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	line := ""
	switch e := e.(type) {
	case observe.EventReceived:
		line = fmt.Sprintf("%s: %s %s", e.Platform, e.Result, e.Rule)
	case observe.TurnStarted:
		line = fmt.Sprintf("%s begins: %s on %s after %v", o.turnName(e.Turn), e.Kind, e.Platform, e.At.Sub(e.Accepted))
		if e.Resumed {
			line += ", again"
		}
	case observe.ModelCalled:
		line = fmt.Sprintf("%s: %s/%s %s, %d in, %d out", o.turnName(e.Turn), e.Provider, e.Model, e.Stop, e.Usage.Prompt(), e.Usage.Output)
	case observe.ModelRetried:
		line = fmt.Sprintf("%s: %s, then %q", o.turnName(e.Turn), e.Class, e.Fallback)
	case observe.ToolCalled:
		line = fmt.Sprintf("%s: %s", o.turnName(e.Turn), e.Tool)
		if e.Failed {
			line += " failed"
		}
	case observe.MediaProcessed:
		line = fmt.Sprintf("%s, failed %t, in %v", e.Task, e.Failed, e.Took)
	case observe.Compacted:
		line = fmt.Sprintf("%s: %s by %s, %d to %d", o.turnName(e.Turn), e.Reason, e.Engine, e.Before, e.After)
		if e.Failed {
			line = fmt.Sprintf("%s: %s by %s failed", o.turnName(e.Turn), e.Reason, e.Engine)
		}
	case observe.TurnEnded:
		line = fmt.Sprintf("%s: %s in %v", o.turnName(e.Turn), e.Result, e.Took)
	case observe.DeliveryAttempted:
		line = fmt.Sprintf("%s: %s %s", o.turnName(e.Turn), e.Role, e.State)
		if e.RateLimited {
			line += ", held"
		}
	case observe.OccurrencesSkipped:
		line = fmt.Sprintf("cron: %d %s", e.Count, e.State)
	}
	o.lines = append(o.lines, strings.TrimSpace(line))
}

// turnName returns a stable name of a turn.
func (o *recordingObserver) turnName(id string) string {
	if id == "" {
		return "daemon"
	}
	if !slices.Contains(o.turns, id) {
		o.turns = append(o.turns, id)
	}
	return fmt.Sprintf("turn %d", 1+slices.Index(o.turns, id))
}

// takeLines returns the lines since the last call, sorted, because deliveries run
// concurrently with turns.
func (o *recordingObserver) takeLines() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (o *recordingObserver) expect(t *testing.T, what, want string) {
	t.Helper()
	if d := cmp.Diff(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""), o.takeLines()); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func TestObserveMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("lookup", `{}`), llmtest.Answer{Text: "Here.", Delay: time.Second},
			llmtest.Answer{Wait: make(chan struct{})}, llmtest.Answer{Wait: make(chan struct{})})
		w.tools = []tool.Tool{lookupTool{}}
		o := w.observe()
		set := w.configure
		w.configure = func(g *gatewaytest.Options) { set(g); g.Limits.MaxQueuedMessages, g.Streaming = 1, false }
		w.start()
		defer w.stop()
		m := w.newMessage("7", "hi")
		w.accept(m)
		w.advance(time.Minute)
		o.expect(t, "a turn with a tool", `
			telegram: accepted
			turn 1 begins: message on telegram after 0s
			turn 1: lookup
			turn 1: replied in 4s
			turn 1: reply sent
			turn 1: scripted/scripted end_turn, 10 in, 2 out
			turn 1: scripted/scripted tool_use, 10 in, 0 out`)
		w.accept(m)
		w.sendText("666", "let me in")
		w.sendText("7", "/status")
		w.advance(time.Minute)
		o.expect(t, "a repetition, a stranger and a command", `
			telegram: accepted
			telegram: denied unknown_dm
			telegram: duplicate
			turn 2 begins: command on telegram after 0s
			turn 2: replied in 0s
			turn 2: reply sent`)
		w.sendText("7", "hang")
		w.advance(time.Second)
		w.sendText("8", "hang too")
		w.advance(time.Second)
		o.takeLines()
		for range 3 {
			in := w.newMessage("8", "/queue and me")
			if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(time.Second)
		if events := o.takeLines(); !strings.Contains(events, "telegram: queue_full") {
			t.Errorf("too many messages: %s", events)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.gw.Accept(t.Context(), []chat.Inbound{w.newMessage("9", "hello?")}); err == nil {
			t.Fatal("a closed store takes messages")
		}
		o.expect(t, "a store that takes nothing", "telegram: store_failed")
	})
}

func TestObserveTurnEnds(t *testing.T) {
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
				w.tools = []tool.Tool{lookupTool{}}
				o := w.observe()
				w.start()
				defer w.stop()
				for _, text := range c.says {
					w.sendText("7", text)
					w.advance(5 * time.Second)
				}
				w.advance(time.Minute)
				var got []string
				for line := range strings.Lines(o.takeLines()) {
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

func TestObserveResumedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Wait: make(chan struct{})}, llmtest.Say("Here."))
		o := w.observe()
		w.start()
		w.sendText("7", "hi")
		w.advance(time.Second)
		w.kill()
		o.takeLines()
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "turn 1 begins: message on telegram after 1s, again") || !strings.Contains(events, "turn 1: replied in") {
			t.Errorf("events:\n%s", events)
		}
	})
}

func TestObserveFailedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: "Here.", Notices: []llm.Notice{{Fallback: "other/model", Err: &llm.Error{Class: llm.Overloaded, Provider: "first"}}}})
		o := w.observe()
		w.start()
		defer w.stop()
		w.talk("hi")
		if events := o.takeLines(); !strings.Contains(events, `turn 1: overloaded, then "other/model"`) {
			t.Errorf("events:\n%s", events)
		}
		got := w.gw.Control().Status().Fallbacks
		if got.Count != 1 || got.Model != "other/model" || got.Reason != "first is overloaded" || got.At.IsZero() || time.Since(got.At) > time.Hour {
			t.Errorf("the status says %+v", got)
		}
		w.talk("and now?") // the first model again
		if n := w.gw.Control().Status().Fallbacks.Count; n != 1 {
			t.Errorf("then %d", n)
		}
	})
}

func TestObserveCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), answerWithUsage("Three.", 300), answerWithUsage("Four.", 86_000), answerWithUsage("Five.", 300))
		f := &foldingEngine{limit: 1 << 30}
		w.useEngine(f, 100_000)
		o := w.observe()
		w.start()
		defer w.stop()
		w.talk("a", "b")
		o.takeLines()
		w.talk("c")
		if events := o.takeLines(); !strings.Contains(events, "turn 3: hygiene by folder, 86") || !strings.Contains(events, " to 100") {
			t.Errorf("hygiene: %s", events)
		}
		if c := w.gw.Control().Status().BackgroundCompactions; c.Started != 1 || c.Adopted != 1 {
			t.Errorf("%+v", c)
		}
		w.talk("d")
		f.err = fmt.Errorf("the model is asleep")
		w.talk("e")
		if events := o.takeLines(); !strings.Contains(events, "turn 5: hygiene by folder failed") {
			t.Errorf("hygiene that fails: %s", events)
		}
		w.sendText("7", "/compress")
		w.advance(time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "turn 6: compression by folder failed") {
			t.Errorf("/compress that fails: %s", events)
		}
		f.err = nil
		w.sendText("7", "/compress")
		w.advance(time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "turn 7: compression by folder, ") {
			t.Errorf("/compress: %s", events)
		}
		if said := w.talk("/context"); !strings.Contains(said, "of all conversations: compactions outside of turns since the start: 4; adopted 2, failed 2; the newest made 100 tokens of 308") {
			t.Errorf("/context: %s", said)
		}
	})
}

func TestObserveDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		o := w.observe()
		w.start()
		defer w.stop()
		w.adapter.addFaults(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "try later", RetryAfter: time.Minute}})
		w.sendText("7", "a")
		w.advance(10 * time.Second)
		if events := o.takeLines(); !strings.Contains(events, "turn 1: reply known_not_sent") {
			t.Errorf("events:\n%s", events)
		}
		w.advance(10 * time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "turn 1: reply sent") {
			t.Errorf("events:\n%s", events)
		}
		w.adapter.addFaults(fault{op: "send", before: &chat.SendError{Outcome: chat.Permanent, Reason: "you are blocked"}})
		w.sendText("7", "b")
		w.advance(10 * time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "turn 2: reply dead") {
			t.Errorf("events:\n%s", events)
		}
	})
}

func TestObserveScheduledRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t, llmtest.Say("Good morning."))
		o := w.observe()
		w.start()
		w.createJob(schedule.JobPatch{Prompt: ptrTo("say good morning")})
		w.advance(61 * time.Minute)
		if events := o.takeLines(); !strings.Contains(events, "begins: scheduled on cron") || !strings.Contains(events, "turn 1: replied in") {
			t.Errorf("events:\n%s", events)
		}
		w.stop()
		w.advance(5 * time.Hour)
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if events := o.takeLines(); strings.Count(events, "cron: 1 missed") != 4 {
			t.Errorf("events:\n%s", events)
		}
	})
}
