package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

func TestEmptyAnswerIsRequestedAgain(t *testing.T) {
	empty := llmtest.Answer{Thinking: "I am done"}
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer
		err     error
		spoken  string // transcript after the tool result
		overlay string // y or n for each call
	}{
		{"the second time", []llmtest.Answer{empty, llmtest.Say("here")}, nil, "assistant text: here\n", "yyn"},
		{
			"after a request to go on", []llmtest.Answer{empty, llmtest.Say(" \n"), llmtest.Say("here")}, nil,
			"assistant text: [No answer.]\nuser text: You have ended your turn without an answer. Go on: use a tool, or say what you have found.\nassistant text: here\n", "yyny",
		},
		{
			"never", []llmtest.Answer{empty, empty, empty}, agent.ErrEmpty,
			"assistant text: [No answer.]\nuser text: You have ended your turn without an answer. Go on: use a tool, or say what you have found.\n", "yyny",
		},
		{
			"an echo of the overlay is none", []llmtest.Answer{llmtest.Say("<gateway-context>\nit is noon\n</gateway-context>"), llmtest.Say("here")}, nil,
			"assistant text: here\n", "yyn",
		},
	} {
		p := scripted(append([]llmtest.Answer{llmtest.Use("look", "")}, c.answers...)...)
		s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
		tr := llm.NewTranscript()
		l := collect(t.Context(), s, s.turn("go", tr), nil)
		if !errors.Is(l.err, c.err) || c.err == nil && (l.final.Text != "here" || l.visibleText() != "here") {
			t.Errorf("%s: final %q, seen %q, err %v", c.name, l.final.Text, l.visibleText(), l.err)
		}
		_, after, _ := strings.Cut(formatTranscript(tr), "failed=false look {}\n")
		if d := cmp.Diff(c.spoken, after); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		var overlay string
		for _, q := range p.Requests() {
			if q.Overlay == "" {
				overlay += "n"
			} else {
				overlay += "y"
			}
		}
		if overlay != c.overlay {
			t.Errorf("%s: calls with an overlay: %s, want %s", c.name, overlay, c.overlay)
		}
		if want := 10 * (len(p.Requests())); c.err == nil && l.final.Usage.Input != want {
			t.Errorf("%s: %d tokens in all, want %d", c.name, l.final.Usage.Input, want)
		}
		wantLegal(t, tr)
	}
}

func TestEmptyAnswerLimitIsPerAnswer(t *testing.T) {
	p := scripted(llmtest.Answer{}, llmtest.Use("look", ""), llmtest.Answer{}, llmtest.Say("here"))
	s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
	l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
	for i, q := range p.Requests() {
		if (q.Overlay == "") != (i%2 == 1) {
			t.Errorf("request %d has the overlay %q", i, q.Overlay)
		}
	}
	if l.final.Text != "here" {
		t.Errorf("final %q, err %v", l.final.Text, l.err)
	}
}

func TestContinuationLimitIsPerAnswer(t *testing.T) {
	cut := llmtest.Answer{Text: "a", Stop: llm.Length}
	p := scripted(cut, cut, cut, llmtest.Use("look", ""), cut, cut, cut, llmtest.Say("b"))
	s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
	if l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil); l.final.Text != "aaab" || l.final.Stop != llm.EndTurn {
		t.Errorf("final %q (%s), err %v", l.final.Text, l.final.Stop, l.err)
	}
}

func TestCallsOverLimitAreNotRun(t *testing.T) {
	var ran counter
	look := fakeTool{toolSpec("look", tool.Pure, true), func(_ context.Context, c tool.Call) (string, error) {
		ran.add(c.ID)
		return "ok", nil
	}}
	calls := make([]llmtest.Call, 100)
	for i := range calls {
		calls[i].Name = "look"
	}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: calls}, llmtest.Say("x")), look)
	tr := llm.NewTranscript()
	collect(t.Context(), s, s.turn("go", tr), nil)
	if n := strings.Count(formatTranscript(tr), "Not run: there are more than 64 calls"); len(ran.runs) != 64 || n != 36 {
		t.Errorf("%d calls ran, %d results say that they did not", len(ran.runs), n)
	}
	wantLegal(t, tr)
}

