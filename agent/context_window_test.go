package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/tool"
)

// foldingEngine replaces all messages before the newest user message by one.
type foldingEngine struct {
	limit    int // threshold in tokens
	passes   int
	views    []agent.ContextView
	fail     func(agent.ContextView) error
	window   int
	reported []int // prompt sizes that were reported
}

func (f *foldingEngine) Name() string               { return "folder" }
func (f *foldingEngine) Update(u llm.Usage)         { f.reported = append(f.reported, u.Prompt()) }
func (f *foldingEngine) ShouldCompress(n int) bool  { return n >= f.limit }
func (f *foldingEngine) State() json.RawMessage     { return nil }
func (f *foldingEngine) Status() agent.EngineStatus { return agent.EngineStatus{} }
func (f *foldingEngine) Limits(l agent.Limits)      { f.window = l.Window }
func (f *foldingEngine) Reset()                     {}
func (f *foldingEngine) End()                       {}
func (f *foldingEngine) Compress(_ context.Context, v agent.ContextView) (agent.Compaction, error) {
	f.views = append(f.views, v)
	if f.fail != nil {
		if err := f.fail(v); err != nil {
			return agent.Compaction{}, err
		}
	}
	f.passes++
	last := len(v.Messages) - 1
	for last > 0 && v.Messages[last].Text() == "" || v.Messages[last].Role != llm.User {
		last--
	}
	sum := llm.UserText(fmt.Sprintf("[sum of %d to %d]", v.First, v.First+last-1))
	ms := append([]llm.Message{sum, llm.AssistantText("ok")}, v.Messages[last:]...)
	return agent.Compaction{Messages: ms, From: 0, To: last, PromptNote: "[Note: compacted]"}, nil
}

func longTranscript() *llm.Transcript {
	tr := llm.NewTranscript()
	for i := range 10 {
		tr.Append(llm.UserText(fmt.Sprint("question ", i)), llm.AssistantText(strings.Repeat("word ", 100)))
	}
	return tr
}

func messageTexts(tr *llm.Transcript) (out []string) {
	for _, m := range tr.Since(0) {
		out = append(out, m.Text())
	}
	return out
}

// A provider that counts more than the estimate is taken to count new messages alike,
// up to twice the estimate.
func TestSizeFollowsTheProvidersCount(t *testing.T) {
	s := newHarness(t, agent.Config{}, llmtest.NewScripted())
	turn := s.turn("what now?", longTranscript())
	at := turn.Transcript.Len() - 1
	unreported := agent.ContextWindow{}
	all := unreported.Size(&turn)
	since := tokens.Since(turn.Transcript, at)
	before := all - since
	for reported, want := range map[int]int{
		before / 2:       before/2 + since,
		before:           before + since,
		before * 3 / 2:   before*3/2 + since*(before*3/2)/before,
		before * 100:     before*100 + since*2,
		before*3/2 + 100: before*3/2 + 100 + since*(before*3/2+100)/before,
	} {
		w := agent.ContextWindow{Reported: reported, At: at}
		if got := w.Size(&turn); got != want {
			t.Errorf("%d of an estimated %d reported, %d since: size %d, want %d", reported, before, since, got, want)
		}
	}
}

func TestContextIsCompactedBeforeCall(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Say("answer"))
	s := newHarness(t, agent.Config{}, p)
	f := &foldingEngine{limit: 1000}
	turn := s.turn("what now?", longTranscript())
	turn.ContextWindow = &agent.ContextWindow{Engine: f, First: 5}
	l := collect(t.Context(), s, turn, nil)
	want := []string{"[sum of 5 to 24]", "ok", "what now?", "answer"}
	if d := cmp.Diff(want, messageTexts(turn.Transcript)); d != "" || !l.ok || f.passes != 1 {
		t.Errorf("%d passes, %v\n%s", f.passes, l.err, d)
	}
	if r := p.Requests(); !strings.HasSuffix(r[0].System, "[Note: compacted]") || len(r[0].Messages) != 3 {
		t.Errorf("the model was asked %+v", r)
	}
	if turn.ContextWindow.First != 26 || turn.ContextWindow.Reported == 0 || turn.ContextWindow.At != 3 {
		t.Errorf("the window is %+v", turn.ContextWindow)
	}

	// A resumed turn makes no second compaction and reaches the same state.
	resumed := s.turn("what now?", longTranscript())
	resumed.ContextWindow = &agent.ContextWindow{Engine: &foldingEngine{limit: 1 << 30}, First: 5}
	resumed.Steps = l.steps[:1]
	p.Then(llmtest.Say("answer"))
	r := collect(t.Context(), s, resumed, nil)
	if d := cmp.Diff(want, messageTexts(resumed.Transcript)); d != "" || resumed.ContextWindow.First != 26 {
		t.Errorf("resumed, %v: %s", r.err, d)
	}
	if !hasCompacted(r) {
		t.Error("the resumed run emitted no Compacted")
	}
}

