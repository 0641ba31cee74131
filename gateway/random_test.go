package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// A plan is a day of a conversation: the actions, how long each takes, and where the
// daemon is killed.
type plan struct {
	mode   inbox.Mode
	deeds  []action
	passes []string // how each compaction goes: "", "fails", "panics", "slow", "rests"
	kills  []int    // points to kill at, each counted from the last kill
	long   int
	limit  int
	forget bool // transcripts are loaded from the store for each turn
}

type action struct {
	text string
	wait time.Duration // after it
}

var plans = rapid.Custom(func(t *rapid.T) plan {
	waits := []time.Duration{0, time.Millisecond, time.Second, 3 * time.Second, time.Minute, 5 * time.Minute}
	texts := []string{"talk", "talk", "talk", "work", "work", "bad", "/stop", "/new", "/compress", "/model second", "/model scripted", "/reload"}
	one := rapid.Custom(func(t *rapid.T) action {
		return action{rapid.SampledFrom(texts).Draw(t, "text"), rapid.SampledFrom(waits).Draw(t, "wait")}
	})
	return plan{
		mode:   rapid.SampledFrom([]inbox.Mode{inbox.Interrupt, inbox.Queue, inbox.Steer}).Draw(t, "mode"),
		deeds:  rapid.SliceOfN(one, 4, 12).Draw(t, "deeds"),
		passes: rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "fails", "panics", "slow", "rests"}), 0, 6).Draw(t, "passes"),
		kills:  rapid.SliceOfN(rapid.IntRange(1, 120), 0, 3).Draw(t, "kills"),
		long:   rapid.SampledFrom([]int{100, 60_000, 86_000, 96_000}).Draw(t, "long"),
		limit:  rapid.SampledFrom([]int{1, 50_000, 1 << 30}).Draw(t, "limit"),
		forget: rapid.Bool().Draw(t, "forget"),
	}
})

// A plannedEngine compacts as the plan says.
type plannedEngine struct {
	killableEngine
	p *plan
}

func (m *plannedEngine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	mood := ""
	if len(m.p.passes) > 0 {
		mood, m.p.passes = m.p.passes[0], m.p.passes[1:]
	}
	switch mood {
	case "fails":
		return agent.Compaction{}, errors.New("the summary model is away")
	case "panics":
		panic("broken")
	case "rests":
		return agent.Compaction{}, agent.ErrCoolingDown
	case "slow":
		if err := sleep(ctx, 45*time.Second); err != nil {
			return agent.Compaction{}, err
		}
	}
	return m.killableEngine.Compress(ctx, v)
}

// run executes a plan and checks the stored state.
func (p plan) run(t *testing.T) {
	s := scenario{long: p.long, limit: p.limit}.newSweep(t, 0)
	answer := s.model.Default
	s.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		if strings.HasPrefix(newestUserText(r), "bad") {
			return llmtest.Fail([]llm.Class{llm.Format, llm.Auth, llm.ContextOverflow}[len(newestUserText(r))%3])
		}
		a := answer(r)
		a.Delay = time.Second
		return a
	}
	moods := p
	moods.passes = slices.Clone(p.passes)
	set := s.configure
	s.configure = func(o *gatewaytest.Options) {
		set(o)
		o.Mode = p.mode
		if p.forget {
			o.Limits.TranscriptCacheBytes = 0
		}
		o.Compression = compaction.Options{
			Settings: hygiene.Settings{Enabled: true, MessageLimit: 8}, MaxWait: 30 * time.Second,
			Engine: func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) {
				return &plannedEngine{killableEngine{foldingEngine{limit: p.limit}, s.reaper}, &moods}, nil
			},
		}
	}
	kills := p.kills
	aim := func() {
		s.reaper.mu.Lock()
		defer s.reaper.mu.Unlock()
		if len(kills) > 0 && !s.reaper.dead && s.reaper.at == 0 {
			s.reaper.at, kills = s.reaper.n+kills[0], kills[1:]
		}
	}
	s.start()
	for i, d := range p.deeds {
		aim()
		text := d.text
		if !strings.HasPrefix(text, "/") {
			text = fmt.Sprintf("%s %s%d", text, strings.Repeat("x", i), i)
		}
		if text == "/reload" {
			s.systemMessage += " more"
		}
		m := s.newMessage("7", text)
		s.offered = append(s.offered, m)
		s.deliver(m)
		s.advance(d.wait)
		if s.reaper.killed() {
			s.checkBreaks()
			s.restart()
		}
	}
	s.advance(time.Hour)
	if s.reaper.killed() {
		s.checkBreaks()
		s.restart()
	}
	s.reaper.mu.Lock()
	s.reaper.at = 0
	s.reaper.mu.Unlock()
	s.checkInvariants()
	s.stop()
}

// checkInvariants checks what must hold after any day.
func (s *killSweep) checkInvariants() {
	s.t.Helper()
	ids := map[string]int{}
	recs, err := s.store.Sessions(s.t.Context(), session.Query{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, rec := range recs {
		s.checkTranscript(rec)
		for _, text := range s.sessionTexts(rec) {
			if strings.HasPrefix(text, "done: ") {
				ids[text]++
				continue
			}
			for _, m := range s.offered {
				if !strings.HasPrefix(m.Text, "/") {
					ids[m.Text] += strings.Count(text+"\n", m.Text+"\n")
				}
			}
		}
	}
	shown := map[string]int{}
	for _, text := range s.adapter.visible("7") {
		shown[text]++
	}
	for _, m := range s.offered {
		o := s.outcome(m.IdempotencyKey)
		if !slices.ContainsFunc([]string{"replied", "failed", "cancelled"}, func(p string) bool { return strings.HasPrefix(o, p) }) {
			s.t.Errorf("%q ended %q", m.Text, o)
		}
		if strings.HasPrefix(m.Text, "/") {
			continue
		}
		if ids[m.Text] > 1 || ids["done: "+m.Text] > 1 || shown["done: "+m.Text] > 1 || o == "replied" && ids[m.Text] != 1 {
			s.t.Errorf("%q ended %s: it is stored %d times, its answer %d times, and shown %d times", m.Text, o, ids[m.Text], ids["done: "+m.Text], shown["done: "+m.Text])
		}
	}
	for input, n := range s.tool.runs {
		if n > 1 {
			s.t.Errorf("the tool that may run once ran %d times with %s", n, input)
		}
	}
	if lanes, rows := s.unfinished(); len(lanes)+len(rows) != 0 {
		s.t.Errorf("left open: %v, %+v", lanes, rows)
	}
	if err := s.store.Verify(s.t.Context()); err != nil {
		s.t.Errorf("verify: %v", err)
	}
}

func (s *killSweep) checkTranscript(rec session.Record) {
	s.t.Helper()
	rows, err := s.store.Rows(s.t.Context(), rec.ID, rec.Active())
	if err != nil {
		s.t.Fatal(err)
	}
	ms := make([]llm.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &ms[i]); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := llm.ValidateMessages(ms); err != nil {
		s.t.Errorf("the transcript of %s is not legal: %v", rec.ID, err)
	}
	if n := len(ms); n > 0 && ms[n-1].Role != llm.Assistant {
		s.t.Errorf("the transcript of %s ends with %q", rec.ID, ms[n-1].Text())
	}
}

// TestRandomDaysLoseAndRepeatNothing runs random plans, the same ones in each run.
func TestRandomDaysLoseAndRepeatNothing(t *testing.T) {
	for seed := range days {
		p := plans.Example(seed)
		t.Run(fmt.Sprint("day ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("%+v", p)
					}
				}()
				p.run(t)
			})
		})
	}
}

const days = 60
