package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
)

// A run that died before any of its records is resumed without repeating a
// model call.
func TestResumeRepeatsNoModelCall(t *testing.T) {
	answers := func() []llmtest.Answer {
		return []llmtest.Answer{
			{Text: "cut", Stop: llm.Length},
			{Text: " and on", Calls: []llmtest.Call{{ID: "a", Name: "look"}, {ID: "b", Name: "keep"}}},
			{}, {},
			{Calls: []llmtest.Call{{ID: "c", Name: "look", Input: `{"n":2}`}}},
			{Text: "one", Stop: llm.Length},
			llmtest.Say(" two"),
		}
	}
	tools := []tool.Tool{echoTool("look", tool.Pure, true), echoTool("keep", tool.Idempotent, false)}
	whole := newHarness(t, agent.Config{}, scripted(answers()...), tools...)
	tr := llm.NewTranscript()
	ref := collect(t.Context(), whole, whole.turn("go", tr), nil)
	if ref.err != nil || ref.final.Text != "one two" {
		t.Fatalf("final %q, err %v", ref.final.Text, ref.err)
	}
	for n := range len(ref.steps) + 1 {
		remaining := answers()
		for _, st := range ref.steps[:n] {
			if st.Kind == agent.StepAnswer || st.Kind == agent.StepEmpty {
				remaining = remaining[1:]
			}
		}
		p := scripted(remaining...)
		s := newHarness(t, agent.Config{}, p, tools...)
		tr2 := llm.NewTranscript()
		turn := s.turn("go", tr2)
		turn.Steps = roundTrip(t, ref.steps[:n])
		for i := range turn.Steps {
			turn.Steps[i].Version = 1 + n%2 // nothing is masked: both versions have the same form
		}
		l := collect(t.Context(), s, turn, nil)
		if l.err != nil || l.final.Text != "one two" || l.visibleText() != "one two" || p.Remaining() != 0 {
			t.Errorf("resumed after %d steps: final %q, seen %q, %d answers left, err %v", n, l.final.Text, l.visibleText(), p.Remaining(), l.err)
		}
		if d := cmp.Diff(formatTranscript(tr), formatTranscript(tr2)); d != "" {
			t.Errorf("resumed after %d steps: %s", n, d)
		}
		if strings.Contains(l.String(), "retracted") {
			t.Errorf("resumed after %d steps: something was retracted:\n%s", n, l)
		}
		if got := len(roundTrip(t, ref.steps[:n])) + len(l.steps); got != len(ref.steps) {
			t.Errorf("resumed after %d steps: %d steps in all, want %d", n, got, len(ref.steps))
		}
	}
}

func TestResumeDoesNotRepeatStartedCall(t *testing.T) {
	var ran counter
	once := fakeTool{toolSpec("send", tool.AtMostOnce, false), func(_ context.Context, c tool.Call) (string, error) {
		ran.add(c.ID)
		return "sent", nil
	}}
	p := scripted(llmtest.Answer{Calls: []llmtest.Call{{ID: "a", Name: "send"}, {ID: "b", Name: "send"}}})
	s := newHarness(t, agent.Config{}, p, once)
	var steps []agent.Step
	for e := range s.agent.Run(t.Context(), s.turn("go", llm.NewTranscript())) {
		if r, ok := e.(agent.Record); ok {
			steps = append(steps, r.Step)
			if r.Step.Kind == agent.StepStart {
				break // the start is on disk; the process dies
			}
		}
	}
	p2 := scripted(llmtest.Say("ok"))
	s2 := newHarness(t, agent.Config{}, p2, once)
	turn := s2.turn("go", llm.NewTranscript())
	turn.Steps = roundTrip(t, steps)
	l := collect(t.Context(), s2, turn, nil)
	if d := cmp.Diff(map[string]int{"b": 1}, ran.runs); d != "" {
		t.Error(d)
	}
	wantContains(t, formatTranscript(turn.Transcript), "a failed=true The outcome of this call is unknown: the daemon was restarted", "b failed=false sent")
	if l.err != nil {
		t.Error(l.err)
	}
}