func hasCompacted(l runLog) bool {
	for _, e := range l.events {
		if _, ok := e.(agent.Compacted); ok {
			return true
		}
	}
	return false
}

func TestContextIsCompactedBetweenToolCalls(t *testing.T) {
	big := echoTool("big", tool.Pure, false)
	big.run = func(context.Context, tool.Call) (string, error) { return strings.Repeat("data ", 1000), nil }
	p := llmtest.NewScripted(llmtest.Say("first"), llmtest.Use("big", `{}`), llmtest.Say("done"))
	s := newHarness(t, agent.Config{}, p, big)
	f := &foldingEngine{limit: 1200, fail: func(agent.ContextView) error { return agent.ErrCoolingDown }}
	tr := llm.NewTranscript()
	turn := s.turn("hello", tr)
	turn.ContextWindow = &agent.ContextWindow{Engine: f}
	collect(t.Context(), s, turn, nil)
	turn = s.turn("use it", tr)
	turn.ContextWindow = &agent.ContextWindow{Engine: f}
	l := collect(t.Context(), s, turn, nil)
	if len(f.views) != 1 || len(f.views[0].Messages) != 5 || f.views[0].Tokens < 1200 || l.final.Text != "done" {
		t.Errorf("views %d, %+v", len(f.views), l)
	}
}

func TestContextOverflowSetsLimitAndRetries(t *testing.T) {
	tooLong := llmtest.Answer{Err: &llm.Error{Class: llm.ContextOverflow, Provider: "p", Limit: 900}}
	p := llmtest.NewScripted(tooLong, tooLong, llmtest.Say("answer"))
	s := newHarness(t, agent.Config{}, p)
	f := &foldingEngine{limit: 1 << 30}
	turn := s.turn("what now?", longTranscript())
	turn.ContextWindow = &agent.ContextWindow{Engine: f}
	l := collect(t.Context(), s, turn, nil)
	if l.final.Text != "answer" || f.passes != 2 || f.window != 900 || !f.views[0].Force {
		t.Errorf("%d passes, window %d, %v", f.passes, f.window, l.err)
	}
	learned := 0
	for _, e := range l.events {
		if e, ok := e.(agent.ContextLengthLearned); ok && e.Window == 900 {
			learned++
		}
	}
	if learned != 2 {
		t.Errorf("%d ContextLengthLearned events", learned)
	}

	p.Then(tooLong, tooLong, tooLong, tooLong, tooLong)
	turn = s.turn("and now?", longTranscript())
	turn.ContextWindow = &agent.ContextWindow{Engine: &foldingEngine{limit: 1 << 30}}
	l = collect(t.Context(), s, turn, nil)
	var e *llm.Error
	if !errors.As(l.err, &e) || p.Remaining() != 1 {
		t.Errorf("after three tries: %v, %d answers left", l.err, p.Remaining())
	}
}

func TestContextOverflowIsCompactedWithoutModel(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Fail(llm.ContextOverflow), llmtest.Say("answer"))
	s := newHarness(t, agent.Config{}, p)
	f := &foldingEngine{limit: 1 << 30, fail: func(v agent.ContextView) error {
		if v.WithoutModel {
			return nil
		}
		return errors.New("the summary model is away")
	}}
	turn := s.turn("what now?", longTranscript())
	turn.ContextWindow = &agent.ContextWindow{Engine: f}
	l := collect(t.Context(), s, turn, nil)
	if l.final.Text != "answer" || len(f.views) != 2 || !strings.Contains(l.String(), "plain: the summary model is away") {
		t.Errorf("%v\n%s", l.err, l.String())
	}
}

