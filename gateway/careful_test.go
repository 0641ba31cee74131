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
	"hermesd/gateway"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// A watched engine reports who uses it while somebody else does.
type watched struct {
	folder
	t    *testing.T
	mu   sync.Mutex
	busy bool
	told []agent.Limits
	rest string // why it rests, after a failure
}

func (w *watched) use() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		w.t.Error("two use the engine at once")
	}
	w.busy = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy = false
	}
}

func (w *watched) ShouldCompress(n int) bool { defer w.use()(); return w.folder.ShouldCompress(n) }
func (w *watched) Update(llm.Usage)          { defer w.use()() }
func (w *watched) State() json.RawMessage    { defer w.use()(); return w.folder.State() }
func (w *watched) Reset()                    { defer w.use()(); w.rest = "" }
func (w *watched) End()                      { defer w.use()() }
func (w *watched) Status() agent.EngineStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return agent.EngineStatus{Engine: "watched", Cooldown: w.rest}
}

func (w *watched) Limits(l agent.Limits) {
	defer w.use()()
	w.told = append(w.told, l)
}

func (w *watched) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	defer w.use()()
	p, err := w.folder.Compress(ctx, v)
	if err != nil {
		w.mu.Lock()
		w.rest = "it failed"
		w.mu.Unlock()
	}
	return p, err
}

// watching gives the world a watched engine, anew for each conversation that is
// read from the store.
func (w *harness) watching(e *watched, window int) {
	e.t = w.t
	w.compressing(&e.folder, window)
	set := w.set
	w.set = func(o *gateway.Options) {
		set(o)
		o.Compression.Engine = func(session.Record, turn.ModelChoice, json.RawMessage) (agent.Engine, error) { return e, nil }
	}
}

func TestNobodyUsesAnEngineWhileAPassIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), sized("Three.", 86_500), sized("Four.", 500))
		e := &watched{folder: folder{limit: 1 << 30, delay: time.Minute}}
		w.watching(e, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.say("7", "c")
		w.settle(40 * time.Second) // answered without the pass
		if got := w.talk("/compress", "d"); got != "Four." || e.passes != 1 {
			t.Errorf("%q after %d passes", got, e.passes)
		}
	})
}

func TestAStopBehindAPassLeavesATranscriptThatCanGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), llmtest.Answer{Text: "never", Wait: make(chan struct{})}, sized("Four.", 50))
		w.compressing(&folder{limit: 1 << 30}, 100_000)
		w.start()
		w.talk("a", "b")
		w.say("7", "c")
		w.settle(time.Second)
		w.talk("/stop")
		if tr := w.transcript(); tr[len(tr)-1].Role != llm.Assistant {
			t.Errorf("the transcript ends with %q", tr[len(tr)-1].Text())
		}
		old := w.message("7", "from long ago")
		old.SentAt = time.Now().Add(-48 * time.Hour)
		w.offer(old)
		w.settle(time.Minute)
		w.transcript() // is legal
		w.kill()
		w.start() // the break that the pass made was declared by a dead daemon
		defer w.stop()
		if got := w.talk("d"); got != "Four." {
			t.Errorf("visible %q", got)
		}
		all := strings.Join(w.all(), "|")
		if want := "a|One.|b|Two.|c|[Stopped by the user.]|from long ago|[Not answered: it came while the daemon was away.]|d|Four."; all != want {
			t.Errorf("all %s", all)
		}
	})
}

func TestAFailureBehindAPassIsDeclaredAlsoAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), llmtest.Fail(llm.Auth), sized("Four.", 50))
		w.compressing(&folder{limit: 1 << 30}, 100_000)
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

func TestWhatTheProviderRefusesToReadDoesNotStayBehindAPass(t *testing.T) {
	for _, class := range []llm.Class{llm.Format, llm.ImageTooLarge, llm.ContextOverflow} {
		t.Run(fmt.Sprint(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, sized("One.", 10), sized("Two.", 86_000))
				w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
					for _, m := range r.Messages {
						if m.Text() == "poison" {
							return llmtest.Fail(class)
						}
					}
					return sized("Fine.", 100)
				}
				w.compressing(&folder{limit: 1 << 30}, 100_000)
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
				if got := strings.Join(w.all(), "|"); got != "a|One.|b|Two.|c|Fine.|d|Fine." {
					t.Errorf("all %s", got)
				}
			})
		})
	}
}

func TestAnEngineIsToldOfAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 20))
		m := &wide{models{second: llmtest.NewScripted(sized("Other.", 10), sized("Other.", 10))}}
		e := &watched{folder: folder{limit: 1 << 30}}
		w.watching(e, 100_000)
		set := w.set
		w.set = func(o *gateway.Options) { set(o); o.Models = m }
		w.start()
		defer w.stop()
		w.talk("a", "/model second", "b", "c", "/model scripted", "d")
		if len(e.told) != 2 || e.told[0] != (agent.Limits{Model: "second", Window: 8_000}) || e.told[1].Window != 100_000 {
			t.Errorf("told %+v", e.told)
		}
	})
}

// wide are models with windows.
type wide struct{ models }

func (m *wide) Choose(s session.Settings) (turn.ModelChoice, error) {
	c, err := m.models.Choose(s)
	c.Window = 100_000
	if s.Model != "" {
		c.Window = 8_000
	}
	return c, err
}

func TestAPassThatFailsLateIsNotTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), sized("Three.", 86_100), sized("Four.", 86_200), sized("Five.", 86_300), sized("Six.", 86_400))
		w.compressing(&folder{}, 100_000)
		set := w.set
		w.set = func(o *gateway.Options) {
			set(o)
			o.Limits.CacheBytes = 0 // each turn reads the conversation, and makes the engine anew
			o.Compression.Engine = func(_ session.Record, _ turn.ModelChoice, state json.RawMessage) (agent.Engine, error) {
				e := &watched{t: t, folder: folder{limit: 1 << 30, delay: time.Minute, err: fmt.Errorf("away")}}
				return &sulky{e, state != nil}, nil
			}
		}
		w.start()
		defer w.stop()
		w.talk("a", "b", "c", "d", "e", "f")
		if seen := strings.Count(strings.Join(w.room.visible("7"), "\n"), "could not summarise"); seen != 1 {
			t.Errorf("told %d times\n%s", seen, w.room.history())
		}
	})
}

// sulky rests for ever once it has failed, and keeps that in its state.
type sulky struct {
	*watched
	failed bool
}

func (s *sulky) State() json.RawMessage {
	if s.failed || s.Status().Cooldown != "" {
		return json.RawMessage(`{"failed":true}`)
	}
	return nil
}

func (s *sulky) Status() agent.EngineStatus {
	st := s.watched.Status()
	if s.failed {
		st.Cooldown = "it failed"
	}
	return st
}
