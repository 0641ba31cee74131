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
	"hermesd/gateway"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
	"hermesd/hygiene"
)

// A mortal engine passes each compaction through the reaper.
type mortal struct {
	folder
	r *reaper
}

func (m *mortal) Compress(ctx context.Context, v agent.ContextView) (p agent.Compaction, err error) {
	if dead := m.r.pass("compaction", func() error { p, err = m.folder.Compress(ctx, v); return nil }); dead != nil {
		<-ctx.Done()
		return agent.Compaction{}, ctx.Err()
	}
	return p, err
}

// worked is what the model of these scenarios answers: "work" looks and then
// pays, and a conversation of three messages that was not compacted is reported
// as long.
func worked(long int) func(llmtest.Recorded) llmtest.Answer {
	return func(r llmtest.Recorded) llmtest.Answer {
		text, results := said(r), 0
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

// A scenario is what people say, and what of it is compacted how.
type scenario struct {
	name  string
	says  []string
	long  int // tokens that a long conversation is reported to have
	limit int // of the engine
	check func(*sweep)
}

// compacting is a sweep with an engine, two models and two tools.
func (c scenario) sweep(t *testing.T, at int) *sweep {
	s := newSweep(t, at)
	s.tools = []tool.Tool{s.tool, lookup{}}
	answer := worked(c.long)
	s.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		var a llmtest.Answer
		if s.reaper.pass("model", func() error { a = answer(r); return nil }) != nil {
			return llmtest.Answer{Wait: make(chan struct{})}
		}
		return a
	}
	set := s.set
	s.set = func(o *gateway.Options) {
		set(o)
		o.Models, o.Restart, o.Access = &wide{models{second: s.model}}, func() {}, owned(t)
		o.Compression = turn.CompactionOptions{
			Settings: hygiene.Settings{Enabled: true, MessageLimit: 5000}, MaxWait: 30 * time.Second,
			Engine: func(session.Record, turn.ModelChoice, json.RawMessage) (agent.Engine, error) {
				return &mortal{folder: folder{limit: c.limit}, r: s.reaper}, nil
			},
		}
	}
	return s
}

func (c scenario) play(s *sweep) {
	for _, text := range c.says {
		if text == "/reload" {
			s.extra += "more text"
		}
		m := s.message("7", text)
		s.offered = append(s.offered, m)
		s.give(m)
		if strings.HasPrefix(text, "/") {
			s.settle(time.Second)
		}
	}
	s.settle(5 * time.Minute)
}

// whole judges what is stored: everything that was said and answered stands in
// it exactly once, archived or active.
func (s *sweep) whole() {
	s.t.Helper()
	count := map[string]int{}
	for _, text := range s.all() {
		count[text]++
	}
	shown := map[string]int{}
	for _, text := range s.room.visible("7") {
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
	if lanes, rows := s.open(); len(lanes)+len(rows) != 0 {
		s.t.Errorf("left open: %v, %+v", lanes, rows)
	}
	if err := s.store.Verify(s.t.Context()); err != nil {
		s.t.Errorf("verify: %v", err)
	}
}

func (s *sweep) archived() int {
	recs, err := s.store.Sessions(s.t.Context(), 1)
	if err != nil || len(recs) == 0 {
		s.t.Fatalf("%d sessions, %v", len(recs), err)
	}
	return recs[0].Archived()
}

func TestAKillAtAnyPointOfACompactionLosesNothing(t *testing.T) {
	compacted := func(s *sweep) {
		s.t.Helper()
		if s.archived() == 0 {
			s.t.Error("nothing was archived")
		}
	}
	for _, c := range []scenario{
		{name: "before a turn", says: []string{"one", "two", "three", "four"}, long: 86_000, limit: 1 << 30, check: compacted},
		{name: "between two tools", says: []string{"one", "work 2", "three"}, long: 60_000, limit: 50_000, check: compacted},
		{name: "asked for", says: []string{"one", "work 2", "/compress", "three"}, long: 100, limit: 1 << 30, check: compacted},
		{name: "beside a switch and a reload", says: []string{"one", "/model second", "two", "/reload", "/compress", "three", "/model scripted", "four"}, long: 100, limit: 1 << 30, check: func(s *sweep) {
			recs, err := s.store.Sessions(s.t.Context(), 1)
			if err != nil || recs[0].Revision < 2 || recs[0].Settings.Model != "" {
				s.t.Errorf("revision %d, settings %+v, %v", recs[0].Revision, recs[0].Settings, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			points := c.once(t, 0)
			if points < 30 {
				t.Fatalf("only %d points", points)
			}
			died := 0
			for k := 1; k <= points; k++ {
				t.Run(fmt.Sprint("point ", k), func(t *testing.T) { died += min(1, c.once(t, k)) })
			}
			t.Logf("%d points, %d deaths", points, died)
			if died < points*9/10 {
				t.Errorf("only %d of %d points were reached", died, points)
			}
		})
	}
}

// once plays the scenario with a death at point at; 0 is none. It returns the
// number of points without a death, or whether there was one.
func (c scenario) once(t *testing.T, at int) (n int) {
	synctest.Test(t, func(t *testing.T) {
		s := c.sweep(t, at)
		s.start()
		c.play(s)
		n = s.reaper.n
		if at > 0 {
			n = 0
		}
		if s.reaper.killed() {
			n = 1
			s.declared()
			s.resurrect()
		}
		s.whole()
		c.check(s)
		if t.Failed() {
			t.Logf("died %s\n%s", s.reaper.diedAt, s.room.history())
		}
		s.stop()
	})
	return n
}