// A request above the limit is compacted although the engine is in its cooldown, and
// the tools can read what was replaced.
func TestRequestAboveTheLimitIsCompactedWithoutModel(t *testing.T) {
	var replaced []string
	look := echoTool("look", tool.Pure, false)
	look.run = func(_ context.Context, c tool.Call) (string, error) {
		for _, row := range []int{4, 5, 24, 25, 26} {
			m, ok := c.Replaced(row)
			replaced = append(replaced, fmt.Sprint(row, " ", ok, " ", m.Text()[:min(len(m.Text()), 10)]))
		}
		return "seen", nil
	}
	p := llmtest.NewScripted(llmtest.Use("look", `{}`), llmtest.Say("answer"))
	s := newHarness(t, agent.Config{}, p, look)
	f := &foldingEngine{limit: 1 << 30, fail: func(v agent.ContextView) error {
		if v.WithoutModel && v.Force && v.Limit == 1000 {
			return nil
		}
		return agent.ErrCoolingDown
	}}
	turn := s.turn("what now?", longTranscript())
	turn.ContextWindow = &agent.ContextWindow{Engine: f, First: 5, Window: 1200, Limit: 1000}
	l := collect(t.Context(), s, turn, nil)
	if l.final.Text != "answer" || len(f.views) != 2 || f.passes != 1 || strings.Contains(l.String(), "notice") {
		t.Errorf("%d passes, %v\n%s", f.passes, l.err, l.String())
	}
	if want := []string{"4 false ", "5 true question 0", "24 true word word ", "25 true what now?", "26 false "}; !slices.Equal(replaced, want) {
		t.Errorf("replaced: %q, want %q", replaced, want)
	}
}

// If the provider counts more than the estimate, the limit for the engine is lower.
func TestLimitOfTheViewIsAnEstimate(t *testing.T) {
	s := newHarness(t, agent.Config{}, llmtest.NewScripted())
	turn := s.turn("", longTranscript())
	w := &agent.ContextWindow{Limit: 10_000}
	estimate := w.Size(&turn)
	if v := w.View(&turn, ""); v.Limit != 10_000 || v.Tokens != estimate {
		t.Errorf("without a reported size: %d, %d tokens", v.Limit, v.Tokens)
	}
	w.Reported, w.At = 2*estimate, 20
	if v := w.View(&turn, ""); v.Limit != 5_000 {
		t.Errorf("the limit is %d, want half of it", v.Limit)
	}
	w.Reported = estimate / 2
	if v := w.View(&turn, ""); v.Limit != 10_000 {
		t.Errorf("the limit is %d with a smaller reported size", v.Limit)
	}
}

func TestEngineFailureKeepsContext(t *testing.T) {
	for name, fail := range map[string]func(agent.ContextView) error{
		"fails":  func(agent.ContextView) error { return errors.New("away") },
		"panics": func(agent.ContextView) error { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			p := llmtest.NewScripted(llmtest.Say("answer"))
			s := newHarness(t, agent.Config{}, p)
			turn := s.turn("what now?", longTranscript())
			turn.ContextWindow = &agent.ContextWindow{Engine: &foldingEngine{limit: 1, fail: fail}}
			l := collect(t.Context(), s, turn, nil)
			if l.final.Text != "answer" || turn.Transcript.Len() != 22 || !strings.Contains(l.String(), "crowded") {
				t.Errorf("%v, %d messages\n%s", l.err, turn.Transcript.Len(), l.String())
			}
		})
	}
}

func TestMaxTokensIsReducedToModelLimit(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Answer{Err: &llm.Error{Class: llm.Format, Provider: "p", MaxTokens: 4096}}, llmtest.Say("answer"))
	s := newHarness(t, agent.Config{}, p)
	turn := s.turn("hello", llm.NewTranscript())
	turn.MaxTokens = 1 << 20
	if l := collect(t.Context(), s, turn, nil); l.final.Text != "answer" || !strings.Contains(l.String(), "shorten") {
		t.Errorf("%v\n%s", l.err, l.String())
	}
}