func TestCutOffAnswerIsContinuedAndJoined(t *testing.T) {
	cut := func(s string) llmtest.Answer { return llmtest.Answer{Text: s, Stop: llm.Length} }
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer
		text    string
		stop    llm.StopReason
		err     error
	}{
		{"once", []llmtest.Answer{cut("one, t"), llmtest.Say("wo.")}, "one, two.", llm.EndTurn, nil},
		{"three times", []llmtest.Answer{cut("a"), cut("b"), cut("c"), llmtest.Say("d")}, "abcd", llm.EndTurn, nil},
		{"for ever", []llmtest.Answer{cut("a"), cut("b"), cut("c"), cut("d")}, "abcd", llm.Length, nil},
		{"with nothing to add", []llmtest.Answer{cut("all said"), {}}, "all said", llm.EndTurn, nil},
		{"before a word", []llmtest.Answer{{Thinking: "long", Stop: llm.Length}, llmtest.Say("x")}, "x", llm.EndTurn, nil},
		{"never a word", []llmtest.Answer{cut(""), cut(""), cut(""), cut("")}, "", "", agent.ErrEmpty},
		{"paused", []llmtest.Answer{{Text: "wait", Stop: llm.Paused}, llmtest.Say(" for it")}, "wait for it", llm.EndTurn, nil},
		{"inside an echo", []llmtest.Answer{cut("a<gateway-con"), cut("text>secret"), llmtest.Say(" still</gateway-context>b")}, "ab", llm.EndTurn, nil},
	} {
		s := newHarness(t, agent.Config{}, scripted(c.answers...))
		tr := llm.NewTranscript()
		l := collect(t.Context(), s, s.turn("go", tr), nil)
		if !errors.Is(l.err, c.err) || l.final.Text != c.text || l.final.Stop != c.stop || strings.TrimSpace(l.visibleText()) != c.text {
			t.Errorf("%s: final %q (%s), seen %q, err %v", c.name, l.final.Text, l.final.Stop, l.visibleText(), l.err)
		}
		for _, e := range l.events {
			if text, ok := e.(agent.Text); ok && strings.Contains(string(text), "secret") {
				t.Errorf("%s: %q was shown for a while", c.name, text)
			}
		}
		if n := tr.Len(); c.err == nil && n != 2*len(c.answers) {
			t.Errorf("%s: %d messages:\n%s", c.name, n, formatTranscript(tr))
		}
		wantLegal(t, tr)
	}
}

func TestCutOffCallIsNotRun(t *testing.T) {
	for _, input := range []string{`{"path": "/tm`, `{}`} {
		var ran counter
		write := fakeTool{toolSpec("write", tool.AtMostOnce, false), func(_ context.Context, c tool.Call) (string, error) {
			ran.add(string(c.Input))
			return "ok", nil
		}}
		p := scripted(
			llmtest.Answer{Text: "I write.", Calls: []llmtest.Call{{Name: "write", Input: input}}, Stop: llm.Length},
			llmtest.Use("write", `{"path":"/tmp/x"}`), llmtest.Say("Written."))
		s := newHarness(t, agent.Config{}, p, write)
		tr := llm.NewTranscript()
		l := collect(t.Context(), s, s.turn("go", tr), nil)
		if d := cmp.Diff(map[string]int{`{"path":"/tmp/x"}`: 1}, ran.runs); d != "" {
			t.Error(d)
		}
		if l.final.Text != "Written." || l.visibleText() != "Written." {
			t.Errorf("final %q, seen %q", l.final.Text, l.visibleText())
		}
		wantContains(t, formatTranscript(tr), "assistant text: I write.\nuser text: Your answer was cut off before a tool call was complete")
		wantLegal(t, tr)
	}
}

