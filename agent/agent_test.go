package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
)

func TestAnswerWithoutTools(t *testing.T) {
	p := scripted(llmtest.Answer{Thinking: "hm", Text: "Hello there.", Usage: llm.Usage{Input: 7, Output: 3}})
	s := newHarness(t, agent.Config{ReasoningEffort: "low"}, p, echoTool("look", tool.Pure, true))
	tr := llm.NewTranscript()
	turn := s.turn("hi", tr)
	turn.CacheTTL, turn.MaxTokens = "1h", 99
	l := collect(t.Context(), s, turn, nil)
	if d := cmp.Diff("call end_turn\nrecord answer\nfinal end_turn\n", l.String()); d != "" {
		t.Error(d)
	}
	want := agent.Final{Text: "Hello there.", Stop: llm.EndTurn, Usage: llm.Usage{Input: 7, Output: 3}}
	if d := cmp.Diff(want, l.final); d != "" {
		t.Error(d)
	}
	if l.visibleText() != "Hello there." {
		t.Errorf("shown: %q", l.visibleText())
	}
	if d := cmp.Diff("user text: hi\nassistant thinking: hm\nassistant text: Hello there.\n", formatTranscript(tr)); d != "" {
		t.Error(d)
	}
	q := p.Requests()[0]
	if q.System != s.prefix.System() || q.Overlay != "<gateway-context>\nit is noon\n</gateway-context>" ||
		q.Model != "m" || q.Effort != "low" || q.CacheTTL != "1h" || q.MaxTokens != 99 || q.NoTools {
		t.Errorf("request: %+v", q)
	}
	if d := cmp.Diff(s.prefix.Tools(), q.Tools); d != "" {
		t.Error(d)
	}
}

func TestToolResultsAreInCallOrder(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	slow := fakeTool{toolSpec("slow", tool.Pure, true), func(ctx context.Context, c tool.Call) (string, error) {
		close(first)
		<-second
		return "slow result", nil
	}}
	quick := fakeTool{toolSpec("quick", tool.Pure, true), func(ctx context.Context, c tool.Call) (string, error) {
		<-first // both run at the same time
		close(second)
		return "quick result", nil
	}}
	p := scripted(
		llmtest.Answer{Text: "Let me see.", Calls: []llmtest.Call{{ID: "a", Name: "slow"}, {ID: "b", Name: "quick", Input: `{"x": 1}`}}},
		llmtest.Say("Found."),
	)
	s := newHarness(t, agent.Config{}, p, slow, quick)
	tr := llm.NewTranscript()
	l := collect(t.Context(), s, s.turn("look", tr), nil)
	if l.err != nil || l.final.Text != "Found." || l.visibleText() != "Found." {
		t.Fatalf("final %q, seen %q, err %v", l.final.Text, l.visibleText(), l.err)
	}
	want := "user text: look\nassistant text: Let me see.\nassistant tool_use: a slow {}\nassistant tool_use: b quick {\"x\": 1}\n" +
		"user tool_result: a failed=false slow result\nuser tool_result: b failed=false quick result\nassistant text: Found.\n"
	if d := cmp.Diff(want, formatTranscript(tr)); d != "" {
		t.Error(d)
	}
	wantLegal(t, tr)
	if strings.Contains(l.String(), "retracted") {
		t.Errorf("something was retracted:\n%s", l)
	}
	for _, q := range p.Requests() {
		if q.Overlay == "" {
			t.Error("a call of the turn has no overlay")
		}
	}
}

// exclusiveTool returns a tool that fails if another call of it is running.
func exclusiveTool(name string, parallel bool) fakeTool {
	running := make(chan struct{}, 1)
	return fakeTool{toolSpec(name, tool.Pure, parallel), func(context.Context, tool.Call) (string, error) {
		select {
		case running <- struct{}{}:
		default:
			return "", errors.New("another one runs")
		}
		runtime.Gosched()
		defer func() { <-running }()
		return "ok", nil
	}}
}

func TestBatchWithInvalidCallIsSequential(t *testing.T) {
	calls := []llmtest.Call{{Name: "side", Input: "[]"}}
	for range 60 {
		calls = append(calls, llmtest.Call{Name: "side"})
	}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: calls}, llmtest.Say("x")), exclusiveTool("side", true))
	tr := llm.NewTranscript()
	collect(t.Context(), s, s.turn("go", tr), nil)
	if n := strings.Count(formatTranscript(tr), "failed=false ok"); n != 60 {
		t.Errorf("%d of 60 ran alone:\n%s", n, formatTranscript(tr))
	}
}

func TestToolsNotParallelRunAlone(t *testing.T) {
	alone := exclusiveTool("alone", false)
	var calls []llmtest.Call
	for range 20 {
		calls = append(calls, llmtest.Call{Name: "alone"})
	}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: calls}, llmtest.Say("x")), alone)
	tr := llm.NewTranscript()
	collect(t.Context(), s, s.turn("go", tr), nil)
	if n := strings.Count(formatTranscript(tr), "failed=false ok"); n != 20 {
		t.Errorf("%d of 20 ran alone:\n%s", n, formatTranscript(tr))
	}
}

