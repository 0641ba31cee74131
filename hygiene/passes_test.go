package hygiene_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// halving is an engine that archives half of the messages after a minute.
type halving struct {
	err   error
	ended bool
}

func (e *halving) Name() string               { return "halving" }
func (e *halving) Update(llm.Usage)           {}
func (e *halving) ShouldCompress(int) bool    { return false }
func (e *halving) State() json.RawMessage     { return nil }
func (e *halving) Status() agent.EngineStatus { return agent.EngineStatus{} }
func (e *halving) Limits(agent.Limits)        {}
func (e *halving) Reset()                     {}
func (e *halving) End()                       { e.ended = true }

func (e *halving) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return agent.Compaction{}, ctx.Err()
	}
	if e.err != nil {
		return agent.Compaction{}, e.err
	}
	n := len(v.Messages) / 2
	return agent.Compaction{From: 0, To: n, Messages: v.Messages[n:], Before: 100, After: 50}, nil
}

func transcript(texts ...string) *llm.Transcript {
	tr := llm.NewTranscript()
	for i, text := range texts {
		role := llm.User
		if i%2 == 1 {
			role = llm.Assistant
		}
		tr.Append(llm.Message{Role: role, Blocks: []llm.Block{{Type: llm.Text, Text: text}}})
	}
	return tr
}

func newPasses(t *testing.T) (*hygiene.Passes, *session.Locks) {
	tools, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	locks := new(session.Locks)
	p := hygiene.NewPasses(agent.New(agent.Config{}, llmtest.NewScripted(), tools), locks, zap.NewNop())
	t.Cleanup(func() {
		p.Close()
		p.Wait()
	})
	return p, locks
}

func TestAPassFitsAsLongAsWhatItCompactedIsUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes, _ := newPasses(t)
		tr := transcript("a", "b", "c", "d")
		p := passes.Start("s", tr, &halving{}, agent.ContextView{Messages: tr.Since(0)}, agent.WhyHygiene)
		if passes.Get("s") != p || passes.Get("other") != nil {
			t.Error("the pass is not found")
		}
		<-p.Done()
		if p.Err != nil || p.Result.To != 2 {
			t.Fatalf("%+v, %v", p.Result, p.Err)
		}
		tr.Append(transcript("e").Since(0)...)
		if !p.AppliesTo(0, tr) {
			t.Error("a message that came later makes it useless")
		}
		if p.AppliesTo(1, tr) || p.AppliesTo(0, transcript("a", "b", "c")) || p.AppliesTo(0, transcript("a", "b", "c", "x")) {
			t.Error("it applies to another transcript")
		}
		if !passes.Remove("s", p) || passes.Remove("s", p) || passes.Get("s") != nil {
			t.Error("it can be removed other than once")
		}
		passes.Adopted()
		if n := passes.Stats(); n != (hygiene.Stats{Started: 1, Adopted: 1, Last: "made", LastBefore: 100, LastAfter: 50}) {
			t.Errorf("%+v", n)
		}
	})
}

func TestAPassThatNoTurnAdoptsExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes, locks := newPasses(t)
		tr := transcript("a", "b", "c", "d")
		e := &halving{}
		p := passes.Start("s", tr, e, agent.ContextView{Messages: tr.Since(0)}, agent.WhyHygiene)
		if !passes.HandOver("s", e) || passes.HandOver("s", &halving{}) {
			t.Error("the engine of the pass was not handed over")
		}
		if err := locks.Acquire(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		if passes.Get("s") != p {
			t.Error("it expired while a turn held the session")
		}
		locks.Release("s")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := passes.Stats(); passes.Get("s") != nil || n.Discarded != 1 || n.Waiting != 0 {
			t.Errorf("it did not expire: %+v", n)
		}
		if !e.ended {
			t.Error("its engine was not ended")
		}
	})
}

func TestFailedAndCanceledPassesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes, _ := newPasses(t)
		tr := transcript("a", "b", "c", "d")
		p := passes.Start("s", tr, &halving{err: errors.New("no model")}, agent.ContextView{Messages: tr.Since(0)}, agent.WhyHygiene)
		<-p.Done()
		if n := passes.Stats(); p.Err == nil || n.Failed != 1 || n.Last != "no model" {
			t.Errorf("%v, %+v", p.Err, n)
		}
		passes.Remove("s", p)
		p = passes.Start("s", tr, &halving{}, agent.ContextView{Messages: tr.Since(0)}, agent.WhyHygiene)
		p.Cancel()
		if !errors.Is(p.Err, context.Canceled) {
			t.Errorf("%v", p.Err)
		}
		passes.Remove("s", p)
	})
}