func TestInvalidCallsEndAfterThreeAnswers(t *testing.T) {
	var ran counter
	look := fakeTool{toolSpec("look", tool.Pure, true), func(_ context.Context, c tool.Call) (string, error) {
		ran.add(c.ID)
		return "ok", nil
	}}
	hidden := echoTool("hidden", tool.Pure, true)
	bad := llmtest.Answer{Text: "Trying.", Calls: []llmtest.Call{
		{ID: "same", Name: "lo ok"}, {ID: "same", Name: "look", Input: "[1]"}, {ID: "!", Name: ""},
		{Name: "look", Input: `{"cut": `}, {ID: "h", Name: "hidden"}, {ID: "fine", Name: "look"},
	}, Raw: json.RawMessage(`{"as":"sent"}`), Dialect: "d"}
	p := scripted(bad, bad, llmtest.Use("look", ""), bad, bad, bad, llmtest.Say("never asked"))
	s := newHarness(t, agent.Config{}, p, look, hidden)
	turn := s.turn("go", llm.NewTranscript())
	turn.Prefix = newHarness(t, agent.Config{}, p, look).prefix
	steerCalls := 0
	turn.Steer = func() []llm.Block { steerCalls++; return nil }
	l := collect(t.Context(), s, turn, nil)
	if steerCalls != 5 {
		t.Errorf("steering was read %d times, want not at the end", steerCalls)
	}
	if !errors.Is(l.err, agent.ErrInvalidCalls) || p.Remaining() != 1 {
		t.Errorf("err %v, %d answers left", l.err, p.Remaining())
	}
	if len(ran.runs) != 6 {
		t.Errorf("%d calls ran, want the 6 that are fine", len(ran.runs))
	}
	wantContains(t, formatTranscript(turn.Transcript),
		`there is no tool called "lo ok". There are: look.`, `there is no tool called "".`, `there is no tool called "hidden".`,
		"lo_ok {}", "unnamed {}", `What was sent: "[1]"`, `What was sent: "{\"cut\": "`)
	if m := turn.Transcript.At(1); m.Raw != nil || m.Dialect != "" {
		t.Errorf("the form that no provider takes is kept: %s", m.Raw)
	}
	wantLegal(t, turn.Transcript)
}

func TestRawProviderFormIsKept(t *testing.T) {
	p := scripted(
		llmtest.Answer{Text: "a", Calls: []llmtest.Call{{Name: "look"}}, Raw: json.RawMessage(`[{"x" : 1}]`), Dialect: "d"},
		llmtest.Answer{Text: "b", Raw: json.RawMessage(`[{"y" : 1}]`), Dialect: "d"})
	s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
	tr := llm.NewTranscript()
	l := collect(t.Context(), s, s.turn("go", tr), nil)
	if string(tr.At(1).Raw) != `[{"x" : 1}]` || string(tr.At(3).Raw) != `[{"y" : 1}]` || tr.At(3).Dialect != "d" {
		t.Errorf("raw: %s, %s", tr.At(1).Raw, tr.At(3).Raw)
	}
	tr2 := llm.NewTranscript()
	turn := s.turn("go", tr2)
	turn.Steps = roundTrip(t, l.steps)
	collect(t.Context(), s, turn, nil)
	if d := cmp.Diff(tr.Since(0), tr2.Since(0)); d != "" {
		t.Errorf("resumed: %s", d)
	}
}

func TestTextNextToInvalidCallsIsRetracted(t *testing.T) {
	p := scripted(llmtest.Answer{Text: "Trying.", Calls: []llmtest.Call{{Name: "nope"}}}, llmtest.Say("Well."))
	s := newHarness(t, agent.Config{}, p)
	l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
	if d := cmp.Diff("call tool_use\nrecord answer\nretracted\ncall end_turn\nrecord answer\nfinal end_turn\n", l.String()); d != "" {
		t.Error(d)
	}
}

func TestRefusalIsErrorAndLeavesNoMessage(t *testing.T) {
	s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Text: "I would rather not.", Stop: llm.Refusal}))
	tr := llm.NewTranscript()
	l := collect(t.Context(), s, s.turn("go", tr), nil)
	var refused *agent.RefusedError
	if !errors.As(l.err, &refused) || refused.Text != "I would rather not." || refused.Provider != "scripted" {
		t.Errorf("err %v", l.err)
	}
	if l.visibleText() != "" || tr.Len() != 1 {
		t.Errorf("seen %q, transcript\n%s", l.visibleText(), formatTranscript(tr))
	}
}