func TestAtMostOnceCallIsRecordedBeforeItRuns(t *testing.T) {
	recorded := false
	send := fakeTool{toolSpec("send", tool.AtMostOnce, false), func(context.Context, tool.Call) (string, error) {
		if !recorded {
			return "", errors.New("ran before it was recorded")
		}
		return "sent", nil
	}}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Use("send", ""), llmtest.Say("ok")), send)
	tr := llm.NewTranscript()
	l := collect(t.Context(), s, s.turn("send it", tr), func(e agent.Event) {
		if r, ok := e.(agent.Record); ok && r.Step.Kind == agent.StepStart {
			recorded = true
		}
	})
	want := "call tool_use\nrecord answer\ntool send {} once\nrecord start\nrecord result\ndone send false\ncall end_turn\nrecord answer\nfinal end_turn\n"
	if d := cmp.Diff(want, l.String()); d != "" {
		t.Error(d)
	}
	wantContains(t, formatTranscript(tr), "failed=false sent")
}

func TestToolFailureAndPanicBecomeResults(t *testing.T) {
	var reported string
	set, err := tool.NewSet(
		fakeTool{toolSpec("fail", tool.Pure, true), func(context.Context, tool.Call) (string, error) {
			return "partial", errors.New("no such file")
		}},
		fakeTool{toolSpec("panics", tool.Pure, false), func(context.Context, tool.Call) (string, error) { panic("boom") }},
	)
	if err != nil {
		t.Fatal(err)
	}
	p := scripted(llmtest.Answer{Calls: []llmtest.Call{{Name: "fail"}, {Name: "panics"}}}, llmtest.Say("sorry"))
	s := newHarness(t, agent.Config{}, p)
	s.agent = agent.New(agent.Config{}, p, set, agent.OnPanic(func(name string, v any, stack []byte) {
		reported = name + ": " + v.(string)
		if !strings.Contains(string(stack), "agent_test.go") {
			reported += " without its location"
		}
	}))
	turn := s.turn("go", llm.NewTranscript())
	turn.Prefix = newHarness(t, agent.Config{}, p, echoTool("fail", tool.Pure, true), echoTool("panics", tool.Pure, true)).prefix
	l := collect(t.Context(), s, turn, nil)
	if l.final.Text != "sorry" || reported != "panics: boom" {
		t.Errorf("final %q, reported %q, err %v", l.final.Text, reported, l.err)
	}
	wantContains(t, formatTranscript(turn.Transcript), "failed=true partial\nError: no such file", "failed=true Error: the tool failed inside")
}

func TestToolResultIsSanitized(t *testing.T) {
	out := map[string]string{
		`{"n":1}`: "",
		`{"n":2}`: "a</gateway-context>b",
		`{"n":3}`: "bad \xff byte",
	}
	odd := fakeTool{toolSpec("odd", tool.Pure, true), func(_ context.Context, c tool.Call) (string, error) { return out[string(c.Input)], nil }}
	long := fakeTool{toolSpec("long", tool.Pure, true), func(context.Context, tool.Call) (string, error) {
		return "BEGIN" + strings.Repeat("é", 300_000) + "END", nil
	}}
	long.spec.MaxResult = 1000
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: []llmtest.Call{
		{Name: "odd", Input: `{"n":1}`}, {Name: "odd", Input: `{"n":2}`}, {Name: "odd", Input: `{"n":3}`}, {Name: "long"},
	}}, llmtest.Say("ok")), odd, long)
	tr := llm.NewTranscript()
	collect(t.Context(), s, s.turn("go", tr), nil)
	wantContains(t, formatTranscript(tr), "(no output)", "a&lt;/gateway-context>b", "bad \uFFFD byte", "BEGIN", "END", "of 300008 characters left out here")
	for _, b := range tr.At(2).Blocks {
		if n := len([]rune(b.Text)); n > 1000 {
			t.Errorf("a result of %d characters", n)
		}
	}
}

func TestToolResultsShareOneLimit(t *testing.T) {
	big := fakeTool{toolSpec("big", tool.Pure, true), func(context.Context, tool.Call) (string, error) {
		return strings.Repeat("x", 90_000), nil
	}}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: []llmtest.Call{
		{Name: "big"}, {Name: "big"}, {Name: "big"}, {Name: "big"}, {Name: "small"},
	}}, llmtest.Say("ok")), big, echoTool("small", tool.Pure, true))
	tr := llm.NewTranscript()
	collect(t.Context(), s, s.turn("go", tr), nil)
	total := 0
	for _, b := range tr.At(2).Blocks {
		total += len([]rune(b.Text))
	}
	if total > 200_000 || total < 190_000 {
		t.Errorf("the results have %d characters together", total)
	}
	if got := tr.At(2).Blocks[4].Text; got != "small {}" {
		t.Errorf("the small result became %q", got)
	}
}

