package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
)

func TestInterruptAbandonsModelCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Text: "half of what", Hold: make(chan struct{})}))
		ctx, cancel := context.WithCancelCause(t.Context())
		tr := llm.NewTranscript()
		time.AfterFunc(time.Minute, func() { cancel(errStop) })
		l := collect(ctx, s, s.turn("go", tr), nil)
		if !errors.Is(l.err, errStop) {
			t.Errorf("err %v, want the cause", l.err)
		}
		if d := cmp.Diff("user text: go\n", formatTranscript(tr)); d != "" {
			t.Error(d)
		}
	})
}

func TestInterruptAbandonsHangingTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := fakeTool{toolSpec("hang", tool.AtMostOnce, true), func(context.Context, tool.Call) (string, error) {
			<-release
			return "too late", nil
		}}
		obeys := fakeTool{toolSpec("obeys", tool.Pure, true), func(ctx context.Context, c tool.Call) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}}
		finishes := fakeTool{toolSpec("finishes", tool.AtMostOnce, true), func(ctx context.Context, c tool.Call) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return "in time", nil
		}}
		p := scripted(llmtest.Answer{Calls: []llmtest.Call{
			{ID: "a", Name: "hang"}, {ID: "b", Name: "obeys"}, {ID: "c", Name: "finishes"}, {ID: "d", Name: "alone"},
		}})
		s := newHarness(t, agent.Config{}, p, hang, obeys, finishes, echoTool("alone", tool.AtMostOnce, false))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errStop) })
		start := time.Now()
		tr := llm.NewTranscript()
		l := collect(ctx, s, s.turn("go", tr), nil)
		if took := time.Since(start); took != time.Minute+5*time.Second {
			t.Errorf("the turn was held for %v", took)
		}
		if !errors.Is(l.err, errStop) {
			t.Errorf("err %v, want the cause", l.err)
		}
		var results string
		for _, st := range l.steps {
			if st.Kind == agent.StepResult {
				results += st.Call
			}
		}
		if results != "c" {
			t.Errorf("results of %q are recorded, want only that of c", results)
		}
		wantContains(t, formatTranscript(tr), "a failed=true Interrupted", "b failed=true Interrupted", "c failed=false in time", "d failed=true Skipped")
		wantLegal(t, tr)
		before := formatTranscript(tr)
		close(release)
		s.agent.Wait()
		if formatTranscript(tr) != before {
			t.Error("a tool that was left behind changed the transcript")
		}
	})
}

func TestConsumerStopEndsRunAndTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := fakeTool{toolSpec("wait", tool.Pure, true), func(ctx context.Context, c tool.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		s := newHarness(t, agent.Config{}, scripted(llmtest.Answer{Calls: []llmtest.Call{{Name: "wait"}, {Name: "quick"}}}), wait, echoTool("quick", tool.Pure, true))
		start := time.Now()
		for e, err := range s.agent.Run(t.Context(), s.turn("go", llm.NewTranscript())) {
			if err != nil {
				t.Error(err)
			}
			if _, ok := e.(agent.ToolFinished); ok {
				break
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the tools ended after %v", took)
		}
		s.agent.Wait()
	})
}

func TestSteeringIsNotReadAtTurnEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := fakeTool{toolSpec("stop", tool.Pure, false), func(context.Context, tool.Call) (string, error) {
		cancel(errStop)
		return "stopping", nil
	}}
	s := newHarness(t, agent.Config{}, scripted(llmtest.Use("stop", "")), stop)
	turn := s.turn("go", llm.NewTranscript())
	turn.Steer = func() []llm.Block {
		t.Error("steering was read")
		return nil
	}
	if l := collect(ctx, s, turn, nil); !errors.Is(l.err, errStop) {
		t.Errorf("err %v", l.err)
	}
	wantLegal(t, turn.Transcript)
}

func TestInterruptAtStartSkipsCall(t *testing.T) {
	var ran counter
	send := fakeTool{toolSpec("send", tool.AtMostOnce, false), func(_ context.Context, c tool.Call) (string, error) {
		ran.add(c.ID)
		return "sent", nil
	}}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newHarness(t, agent.Config{}, scripted(llmtest.Use("send", ""), llmtest.Say("never asked")), send)
	tr := llm.NewTranscript()
	l := collect(ctx, s, s.turn("go", tr), func(e agent.Event) {
		if r, ok := e.(agent.Record); ok && r.Step.Kind == agent.StepStart {
			cancel(errStop)
		}
	})
	if !errors.Is(l.err, errStop) || len(ran.runs) != 0 {
		t.Errorf("err %v, ran %v", l.err, ran.runs)
	}
	wantContains(t, formatTranscript(tr), "failed=true Skipped")
	wantLegal(t, tr)
}