func TestBudgetEndsWithSummaryWithoutTools(t *testing.T) {
	for _, c := range []struct {
		name string
		last llmtest.Answer
		text string
		err  error
	}{
		{"words", llmtest.Say("I looked twice."), "I looked twice.", nil},
		{"words and a call", llmtest.Answer{Text: "More!", Calls: []llmtest.Call{{Name: "look"}}}, "More!", nil},
		{"a call", llmtest.Use("look", ""), "", agent.ErrBudget},
		{"nothing", llmtest.Answer{}, "", agent.ErrBudget},
	} {
		p := scripted(llmtest.Use("look", ""), llmtest.Use("look", ""), c.last, llmtest.Say("never"))
		s := newHarness(t, agent.Config{MaxTurns: 2}, p, echoTool("look", tool.Pure, true))
		tr := llm.NewTranscript()
		l := collect(t.Context(), s, s.turn("go", tr), nil)
		if !errors.Is(l.err, c.err) || l.final.Text != c.text || l.final.OverBudget != (c.err == nil) || l.visibleText() != c.text {
			t.Errorf("%s: %+v, seen %q, err %v", c.name, l.final, l.visibleText(), l.err)
		}
		q := p.Requests()
		if len(q) != 3 || !q[2].NoTools || q[1].NoTools || len(q[2].Tools) != 1 {
			t.Fatalf("%s: %d requests", c.name, len(q))
		}
		wantContains(t, q[2].Overlay, "it is noon", "no tool can be used any more")
		if strings.Contains(formatTranscript(tr), "no tool can be used") {
			t.Errorf("%s: the request for a summary is in the transcript", c.name)
		}
		wantContains(t, l.String(), "notice budget")
		wantLegal(t, tr)
	}
}

// TestTimeOfATurn: once the time of a turn is over no tool runs, and one more call asks
// for a summary.
func TestTimeOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tool.New(tool.Spec{Tool: llm.Tool{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}, Effect: tool.Pure},
			func(context.Context, tool.Call, struct{}) (string, error) {
				time.Sleep(40 * time.Second)
				return "seen", nil
			})
		for budget, calls := range map[time.Duration]int{0: 5, time.Second: 2, 81 * time.Second: 4, time.Hour: 5} {
			p := scripted(llmtest.Use("look", ""), llmtest.Use("look", ""), llmtest.Use("look", ""), llmtest.Use("look", ""), llmtest.Say("all"))
			p.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("never") }
			s := newHarness(t, agent.Config{RunBudget: budget}, p, slow)
			l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
			q := p.Requests()
			over := calls < 5
			if len(q) != calls || q[calls-1].NoTools != over || over == (l.err == nil) || over && !errors.Is(l.err, agent.ErrBudget) {
				t.Errorf("%s: %d requests, want %d; %+v, %v", budget, len(q), calls, l.final, l.err)
			}
		}
	})
}

func TestModelFailuresKeepTheirClass(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer llmtest.Answer
		class  llm.Class
	}{
		{"overflow", llmtest.Fail(llm.ContextOverflow), llm.ContextOverflow},
		{"cut in the middle", llmtest.Answer{Text: "half of", Cut: true}, llm.InvalidResponse},
		{"an error in the middle", llmtest.Answer{Text: "half of", Err: &llm.Error{Class: llm.Network}}, llm.Network},
	} {
		s := newHarness(t, agent.Config{}, scripted(c.answer))
		tr := llm.NewTranscript()
		l := collect(t.Context(), s, s.turn("go", tr), nil)
		var e *llm.Error
		if !errors.As(l.err, &e) || e.Class != c.class {
			t.Errorf("%s: err %v", c.name, l.err)
		}
		if l.visibleText() != "" || tr.Len() != 1 {
			t.Errorf("%s: seen %q, %d messages", c.name, l.visibleText(), tr.Len())
		}
	}
}

// fixedProvider yields the given events.
type fixedProvider []llm.Event

func (fixedProvider) Name() string { return "steady" }

func (p fixedProvider) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for _, e := range p {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestShownTextEqualsAnswer(t *testing.T) {
	done := func(s string) llm.Done { return llm.Done{Message: llm.AssistantText(s), Stop: llm.EndTurn} }
	retry := llm.Notice{Retry: 1, After: time.Second, Err: errors.New("cut")}
	for name, p := range map[string]fixedProvider{
		"never streamed":      {done("whole")},
		"streamed in part":    {llm.TextDelta("wh"), done("whole")},
		"streamed otherwise":  {llm.TextDelta("other"), done("whole")},
		"after a retry":       {llm.TextDelta("who"), retry, llm.TextDelta("whole"), done("whole")},
		"retried at a tag":    {llm.TextDelta("a<gateway-context>x"), retry, llm.TextDelta("whole"), done("whole")},
		"held back":           {llm.TextDelta("whole<gateway-context>x"), done("whole<gateway-context>x")},
		"with unknown events": {nil, llm.ToolStart{}, done("whole")},
	} {
		s := newHarness(t, agent.Config{}, p)
		l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
		if l.final.Text != "whole" || l.visibleText() != "whole" {
			t.Errorf("%s: final %q, seen %q, err %v", name, l.final.Text, l.visibleText(), l.err)
		}
		if name == "retried at a tag" {
			if text, ok := l.events[3].(agent.Text); !ok || text != "whole" {
				t.Errorf("%s: what follows is not shown as it comes:\n%s", name, l)
			}
		}
	}
}

func TestProviderNoticesAreForwarded(t *testing.T) {
	p := fixedProvider{
		llm.Notice{Retry: 2, After: time.Second, Err: errors.New("busy")}, llm.Notice{Fallback: "other/m", Err: errors.New("down")},
		llm.Done{Message: llm.AssistantText("x"), Stop: llm.EndTurn, Model: "m2", Provider: "other"},
	}
	s := newHarness(t, agent.Config{}, p)
	l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
	wantContains(t, l.String(), "notice retry 2 after 1s: busy", "notice fallback to other/m: down")
	for _, e := range l.events {
		if c, ok := e.(agent.Call); ok && (c.Model != "m2" || c.Provider != "other") {
			t.Errorf("call: %+v", c)
		}
	}
}

// endlessProvider streams text without an end.
type endlessProvider struct{}

func (endlessProvider) Name() string { return "endless" }

func (endlessProvider) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for yield(llm.TextDelta(strings.Repeat("x", 1<<16)), nil) {
		}
	}
}

