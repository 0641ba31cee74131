package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// A killableEngine runs each compaction through the killer.
type killableEngine struct {
	foldingEngine
	r *killer
}

func (m *killableEngine) Compress(ctx context.Context, v agent.ContextView) (p agent.Compaction, err error) {
	if dead := m.r.wrap("compaction", func() error { p, err = m.foldingEngine.Compress(ctx, v); return nil }); dead != nil {
		<-ctx.Done()
		return agent.Compaction{}, ctx.Err()
	}
	return p, err
}

// scenarioAnswers returns the model of these scenarios: "work" calls two tools, look and
// then pay, and an uncompacted conversation of three messages is reported as long.
func scenarioAnswers(long int) func(llmtest.Recorded) llmtest.Answer {
	return func(r llmtest.Recorded) llmtest.Answer {
		text, results := newestUserText(r), 0
		for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Text() != text; i-- {
			if r.Messages[i].Role == llm.User {
				results++
			}
		}
		a := llmtest.Answer{Text: "done: " + text}
		if strings.HasPrefix(text, "work") && results < 2 {
			name := []string{"lookup", "pay"}[results]
			a = llmtest.Answer{Calls: []llmtest.Call{{ID: fmt.Sprintf("call_%x_%d", text, results), Name: name, Input: fmt.Sprintf(`{"for":%q}`, text)}}}
		}
		a.Usage = llm.Usage{Input: 100, Output: 5}
		if len(r.Messages) >= 3 && !strings.HasPrefix(r.Messages[0].Text(), "[sum") {
			a.Usage.Input = long
		}
		return a
	}
}

// A scenario is a list of messages and a way to compact them.
type scenario struct {
	name  string
	says  []string
	long  int // tokens that a long conversation is reported to have
	limit int // threshold of the engine
	check func(*killSweep)
}

// newSweep returns a killSweep with an engine, two models and two tools.
func (c scenario) newSweep(t *testing.T, at int) *killSweep {
	s := newKillSweep(t, at)
	s.tools = []tool.Tool{s.tool, lookupTool{}}
	answer := scenarioAnswers(c.long)
	s.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		var a llmtest.Answer
		if s.reaper.wrap("model", func() error { a = answer(r); return nil }) != nil {
			return llmtest.Answer{Wait: make(chan struct{})}
		}
		return a
	}
	set := s.configure
	s.configure = func(o *gatewaytest.Options) {
		set(o)
		o.Models, o.Host, o.Access = &modelsWithWindow{models{second: s.model}}, &fakeHost{restart: func() {}}, ownerChecker(t)
		o.Compression = compaction.Options{
			Settings: hygiene.Settings{Enabled: true, MessageLimit: 5000}, MaxWait: 30 * time.Second,
			Engine: func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) {
				return &killableEngine{foldingEngine: foldingEngine{limit: c.limit}, r: s.reaper}, nil
			},
		}
	}
	return s
}

func (c scenario) run(s *killSweep) {
	for _, text := range c.says {
		if text == "/reload" {
			s.systemMessage += "more text"
		}
		m := s.newMessage("7", text)
		s.offered = append(s.offered, m)
		s.deliver(m)
		if strings.HasPrefix(text, "/") {
			s.advance(time.Second)
		}
	}
	s.advance(5 * time.Minute)
}

// checkStored checks that every message and answer is stored exactly once, archived or
// active.
func (s *killSweep) checkStored() {
	s.t.Helper()
	count := map[string]int{}
	for _, text := range s.allTexts() {
		count[text]++
	}
	shown := map[string]int{}
	for _, text := range s.adapter.visible("7") {
		shown[text]++
	}
	for _, m := range s.offered {
		if o := s.outcome(m.IdempotencyKey); o != "replied" {
			s.t.Errorf("%q ended %s", m.Text, o)
		}
		if strings.HasPrefix(m.Text, "/") {
			continue
		}
		if a := "done: " + m.Text; count[m.Text] != 1 || count[a] != 1 || shown[a] > 1 || shown[a]+shown["(may be a repeat)\n"+a] == 0 {
			s.t.Errorf("%q is stored %d times and its answer %d times, which was shown %d times", m.Text, count[m.Text], count[a], shown[a])
		}
	}
	for input, n := range s.tool.runs {
		if n > 1 {
			s.t.Errorf("the tool that may run once ran %d times with %s", n, input)
		}
	}
	s.transcript()
	if lanes, rows := s.unfinished(); len(lanes)+len(rows) != 0 {
		s.t.Errorf("left open: %v, %+v", lanes, rows)
	}
	if err := s.store.Verify(s.t.Context()); err != nil {
		s.t.Errorf("verify: %v", err)
	}
}

func (s *killSweep) archivedCount() int {
	recs, err := s.store.Sessions(s.t.Context(), session.Query{Max: 1})
	if err != nil || len(recs) == 0 {
		s.t.Fatalf("%d sessions, %v", len(recs), err)
	}
	return recs[0].Archived()
}

func TestKillAtAnyPointOfCompaction(t *testing.T) {
	compacted := func(s *killSweep) {
		s.t.Helper()
		if s.archivedCount() == 0 {
			s.t.Error("nothing was archived")
		}
	}
	for _, c := range []scenario{
		{name: "before a turn", says: []string{"one", "two", "three", "four"}, long: 86_000, limit: 1 << 30, check: compacted},
		{name: "between two tools", says: []string{"one", "work 2", "three"}, long: 60_000, limit: 50_000, check: compacted},
		{name: "asked for", says: []string{"one", "work 2", "/compress", "three"}, long: 100, limit: 1 << 30, check: compacted},
		{name: "during a switch and a reload", says: []string{"one", "/model second", "two", "/reload", "/compress", "three", "/model scripted", "four"}, long: 100, limit: 1 << 30, check: func(s *killSweep) {
			recs, err := s.store.Sessions(s.t.Context(), session.Query{Max: 1})
			if err != nil || recs[0].Revision < 2 || recs[0].Settings.Model != "" {
				s.t.Errorf("revision %d, settings %+v, %v", recs[0].Revision, recs[0].Settings, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			points := c.runOnce(t, 0)
			if points < 30 {
				t.Fatalf("only %d points", points)
			}
			every, died := 1, 0
			if testing.Short() {
				every = 5
			}
			for k := 1; k <= points; k += every {
				t.Run(fmt.Sprint("point ", k), func(t *testing.T) { died += min(1, c.runOnce(t, k)) })
			}
			t.Logf("%d points, %d deaths", points, died)
			if died < points/every*9/10 {
				t.Errorf("only %d of %d points were reached", died, points/every)
			}
		})
	}
}

// runOnce runs the scenario with a kill at point at; 0 is none. It returns the number
// of points without a kill, or whether there was one.
func (c scenario) runOnce(t *testing.T, at int) (n int) {
	synctest.Test(t, func(t *testing.T) {
		s := c.newSweep(t, at)
		s.start()
		c.run(s)
		n = s.reaper.n
		if at > 0 {
			n = 0
		}
		if s.reaper.killed() {
			n = 1
			s.checkBreaks()
			s.restart()
		}
		s.checkStored()
		c.check(s)
		if t.Failed() {
			t.Logf("died %s\n%s", s.reaper.diedAt, s.adapter.history())
		}
		s.stop()
	})
	return n
}