func TestResumeDoesNotReadSteeringAgain(t *testing.T) {
	text := llm.Block{Type: llm.Text, Text: "left"}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Use("look", ""), llmtest.Say(""), llmtest.Say("ok")), echoTool("look", tool.Pure, true))
	turn := s.turn("go", llm.NewTranscript())
	turn.Steer = func() []llm.Block { return []llm.Block{text} }
	ref := collect(t.Context(), s, turn, nil)
	n := slices.IndexFunc(ref.steps, func(st agent.Step) bool { return st.Kind == agent.StepSteer })
	for _, kept := range []int{n + 1, n + 2} { // with the empty answer, and without
		s = newHarness(t, agent.Config{}, scripted(llmtest.Say("ok")), echoTool("look", tool.Pure, true))
		turn2 := s.turn("go", llm.NewTranscript())
		turn2.Steer = func() []llm.Block {
			t.Error("steering was read again")
			return nil
		}
		turn2.Steps = roundTrip(t, ref.steps[:kept])
		collect(t.Context(), s, turn2, nil)
		if d := cmp.Diff(formatTranscript(turn.Transcript), formatTranscript(turn2.Transcript)); d != "" {
			t.Error(d)
		}
	}
}

func TestResumeCountsCallsOfEarlierRuns(t *testing.T) {
	s := newHarness(t, agent.Config{MaxTurns: 2}, scripted(llmtest.Answer{}), echoTool("look", tool.Pure, true))
	first := collect(t.Context(), s, s.turn("go", llm.NewTranscript()), nil)
	p := scripted(llmtest.Use("look", ""), llmtest.Say("all I have"))
	s = newHarness(t, agent.Config{MaxTurns: 2}, p, echoTool("look", tool.Pure, true))
	turn := s.turn("go", llm.NewTranscript())
	turn.Steps = roundTrip(t, first.steps)
	l := collect(t.Context(), s, turn, nil)
	if len(first.steps) != 1 || !l.final.OverBudget || l.final.Text != "all I have" || !p.Requests()[1].NoTools {
		t.Errorf("steps %d, final %+v, err %v", len(first.steps), l.final, l.err)
	}
}

func TestResumeRejectsInvalidSteps(t *testing.T) {
	call := llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: "a", Name: "look", Input: json.RawMessage("{}")}}}
	answer := agent.Step{Version: 1, Kind: agent.StepAnswer, Messages: []llm.Message{call}}
	final := agent.Step{Version: 1, Kind: agent.StepAnswer, Messages: []llm.Message{llm.AssistantText("x")}, Text: "x", Final: true}
	for name, steps := range map[string][]agent.Step{
		"another version":         {{Version: 3, Kind: agent.StepAnswer}},
		"no version":              {{Kind: agent.StepAnswer}},
		"another kind":            {{Version: 1, Kind: "other"}},
		"a result of no call":     {{Version: 1, Kind: agent.StepResult, Call: "a", Result: &llm.Block{Type: llm.ToolResult, ID: "a"}}},
		"a start of another call": {answer, {Version: 1, Kind: agent.StepStart, Call: "b"}},
		"a result without result": {answer, {Version: 1, Kind: agent.StepResult, Call: "a"}},
		"another call's result":   {answer, {Version: 1, Kind: agent.StepResult, Call: "a", Result: &llm.Block{Type: llm.ToolResult, ID: "b"}}},
		"an answer too early":     {answer, answer},
		"steering too early":      {answer, {Version: 1, Kind: agent.StepSteer}},
		"an empty one too early":  {answer, {Version: 1, Kind: agent.StepEmpty}},
		"an answer of the user":   {{Version: 1, Kind: agent.StepAnswer, Messages: []llm.Message{llm.UserText("x")}}},
		"an answer of nothing":    {{Version: 1, Kind: agent.StepAnswer}},
		"something behind it":     {final, final},
	} {
		s := newHarness(t, agent.Config{}, scripted(llmtest.Say("no")), echoTool("look", tool.Pure, true))
		turn := s.turn("go", llm.NewTranscript())
		turn.Steps = steps
		if l := collect(t.Context(), s, turn, nil); !errors.Is(l.err, agent.ErrSteps) {
			t.Errorf("%s: err %v, want ErrSteps", name, l.err)
		}
	}
}

func TestResumeReportsRemovedTool(t *testing.T) {
	s := newHarness(t, agent.Config{}, scripted(llmtest.Use("look", "")), echoTool("look", tool.Pure, true))
	var steps []agent.Step
	for e := range s.agent.Run(t.Context(), s.turn("go", llm.NewTranscript())) {
		if r, ok := e.(agent.Record); ok {
			steps = append(steps, r.Step)
			break
		}
	}
	withoutTool := newHarness(t, agent.Config{}, scripted(llmtest.Say("ok")))
	turn := withoutTool.turn("go", llm.NewTranscript())
	turn.Prefix, turn.Steps = s.prefix, roundTrip(t, steps)
	if l := collect(t.Context(), withoutTool, turn, nil); l.err != nil {
		t.Error(l.err)
	}
	wantContains(t, formatTranscript(turn.Transcript), "the tool look is not there any more")
}