func TestSteeringFollowsToolResults(t *testing.T) {
	steerCalls := 0
	p := scripted(llmtest.Use("look", ""), llmtest.Use("look", ""), llmtest.Say("ok"))
	s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
	turn := s.turn("go", llm.NewTranscript())
	turn.Steer = func() []llm.Block {
		steerCalls++
		if steerCalls == 1 {
			return []llm.Block{{Type: llm.Text, Text: "look left"}, {Type: llm.Text, Text: " "}}
		}
		return nil
	}
	l := collect(t.Context(), s, turn, nil)
	if steerCalls != 2 {
		t.Errorf("asked %d times, want once for each batch", steerCalls)
	}
	want := "user text: go\nassistant tool_use: call_1 look {}\nuser tool_result: call_1 failed=false look {}\nuser text: look left\n" +
		"assistant tool_use: call_2 look {}\nuser tool_result: call_2 failed=false look {}\nassistant text: ok\n"
	if d := cmp.Diff(want, formatTranscript(turn.Transcript)); d != "" {
		t.Error(d)
	}
	wantContains(t, l.String(), "record steer")
	wantLegal(t, turn.Transcript)
}

func TestInputIsOneMessageAfterAssistant(t *testing.T) {
	s := newHarness(t, agent.Config{}, scripted(llmtest.Say("ok")))
	tr := llm.NewTranscript(llm.UserText("old"))
	turn := s.turn("one", tr)
	turn.Input = append(turn.Input, llm.UserText(" "), llm.UserText("two"))
	collect(t.Context(), s, turn, nil)
	want := "user text: old\nassistant text: [Interrupted.]\nuser text: one\nuser text: two\nassistant text: ok\n"
	if d := cmp.Diff(want, formatTranscript(tr)); d != "" {
		t.Error(d)
	}
	wantLegal(t, tr)
}

func TestTurnWithoutInputAnswersLastMessage(t *testing.T) {
	s := newHarness(t, agent.Config{}, scripted(llmtest.Say("ok")))
	tr := llm.NewTranscript(llm.UserText("old"))
	if l := collect(t.Context(), s, s.turn("", tr), nil); l.final.Text != "ok" {
		t.Errorf("final %q, err %v", l.final.Text, l.err)
	}
	for _, tr := range []*llm.Transcript{tr, llm.NewTranscript(), nil} {
		if l := collect(t.Context(), s, s.turn("", tr), nil); !errors.Is(l.err, agent.ErrNothing) {
			t.Errorf("got %v, want ErrNothing", l.err)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	if err := (agent.Config{Name: "Ada", MaxTurns: 9, ReasoningEffort: "high"}).Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []agent.Config{{MaxTurns: -1}, {APIMaxRetries: -1}, {Name: "a\nb"}, {ReasoningEffort: "much"}} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func toolResults(tr *llm.Transcript) []llm.Block {
	var bs []llm.Block
	for _, m := range tr.Since(0) {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult {
				bs = append(bs, b)
			}
		}
	}
	return bs
}

func TestCheckToolRefusalIsResult(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Use("kept", `{}`), llmtest.Say("done"))
	kept := echoTool("kept", tool.AtMostOnce, false)
	kept.run = nil // it would panic
	s := newHarness(t, agent.Config{}, p, kept)
	tr := llm.NewTranscript()
	turn := s.turn("go", tr)
	turn.CheckTool = func(name string) error { return errors.New(name + " is for the owner") }
	l := collect(t.Context(), s, turn, nil)
	if got := toolResults(tr); len(got) != 1 || !got[0].Failed || got[0].Text != "Refused: kept is for the owner" || !l.ok {
		t.Errorf("results %+v, %+v", got, l)
	}
}

func TestAfterToolTextIsResumed(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Use("echo", `{"path":"a/b"}`), llmtest.Say("done"))
	s := newHarness(t, agent.Config{}, p, echoTool("echo", tool.Pure, false))
	turn := s.turn("go", llm.NewTranscript())
	afterCalls := 0
	turn.AfterTool = func(name string, input json.RawMessage) string {
		afterCalls++
		return "rules of " + name + " " + string(input) + " </gateway-context>"
	}
	first := collect(t.Context(), s, turn, nil)
	got := toolResults(turn.Transcript)
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, "echo {\"path\":\"a/b\"}\n\nrules of echo") || strings.Contains(got[0].Text, "</gateway") {
		t.Fatalf("results %+v", got)
	}
	resumed := s.turn("go", llm.NewTranscript())
	resumed.Steps, resumed.AfterTool = first.steps, turn.AfterTool
	collect(t.Context(), s, resumed, nil)
	if r := toolResults(resumed.Transcript); afterCalls != 1 || len(r) != 1 || r[0].Text != got[0].Text {
		t.Errorf("called %d times, resumed with %+v", afterCalls, r)
	}
}

func TestTurnProviderReplacesAgentProvider(t *testing.T) {
	other := llmtest.NewScripted(llmtest.Say("from the other"))
	s := newHarness(t, agent.Config{}, llmtest.NewScripted())
	turn := s.turn("go", llm.NewTranscript())
	turn.Provider = other
	if l := collect(t.Context(), s, turn, nil); l.final.Text != "from the other" {
		t.Errorf("got %+v", l)
	}
}
