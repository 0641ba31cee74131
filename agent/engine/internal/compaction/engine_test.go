package compaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixedSummarizer always writes the same text.
type fixedSummarizer struct {
	text string
	kept string
	err  error
}

func (fixedSummarizer) Name() string { return "writes" }
func (w fixedSummarizer) Write(context.Context, *summary.Writer, compaction.SummaryInput) (string, error) {
	return w.text, w.err
}
func (fixedSummarizer) MaxSize(tokens int) int { return tokens }
func (w fixedSummarizer) Save() json.RawMessage {
	if w.kept == "" {
		return nil
	}
	return json.RawMessage(w.kept)
}

func newEngine(w fixedSummarizer, state json.RawMessage) *compaction.Engine {
	s := enginetest.Defaults()
	s.MinThresholdTokens = 0
	return compaction.New(compaction.Options{Settings: s, Limits: agent.Limits{Window: 40_000}, State: state}, w, nil)
}

func view(n int) agent.ContextView {
	var v agent.ContextView
	for i := range n {
		v.Messages = append(v.Messages, llm.UserText(fmt.Sprint("ask ", i)), llm.AssistantText(strings.Repeat("words ", 200)))
	}
	return v
}

func TestAPassThatWouldMakeTheContextLargerIsDiscarded(t *testing.T) {
	e, v := newEngine(fixedSummarizer{text: strings.Repeat("long ", 40_000)}, nil), view(40)
	for i := range 2 {
		p, err := e.Compress(t.Context(), v)
		if err == nil || errors.Is(err, agent.ErrCoolingDown) || !strings.Contains(err.Error(), "larger") || len(p.Messages) != 0 {
			t.Fatalf("pass %d: %v, %d messages", i, err, len(p.Messages))
		}
	}
	if st := e.Status(); st.Passes != 0 || st.Archived != 0 || !strings.Contains(st.Cooldown, "/compress") {
		t.Errorf("%+v", st)
	}
	if _, err := e.Compress(t.Context(), v); !errors.Is(err, agent.ErrCoolingDown) {
		t.Errorf("after two of them: %v", err)
	}
	if again := newEngine(fixedSummarizer{text: "short"}, e.State()); again.Status().Cooldown == "" {
		t.Error("the pause does not survive a restart")
	}
	v.Force = true
	if _, err := newEngine(fixedSummarizer{text: "short"}, e.State()).Compress(t.Context(), v); err != nil {
		t.Errorf("with force: %v", err)
	}
}

func TestAPassThatSavesLittleCountsAndIsKept(t *testing.T) {
	v := view(40)
	probe, err := newEngine(fixedSummarizer{text: "x"}, nil).Compress(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	// The summary leaves a twentieth of the saving.
	e := newEngine(fixedSummarizer{text: strings.Repeat("word", (probe.Before-probe.After)*19/20)}, nil)
	for i := range 2 {
		p, err := e.Compress(t.Context(), v)
		if err != nil || p.After >= p.Before || (p.Before-p.After)*10 >= p.Before {
			t.Fatalf("pass %d: %v, %d became %d", i, err, p.Before, p.After)
		}
	}
	if e.Status().Passes != 2 || e.Status().Cooldown == "" {
		t.Errorf("%+v", e.Status())
	}
}

func TestSummarizerStateIsReadByItsEngineOnly(t *testing.T) {
	e := newEngine(fixedSummarizer{text: "short", kept: `{"n":1}`}, nil)
	if _, err := e.Compress(t.Context(), view(40)); err != nil {
		t.Fatal(err)
	}
	if got := string(compaction.Kept(e.State(), "writes")); got != `{"n":1}` {
		t.Errorf("kept %q", got)
	}
	if got := compaction.Kept(e.State(), "another"); got != nil {
		t.Errorf("another engine reads %s", got)
	}
}

func TestAFailureIsToldInOneLineAndEndsWithAReset(t *testing.T) {
	e := newEngine(fixedSummarizer{err: errors.New("no network")}, nil)
	_, err := e.Compress(t.Context(), view(40))
	if err == nil || !strings.Contains(err.Error(), "no network") || !strings.Contains(e.Status().Cooldown, "no network") {
		t.Errorf("%v, %+v", err, e.Status())
	}
	if e.Reset(); e.Status().Cooldown != "" {
		t.Error("it rests still")
	}
}

// Every synctest bubble begins at the same instant, so for an engine in a
// second bubble the clock was set back.
func TestARestIsNotLongerByAClockThatIsSetBack(t *testing.T) {
	var kept json.RawMessage
	synctest.Test(t, func(t *testing.T) {
		<-time.After(10 * time.Hour)
		e := newEngine(fixedSummarizer{err: errors.New("no network")}, nil)
		if _, err := e.Compress(t.Context(), view(40)); err == nil || e.Status().Cooldown == "" {
			t.Errorf("%v, %+v", err, e.Status())
		}
		kept = e.State()
	})
	synctest.Test(t, func(t *testing.T) {
		if why := newEngine(fixedSummarizer{}, kept).Status().Cooldown; why != "" {
			t.Errorf("it rests %s", why)
		}
	})
}