func TestEndlessAnswerIsInvalidResponse(t *testing.T) {
	s := newHarness(t, agent.Config{}, endlessProvider{})
	l := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
	var e *llm.Error
	if !errors.As(l.err, &e) || e.Class != llm.InvalidResponse {
		t.Errorf("err %v", l.err)
	}
}

func TestCloseAllowsNextUserMessage(t *testing.T) {
	call := llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: "a", Name: "look", Input: json.RawMessage("{}")}}}
	for name, c := range map[string]struct {
		ms   []llm.Message
		want string
	}{
		"nothing":   {nil, ""},
		"answered":  {[]llm.Message{llm.UserText("x"), llm.AssistantText("y")}, "user text: x\nassistant text: y\n"},
		"a word":    {[]llm.Message{llm.UserText("x")}, "user text: x\nassistant text: [why]\n"},
		"open call": {[]llm.Message{llm.UserText("x"), call}, "user text: x\nassistant tool_use: a look {}\nuser tool_result: a failed=true Interrupted: the turn was stopped while this call ran. It may have done part of its work.\nassistant text: [why]\n"},
	} {
		tr := llm.NewTranscript(c.ms...)
		agent.Close(tr, "[why]")
		agent.Close(tr, "[again]")
		if d := cmp.Diff(c.want, formatTranscript(tr)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		wantLegal(t, tr)
	}
}

func TestPrefixIsStableWithinTurn(t *testing.T) {
	p := scripted(llmtest.Use("look", ""), llmtest.Say("x"))
	s := newHarness(t, agent.Config{}, p, echoTool("look", tool.Pure, true))
	turn := s.turn("go", llm.NewTranscript())
	turn.Prefill = []llm.Message{llm.UserText("p"), llm.AssistantText("q")}
	collect(t.Context(), s, turn, nil)
	q := p.Requests()
	if d := cmp.Diff(q[0].Tools, q[1].Tools); d != "" || q[0].System != q[1].System || len(q[1].Prefill) != 2 {
		t.Errorf("two calls of a turn differ: %s", d)
	}
	if d := cmp.Diff(q[0].Messages, q[1].Messages[:len(q[0].Messages)]); d != "" {
		t.Errorf("the transcript did not grow at its end: %s", d)
	}
	if d := cmp.Diff(prompt.NewOverlay("it is noon").String(), q[1].Overlay); d != "" {
		t.Error(d)
	}
}

func TestToolsOfACallAreThoseOfItsTurn(t *testing.T) {
	var got []string
	look := fakeTool{toolSpec("look", tool.Pure, false), func(_ context.Context, c tool.Call) (string, error) {
		got = c.Tools.Names()
		return "", nil
	}}
	p := scripted(llmtest.Use("look", ""), llmtest.Say("ok"))
	s := newHarness(t, agent.Config{}, p, look, echoTool("hidden", tool.Pure, false))
	turn := s.turn("go", llm.NewTranscript())
	turn.Prefix = newHarness(t, agent.Config{}, p, look).prefix
	if l := collect(t.Context(), s, turn, nil); l.err != nil || !slices.Equal(got, []string{"look"}) {
		t.Errorf("the tool is given %q, %v, want what the prompt offers", got, l.err)
	}
}
