package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
)

// An exclusiveEngine reports concurrent use as a test error.
type exclusiveEngine struct {
	foldingEngine
	t          *testing.T
	mu         sync.Mutex
	busy       bool
	limitsSeen []agent.Limits
	cooldown   string // reason of the cooldown, after a failure
}

func (w *exclusiveEngine) enter() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		w.t.Error("the engine is used concurrently")
	}
	w.busy = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy = false
	}
}

func (w *exclusiveEngine) ShouldCompress(n int) bool {
	defer w.enter()()
	return w.foldingEngine.ShouldCompress(n)
}
func (w *exclusiveEngine) Update(llm.Usage)       { defer w.enter()() }
func (w *exclusiveEngine) State() json.RawMessage { defer w.enter()(); return w.foldingEngine.State() }
func (w *exclusiveEngine) Reset()                 { defer w.enter()(); w.cooldown = "" }
func (w *exclusiveEngine) End()                   { defer w.enter()() }
func (w *exclusiveEngine) Status() agent.EngineStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return agent.EngineStatus{Engine: "watched", Cooldown: w.cooldown}
}

func (w *exclusiveEngine) Limits(l agent.Limits) {
	defer w.enter()()
	w.limitsSeen = append(w.limitsSeen, l)
}

func (w *exclusiveEngine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	defer w.enter()()
	p, err := w.foldingEngine.Compress(ctx, v)
	if err != nil {
		w.mu.Lock()
		w.cooldown = "it failed"
		w.mu.Unlock()
	}
	return p, err
}

// useExclusiveEngine configures an exclusiveEngine for all conversations.
func (w *harness) useExclusiveEngine(e *exclusiveEngine, window int) {
	e.t = w.t
	w.useEngine(&e.foldingEngine, window)
	set := w.configure
	w.configure = func(o *gatewaytest.Options) {
		set(o)
		o.Compression.Enabled, o.Compression.Engine = true, func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) { return e, nil }
	}
}

func TestEngineIsNotUsedDuringCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30), answerWithUsage("Four.", 40))
		e := &exclusiveEngine{foldingEngine: foldingEngine{limit: 1 << 30, delay: time.Minute}}
		w.useExclusiveEngine(e, 100_000)
		w.compactAtMessages(4)
		first := w.configure
		w.configure = func(o *gatewaytest.Options) {
			first(o)
			made := 0
			o.Compression.Enabled, o.Compression.Engine = true, func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) {
				if made++; made == 1 {
					return e, nil
				}
				return &exclusiveEngine{foldingEngine: foldingEngine{limit: 1 << 30}, t: t}, nil
			}
		}
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(40 * time.Second) // answered without the compaction
		if got := w.talk("/compress", "d"); got != "Four." || e.passes != 1 {
			t.Errorf("%q after %d passes", got, e.passes)
		}
	})
}

func TestStopAfterCompactionKeepsTranscriptValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), llmtest.Answer{Text: "never", Wait: make(chan struct{})}, answerWithUsage("Four.", 50))
		w.useEngine(&foldingEngine{limit: 1 << 30}, 100_000)
		w.start()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(time.Second)
		w.talk("/stop")
		if tr := w.transcript(); tr[len(tr)-1].Role != llm.Assistant {
			t.Errorf("the transcript ends with %q", tr[len(tr)-1].Text())
		}
		old := w.newMessage("7", "from long ago")
		old.SentAt = time.Now().Add(-48 * time.Hour)
		w.accept(old)
		w.advance(time.Minute)
		w.transcript() // must be valid
		w.kill()
		w.start() // the break of the compaction was declared before the crash
		defer w.stop()
		if got := w.talk("d"); got != "Four." {
			t.Errorf("visible %q", got)
		}
		all := strings.Join(w.allTexts(), "|")
		if want := "a|One.|b|Two.|c|[Stopped by the user.]|from long ago|[Not answered: it came while the daemon was away.]|d|Four."; all != want {
			t.Errorf("all %s", all)
		}
	})
}

func TestCompactionThenFailureDeclaresPrefixBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), llmtest.Fail(llm.Auth), answerWithUsage("Four.", 50))
		w.useEngine(&foldingEngine{limit: 1 << 30}, 100_000)
		w.start()
		w.talk("a", "b", "c")
		w.kill()
		w.start()
		defer w.stop()
		if got := w.talk("d"); got != "Four." {
			t.Errorf("visible %q", got)
		}
	})
}

