package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// A foldingEngine merges everything before the newest user message into one message.
type foldingEngine struct {
	limit    int
	passes   int
	delay    time.Duration
	err      error
	describe func(*agent.Compaction) // adds descriptions to a compaction; nil: none
}

func (f *foldingEngine) Name() string              { return "folder" }
func (f *foldingEngine) Update(llm.Usage)          {}
func (f *foldingEngine) ShouldCompress(n int) bool { return n >= f.limit }
func (f *foldingEngine) State() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"passes":%d}`, f.passes))
}
func (f *foldingEngine) Status() agent.EngineStatus { return agent.EngineStatus{Engine: "folder"} }
func (f *foldingEngine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	delay := f.delay
	if v.WithoutModel {
		delay = 0
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return agent.Compaction{}, ctx.Err()
	}
	if f.err != nil {
		return agent.Compaction{}, f.err
	}
	to := len(v.Messages) - 1
	for to > 0 && (v.Messages[to].Role != llm.User || v.Messages[to].Text() == "") { // tool results are not user text
		to--
	}
	if to <= 0 {
		return agent.Compaction{}, agent.ErrCoolingDown
	}
	f.passes++
	ms := []llm.Message{llm.UserText(fmt.Sprintf("[sum of %d to %d]", v.First, v.First+to-1)), llm.AssistantText("Understood.")}
	p := agent.Compaction{Messages: append(ms, v.Messages[to:]...), To: to, PromptNote: "[Note: compacted]", Before: v.Tokens, After: 100}
	if f.describe != nil {
		f.describe(&p)
	}
	return p, nil
}

// useEngine configures an engine and a context length.
func (w *harness) useEngine(f *foldingEngine, window int) {
	w.configure = func(o *gatewaytest.Options) {
		o.Models = nil
		o.Window = window
		o.Compression = compaction.Options{
			Settings: hygiene.Settings{Enabled: true, MessageLimit: 5000}, MaxWait: 30 * time.Second,
			Engine: func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) { return f, nil },
		}
	}
}

func answerWithUsage(text string, prompt int) llmtest.Answer {
	return llmtest.Answer{Text: text, Usage: llm.Usage{Input: prompt, Output: 5}}
}

// allTexts returns every message of the newest session, archived or active, without
// summaries.
func (w *harness) allTexts() []string {
	w.t.Helper()
	recs, err := w.store.Sessions(w.t.Context(), session.Query{Max: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.sessionTexts(recs[0])
}

func (w *harness) sessionTexts(rec session.Record) (texts []string) {
	w.t.Helper()
	for _, span := range append(rec.Archive, session.Span{From: rec.Start, To: rec.Start + rec.Messages}) {
		rows, err := w.store.Rows(w.t.Context(), rec.ID, span)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, row := range rows {
			var m llm.Message
			if err := json.Unmarshal(row, &m); err != nil {
				w.t.Fatal(err)
			}
			if text := m.Text(); !strings.HasPrefix(text, "[sum") && text != "Understood." {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func (w *harness) talk(texts ...string) (last string) {
	for _, text := range texts {
		w.sendText("7", text)
		w.advance(5 * time.Minute)
	}
	seen := w.adapter.visible("7")
	return seen[len(seen)-1]
}

func TestCompactionBeforeTurnLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 100), answerWithUsage("Two.", 84_900), answerWithUsage("Three.", 86_000), answerWithUsage("Four.", 300), answerWithUsage("Five.", 310))
		f := &foldingEngine{limit: 1 << 30}
		w.useEngine(f, 100_000)
		w.start()
		w.talk("a", "b", "c")
		if f.passes != 0 {
			t.Error("it was too early")
		}
		if got := w.talk("d"); got != "Four." || f.passes != 1 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		seen := strings.Join(w.adapter.visible("7"), "\n")
		if !strings.Contains(seen, "summarised the older part") || !strings.Contains(seen, "Nothing is deleted") {
			t.Errorf("no notice:\n%s", seen)
		}
		w.kill()
		w.start()
		defer w.stop()
		if got := w.talk("e"); got != "Five." {
			t.Errorf("after the restart: %q", got)
		}
		want := []string{"a", "One.", "b", "Two.", "c", "Three.", "d", "Four.", "e", "Five."}
		if d := cmp.Diff(want, w.allTexts()); d != "" {
			t.Error(d)
		}
		r := w.model.Requests()
		if len(r[3].Messages) != 5 || !strings.HasSuffix(r[3].System, "[Note: compacted]") || r[4].System != r[3].System {
			t.Errorf("the fourth request has %d messages and ends its prompt with %q", len(r[3].Messages), r[3].System[len(r[3].System)-40:])
		}
	})
}

// compactAtMessages sets the number of messages at which hygiene compacts.
func (w *harness) compactAtMessages(n int) {
	set := w.configure
	w.configure = func(o *gatewaytest.Options) {
		set(o)
		o.Compression.MessageLimit = n
	}
}

func TestCompactionSlowIsAdoptedByLaterTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30), answerWithUsage("Four.", 500))
		f := &foldingEngine{limit: 1 << 30, delay: time.Minute}
		w.useEngine(f, 100_000)
		w.compactAtMessages(4)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(40 * time.Second) // the wait ends after 30 s
		if got := w.adapter.visible("7"); got[len(got)-1] != "Three." {
			t.Errorf("the message waited: %q", got)
		}
		w.advance(5 * time.Minute)
		if got := w.talk("d"); got != "Four." || f.passes != 1 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		if d := cmp.Diff([]string{"a", "One.", "b", "Two.", "c", "Three.", "d", "Four."}, w.allTexts()); d != "" {
			t.Error(d)
		}
		if n := len(w.model.Requests()[3].Messages); n != 7 {
			t.Errorf("the fourth request has %d messages", n)
		}
	})
}

// A summary that takes longer than a message waits is made without a model if the
// session is above the limit.
func TestCompactionSlowIsReplacedAboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), answerWithUsage("Three.", 300))
		f := &foldingEngine{limit: 1 << 30, delay: time.Minute, describe: func(p *agent.Compaction) { p.Explain("No model could write the summary.") }}
		w.useEngine(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(40 * time.Second) // the wait ends after 30 s
		seen := w.adapter.visible("7")
		if seen[len(seen)-1] != "Three." || f.passes != 1 || !strings.Contains(strings.Join(seen, "\n"), "No model could write the summary") {
			t.Errorf("%d passes, visible %q", f.passes, seen)
		}
		if r := w.model.Requests()[2]; len(r.Messages) != 5 || !strings.HasPrefix(r.Messages[0].Text(), "[sum of 0 to ") {
			t.Errorf("the third request has %d messages", len(r.Messages))
		}
		if d := cmp.Diff([]string{"a", "One.", "b", "Two.", "c", "Three."}, w.allTexts()); d != "" {
			t.Error(d)
		}
	})
}

func TestCompactionIsAwaitedIfContextIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 96_000), answerWithUsage("Three.", 500))
		f := &foldingEngine{limit: 1 << 30, delay: time.Minute}
		w.useEngine(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(45 * time.Second)
		if got := w.adapter.visible("7"); !strings.Contains(got[len(got)-1], "summarising its older part") {
			t.Errorf("visible %q", got)
		}
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); got[len(got)-1] != "Three." || f.passes != 1 {
			t.Errorf("visible %q", got)
		}
	})
}

func TestCompactionFailureChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), answerWithUsage("Three.", 500))
		f := &foldingEngine{limit: 1 << 30, err: errors.New("the summary model is away")}
		w.useEngine(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		before := w.transcript()
		if got := w.talk("c"); got != "Three." {
			t.Errorf("visible %q", got)
		}
		if d := cmp.Diff(before, w.transcript()[:len(before)]); d != "" {
			t.Error(d)
		}
		if seen := strings.Join(w.adapter.visible("7"), "\n"); !strings.Contains(seen, "the summary model is away") || !strings.Contains(seen, "Nothing is lost") {
			t.Errorf("visible:\n%s", seen)
		}
	})
}

func TestCompactionInLoopIsCommittedWithTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), llmtest.Answer{Calls: []llmtest.Call{{Name: "lookup"}}, Usage: llm.Usage{Input: 60_000, Output: 5}}, answerWithUsage("Two.", 400), answerWithUsage("Three.", 420))
		f := &foldingEngine{limit: 50_000}
		w.useEngine(f, 100_000)
		w.tools = append(w.tools, lookupTool{})
		w.start()
		if got := w.talk("a", "b"); got != "Two." || f.passes != 1 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		w.kill()
		w.start()
		defer w.stop()
		if got := w.talk("c"); got != "Three." || f.passes != 1 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		if tr := w.transcript(); !strings.HasPrefix(tr[0].Text(), "[sum") || tr[2].Text() != "b" {
			t.Errorf("active: %v", tr)
		}
		all := strings.Join(w.allTexts(), "|")
		if !strings.HasPrefix(all, "a|One.|b|") || !strings.HasSuffix(all, "Two.|c|Three.") {
			t.Errorf("all: %s", all)
		}
	})
}

func TestCompactionByCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30))
		f := &foldingEngine{limit: 1 << 30}
		w.useEngine(f, 100_000)
		w.start()
		if got := w.talk("/compress"); !strings.Contains(got, "nothing to make smaller yet") {
			t.Errorf("in an empty conversation: %q", got)
		}
		w.talk("a", "b")
		if got := w.talk("/compress the trip"); !strings.Contains(got, "2 messages are archived") || f.passes != 1 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		f.err = errors.New("the summary model is away")
		if got := w.talk("/compress"); got != "I could not summarise it: the summary model is away. Everything is as it was." {
			t.Errorf("a failure: %q", got)
		}
		f.err = agent.ErrCoolingDown
		if got := w.talk("/compress"); !strings.Contains(got, "nothing that could be made smaller") {
			t.Errorf("nothing to do: %q", got)
		}
		w.kill()
		w.start()
		defer w.stop()
		if got := w.talk("c"); got != "Three." {
			t.Errorf("visible %q", got)
		}
		if d := cmp.Diff([]string{"a", "One.", "b", "Two.", "c", "Three."}, w.allTexts()); d != "" {
			t.Error(d)
		}
		if r := w.model.Requests(); !strings.HasSuffix(r[2].System, "[Note: compacted]") {
			t.Error("the prompt has no note")
		}
	})
}