// A run is resumed after each of its steps, one or two of them compactions, and
// reaches the same state.
func TestCompactionBetweenToolsIsResumed(t *testing.T) {
	for passes, limits := range map[int][]int{1: {1 << 30, 50_000, 1 << 30, 1 << 30}, 2: {1 << 30, 50_000, 50_000, 1 << 30}, 3: {50_000, 50_000, 50_000, 50_000}} {
		t.Run(fmt.Sprint(passes, " passes"), func(t *testing.T) {
			s := func(p llm.Provider) harness {
				return newHarness(t, agent.Config{}, p, echoTool("pure", tool.Pure, false), echoTool("once", tool.AtMostOnce, false))
			}
			answers := []llmtest.Answer{llmtest.Use("pure", `{"n":1}`), llmtest.Use("once", `{"n":2}`), llmtest.Say("done")}
			for i := range answers {
				answers[i].Usage = llm.Usage{Input: 60_000, Output: 1}
			}
			turnOf := func(x harness) agent.Turn {
				turn := x.turn("work", longTranscript())
				turn.ContextWindow = &agent.ContextWindow{Engine: &varyingLimitEngine{limits: limits}, First: 5}
				return turn
			}
			live := s(llmtest.NewScripted(answers...))
			turn := turnOf(live)
			l := collect(t.Context(), live, turn, nil)
			n := 0
			for _, st := range l.steps {
				if st.Kind == agent.StepCompaction {
					n++
				}
			}
			if !l.ok || n == 0 {
				t.Fatalf("%d passes, %v", n, l.err)
			}
			want, first := messageTexts(turn.Transcript), turn.ContextWindow.First
			for k := 1; k < len(l.steps); k++ {
				answered := 0
				for _, st := range l.steps[:k] {
					if st.Kind == agent.StepAnswer {
						answered++
					}
				}
				resumed := s(llmtest.NewScripted(answers[answered:]...))
				turn := turnOf(resumed)
				turn.ContextWindow.Engine = &foldingEngine{limit: 1 << 30}
				turn.Steps = l.steps[:k]
				r := collect(t.Context(), resumed, turn, nil)
				if r.err != nil || r.final.Text != "done" {
					t.Errorf("resumed behind step %d (%s): %v", k, l.steps[k-1].Kind, r.err)
				}
				if err := llm.ValidateMessages(turn.Transcript.Since(0)); err != nil {
					t.Errorf("resumed behind step %d: %v", k, err)
				}
				late := 0
				for _, st := range l.steps[k:] {
					if st.Kind == agent.StepCompaction {
						late++
					}
				}
				if d := cmp.Diff(want, messageTexts(turn.Transcript)); late == 0 && l.steps[k-1].Kind != agent.StepStart && (d != "" || turn.ContextWindow.First != first) {
					t.Errorf("resumed behind step %d, first %d, not %d: %s", k, turn.ContextWindow.First, first, d)
				}
			}
		})
	}
}

// varyingLimitEngine is a foldingEngine with another limit for each query.
type varyingLimitEngine struct {
	foldingEngine
	limits []int
}

func (r *varyingLimitEngine) ShouldCompress(n int) bool {
	if len(r.limits) == 0 {
		return false
	}
	limit := r.limits[0]
	r.limits = r.limits[1:]
	return n >= limit
}

func TestThinkingOfAnotherPrefixIsDropped(t *testing.T) {
	refused := llmtest.Answer{Err: &llm.Error{Class: llm.PrefixCheck, Provider: "p"}}
	p := llmtest.NewScripted(refused, llmtest.Use("pure", `{}`), llmtest.Say("answer"), refused, refused)
	s := newHarness(t, agent.Config{}, p, echoTool("pure", tool.Pure, false))
	if l := collect(t.Context(), s, s.turn("hello", llm.NewTranscript()), nil); l.final.Text != "answer" {
		t.Fatalf("%v\n%s", l.err, l.String())
	}
	var dropped []bool
	for _, r := range p.Requests() {
		dropped = append(dropped, r.DropThinking)
	}
	if !slices.Equal(dropped, []bool{false, true, true}) {
		t.Errorf("dropped: %v", dropped)
	}
	if l := collect(t.Context(), s, s.turn("hello", llm.NewTranscript()), nil); l.err == nil {
		t.Errorf("answered\n%s", l.String())
	}
}