func TestCompactionDropsInputProviderRejects(t *testing.T) {
	for _, class := range []llm.Class{llm.Format, llm.ImageTooLarge, llm.ContextOverflow} {
		t.Run(fmt.Sprint(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000))
				w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
					for _, m := range r.Messages {
						if m.Text() == "poison" {
							return llmtest.Fail(class)
						}
					}
					return answerWithUsage("Fine.", 100)
				}
				w.useEngine(&foldingEngine{limit: 1 << 30}, 100_000)
				w.start()
				if got := w.talk("a", "b", "poison"); !strings.HasPrefix(got, "⚠️") {
					t.Errorf("visible %q", got)
				}
				if got := w.talk("c"); got != "Fine." {
					t.Errorf("visible %q", got)
				}
				w.kill()
				w.start()
				defer w.stop()
				if got := w.talk("d"); got != "Fine." {
					t.Errorf("after the restart: %q", got)
				}
				if got := strings.Join(w.allTexts(), "|"); got != "a|One.|b|Two.|c|Fine.|d|Fine." {
					t.Errorf("all %s", got)
				}
			})
		})
	}
}

func TestEngineGetsLimitsOfNewModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20))
		m := &modelsWithWindow{models{second: llmtest.NewScripted(answerWithUsage("Other.", 10), answerWithUsage("Other.", 10))}}
		e := &exclusiveEngine{foldingEngine: foldingEngine{limit: 1 << 30}}
		w.useExclusiveEngine(e, 100_000)
		set := w.configure
		w.configure = func(o *gatewaytest.Options) { set(o); o.Models = m }
		w.start()
		defer w.stop()
		w.talk("a", "/model second", "b", "c", "/model scripted", "d")
		if len(e.limitsSeen) != 2 || e.limitsSeen[0] != (agent.Limits{Model: "second", Window: 8_000}) || e.limitsSeen[1].Window != 100_000 {
			t.Errorf("limits %+v", e.limitsSeen)
		}
	})
}

// modelsWithWindow are models with a context length.
type modelsWithWindow struct{ models }

func (m *modelsWithWindow) Choose(s session.Settings) (conversation.ModelChoice, error) {
	c, err := m.models.Choose(s)
	c.Window = 100_000
	if s.Model != "" {
		c.Window = 8_000
	}
	return c, err
}

func TestCompactionCooldownAfterLateFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 86_000), answerWithUsage("Three.", 86_100), answerWithUsage("Four.", 86_200), answerWithUsage("Five.", 86_300), answerWithUsage("Six.", 86_400))
		w.useEngine(&foldingEngine{}, 100_000)
		set := w.configure
		w.configure = func(o *gatewaytest.Options) {
			set(o)
			o.Limits.TranscriptCacheBytes = 0 // each turn loads the transcript and creates the engine again
			o.Compression.Enabled, o.Compression.Engine = true, func(_ session.Record, _ conversation.ModelChoice, state json.RawMessage) (agent.Engine, error) {
				e := &exclusiveEngine{t: t, foldingEngine: foldingEngine{limit: 1 << 30, delay: time.Minute, err: fmt.Errorf("away")}}
				return &coolingEngine{e, state != nil}, nil
			}
		}
		w.start()
		defer w.stop()
		w.talk("a", "b", "c", "d", "e", "f")
		if seen := strings.Count(strings.Join(w.adapter.visible("7"), "\n"), "could not summarise"); seen != 1 {
			t.Errorf("notified %d times\n%s", seen, w.adapter.history())
		}
	})
}

// A coolingEngine stays in cooldown once it has failed, and keeps that in its state.
type coolingEngine struct {
	*exclusiveEngine
	failed bool
}

func (s *coolingEngine) State() json.RawMessage {
	if s.failed || s.Status().Cooldown != "" {
		return json.RawMessage(`{"failed":true}`)
	}
	return nil
}

func (s *coolingEngine) Status() agent.EngineStatus {
	st := s.exclusiveEngine.Status()
	if s.failed {
		st.Cooldown = "it failed"
	}
	return st
}