// A randomModel derives its answers from a hash of the request, so that equal
// requests get equal answers.
type randomModel struct {
	seed  uint64
	wild  bool // also returns answers that no provider would
	calls *int
}

func (randomModel) Name() string { return "brain" }

func (b randomModel) Stream(ctx context.Context, q *llm.Request) iter.Seq2[llm.Event, error] {
	*b.calls++
	h := fnv.New64a()
	fmt.Fprint(h, b.seed, q.Overlay == "", q.NoTools)
	for _, m := range q.Transcript.Since(0) {
		raw, err := json.Marshal(m)
		if err != nil {
			return func(yield func(llm.Event, error) bool) { yield(nil, err) }
		}
		h.Write(raw)
	}
	n := h.Sum64()
	pick := func(k uint64) uint64 {
		n = n*6364136223846793005 + 1442695040888963407
		return (n >> 33) % k
	}
	return func(yield func(llm.Event, error) bool) {
		if pick(4) == 0 && !(yield(llm.TextDelta("void"), nil) && yield(llm.Notice{Retry: 1}, nil)) {
			return
		}
		done := b.done(pick)
		if text := done.Message.Text(); text != "" && !yield(llm.TextDelta(text[:len(text)/2]), nil) {
			return
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		yield(done, nil)
	}
}

func (b randomModel) done(pick func(uint64) uint64) llm.Done {
	d := llm.Done{Stop: llm.EndTurn, Message: llm.Message{Role: llm.Assistant}, Usage: llm.Usage{Input: 1}}
	say := func(s string) { d.Message.Blocks = append(d.Message.Blocks, llm.Block{Type: llm.Text, Text: s}) }
	names := []string{"look", "keep", "send", "note", "nope", "b ad"}
	inputs := []string{`{}`, `{"n":1}`, `{ "n" : 2 }`, ``, `{}`}
	ids := []string{"a", "b", "c", "d", "e", "f"}
	if b.wild {
		inputs = append(inputs, `[`, `"x"`, `{"a":`)
		ids = append(ids, "a", "", "what?", "b")
	}
	switch pick(8) {
	case 0:
		say(fmt.Sprintf("answer %d", pick(1000)))
	case 1: // empty
	case 2:
		say("part <gateway-con")
		d.Stop = llm.Length
	case 3:
		d.Stop = llm.Paused
		say("paused")
	default:
		if pick(2) == 0 {
			say("let me see")
		}
		for range pick(4) + 1 {
			d.Message.Blocks = append(d.Message.Blocks, llm.Block{
				Type: llm.ToolUse, ID: ids[pick(uint64(len(ids)))], Name: names[pick(uint64(len(names)))],
				Input: json.RawMessage(inputs[pick(uint64(len(inputs)))]),
			})
		}
		d.Stop = llm.CallTools
		if pick(10) == 0 {
			d.Stop = llm.Length
		}
	}
	if b.wild {
		switch pick(6) {
		case 0:
			d.Message.Role = llm.User
		case 1:
			d.Message.Blocks = append(d.Message.Blocks, llm.Block{Type: llm.ToolResult, ID: "a"}, llm.Block{Type: llm.Text, Text: " "})
		case 2:
			d.Stop = "strange"
		case 3:
			say("bad \xff byte")
		}
	}
	return d
}

// propertyTools returns the tools of the property test, which count their
// calls.
func propertyTools(t *rapid.T, sent *counter) []tool.Tool {
	return []tool.Tool{
		echoTool("look", tool.Pure, true), echoTool("keep", tool.Idempotent, false),
		fakeTool{toolSpec("send", tool.AtMostOnce, false), func(_ context.Context, c tool.Call) (string, error) {
			sent.add(c.ID)
			return "sent", nil
		}},
		fakeTool{toolSpec("note", tool.AtMostOnce, true), func(_ context.Context, c tool.Call) (string, error) {
			sent.add(c.ID)
			return "noted", nil
		}},
	}
}

// For any model output and any crash or interrupt, the transcript is legal, the
// turn is bounded, and at-most-once calls run at most once.
func TestTranscriptIsLegalAfterCrashes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const budget = 12
		calls := 0
		b := randomModel{seed: rapid.Uint64().Draw(r, "seed"), wild: rapid.Bool().Draw(r, "wild"), calls: &calls}
		base := []llm.Message{llm.UserText("old"), llm.AssistantText("older")}
		var sent counter
		run := func(steps []agent.Step, on func(agent.Event, context.CancelCauseFunc) bool) (runLog, *llm.Transcript) {
			s := newHarness(r, agent.Config{MaxTurns: budget}, b, propertyTools(r, &sent)...)
			turn := s.turn("go", llm.NewTranscript(base...))
			turn.Steps = roundTrip(r, steps)
			turn.Steer = func() []llm.Block {
				n := turn.Transcript.Len()
				if (uint64(n)+b.seed)%3 != 0 {
					return nil
				}
				return []llm.Block{{Type: llm.Text, Text: fmt.Sprint("steered at ", n)}}
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			var l runLog
			for e, err := range s.agent.Run(ctx, turn) {
				if err != nil {
					l.err = err
					continue
				}
				l.events = append(l.events, e)
				if rec, ok := e.(agent.Record); ok {
					l.steps = append(l.steps, rec.Step)
				}
				if f, ok := e.(agent.Final); ok {
					l.final, l.ok = f, true
				}
				if !on(e, cancel) {
					break
				}
			}
			s.agent.Wait()
			return l, turn.Transcript
		}

		whole, reference := run(nil, func(agent.Event, context.CancelCauseFunc) bool { return true })
		if calls > budget+1 {
			r.Fatalf("%d calls, want at most %d", calls, budget+1)
		}
		wantLegal(r, reference)
		if !whole.ok && !errors.Is(whole.err, agent.ErrEmpty) && !errors.Is(whole.err, agent.ErrInvalidCalls) && !errors.Is(whole.err, agent.ErrBudget) {
			r.Fatalf("a run ended with neither an answer nor an error that is to be expected: %v", whole.err)
		}
		if whole.ok && whole.final.Text != trimSpace(whole.visibleText()) {
			r.Fatalf("final %q, shown %q", whole.final.Text, whole.visibleText())
		}
		ran := sent.runs
		sent.runs = nil

		var disk []agent.Step
		var l runLog
		var tr *llm.Transcript
		unknown := false
		for range 40 {
			die := rapid.IntRange(1, 30).Draw(r, "die")
			lost := rapid.Bool().Draw(r, "lost")
			n := 0
			l, tr = run(disk, func(e agent.Event, cancel context.CancelCauseFunc) bool {
				n++
				rec, isStep := e.(agent.Record)
				dies := n == die
				if isStep && !(dies && lost) {
					disk = append(disk, rec.Step)
				}
				return !dies
			})
			for _, st := range disk {
				unknown = unknown || st.Kind == agent.StepResult && st.Result.Failed && len(st.Result.Text) > 40 && st.Result.Text[:11] == "The outcome"
			}
			if l.ok || l.err != nil {
				break
			}
		}
		if l.ok || l.err != nil {
			wantLegal(r, tr)
			if !unknown {
				if l.final.Text != whole.final.Text || l.ok != whole.ok {
					r.Fatalf("with crashes %q (%v), without %q (%v)", l.final.Text, l.err, whole.final.Text, whole.err)
				}
				if d := cmp.Diff(formatTranscript(reference), formatTranscript(tr)); d != "" {
					r.Fatalf("with crashes the transcript differs: %s", d)
				}
			}
		}
		for id, n := range sent.runs {
			if n > 1 {
				r.Fatalf("call %s ran %d times", id, n)
			}
		}
		if !unknown && l.ok {
			if d := cmp.Diff(ran, sent.runs); d != "" {
				r.Fatalf("with crashes other calls ran: %s", d)
			}
		}

		at := rapid.IntRange(1, 40).Draw(r, "interrupt")
		n := 0
		l, tr = run(nil, func(_ agent.Event, cancel context.CancelCauseFunc) bool {
			if n++; n == at {
				cancel(errStop)
			}
			return true
		})
		wantLegal(r, tr)
		if n > at && !l.ok && !errors.Is(l.err, errStop) && l.err.Error() != whole.err.Error() {
			r.Fatalf("interrupted: err %v", l.err)
		}
		agent.Close(tr, "")
		tr.Append(llm.UserText("next"))
		wantLegal(r, tr)
	})
}
