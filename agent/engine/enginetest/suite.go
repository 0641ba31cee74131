package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent"
	"hermesd/agent/engine/internal/compaction"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/engine/summary"
	"hermesd/agent/llm"
)

// A Setup holds the parameters of an engine under test. Its settings are the
// defaults with MinThresholdTokens 0, unless it has others.
type Setup struct {
	Threshold     float64 // 0: the default
	FirstN, LastN int     // 0: the default
	Limits        agent.Limits
	Summarise     summary.Completer
	State         json.RawMessage
	Session       *Session
}

// Defaults returns the default settings.
func Defaults() compaction.Settings {
	return compaction.Settings{Threshold: 0.50, TargetRatio: 0.20, ProtectLastN: 20, ProtectFirstN: 3, MinThresholdTokens: 64_000}
}

// Settings returns the settings of s.
func (s Setup) Settings() compaction.Settings {
	o := Defaults()
	o.MinThresholdTokens = 0
	if s.Threshold > 0 {
		o.Threshold = s.Threshold
	}
	if s.FirstN > 0 {
		o.ProtectFirstN = s.FirstN
	}
	if s.LastN > 0 {
		o.ProtectLastN = s.LastN
	}
	return o
}

// defaultChecks is the default number of random conversations, with which an
// engine's tests take seconds. "make engines" tries more.
const defaultChecks = "30"

// Main runs the tests of an engine, with few random conversations unless the
// flag -rapid.checks is set, and fails if a goroutine remains.
func Main(m *testing.M) {
	if err := flag.Set("rapid.checks", defaultChecks); err != nil {
		panic(err) // unreachable: rapid defines this flag
	}
	goleak.VerifyTestMain(m)
}

// Suite runs the tests that every engine must pass. The flag -rapid.checks sets
// the number of random conversations.
func Suite(t *testing.T, build func(Setup) agent.Engine) {
	t.Run("any list becomes one that is legal and loses nothing", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { testAnyList(t, build) })
	})
	t.Run("no request is above the limit", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { testLimit(t, build) })
	})
	t.Run("many messages that are too short to be truncated", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { testShortMessages(t, build) })
	})
	t.Run("it is due at the threshold and not one token before", func(t *testing.T) {
		for window, want := range map[int]int{200_000: 100_000, 32_801: 16_400, 1_000_000: 500_000} {
			e := build(Setup{Limits: agent.Limits{Window: window}, Session: &Session{}, Summarise: &Clerk{}})
			if e.ShouldCompress(want-1) || !e.ShouldCompress(want) || e.Status().Threshold != want {
				t.Errorf("a window of %d: not due at %d exactly", window, want)
			}
		}
	})
	t.Run("a hundred passes in one session", func(t *testing.T) { testHundredCompactions(t, build) })
	t.Run("a pass that nobody adopts", func(t *testing.T) { testDiscardedCompaction(t, build) })
	t.Run("a tail that is too long without any output", func(t *testing.T) { testLongTail(t, build) })
	t.Run("state that cannot be read is none", func(t *testing.T) {
		for _, s := range []string{"", "null", "[]", `{"engine":1}`, `{"engine":"` + "x" + `"}`, "{"} {
			e := build(Setup{Limits: agent.Limits{Window: 100_000}, Session: &Session{}, Summarise: &Clerk{}, State: json.RawMessage(s)})
			if e.Status().Passes != 0 || e.Status().Cooldown != "" {
				t.Errorf("%q: %+v", s, e.Status())
			}
		}
	})
}

// testAnyList makes up to three compactions of one list.
func testAnyList(t *rapid.T, build func(Setup) agent.Engine) {
	window := rapid.SampledFrom([]int{2_000, 8_000, 32_000}).Draw(t, "window")
	s := &Session{}
	s.Append(Any().Draw(t, "list")...)
	up := Setup{Limits: agent.Limits{Window: window}, Session: s, Summarise: &Clerk{}}
	e := build(up)
	for pass := range 3 {
		v := s.View()
		v.Force, v.WithoutModel = rapid.Bool().Draw(t, "force"), rapid.Bool().Draw(t, "plain")
		if rapid.Bool().Draw(t, "focus") {
			v.Focus = "the focus"
		}
		before := slices.Clone(v.Messages)
		p, err := e.Compress(context.Background(), v)
		if !slices.EqualFunc(before, v.Messages, plan.Equal) {
			t.Fatal("the pass has changed what it was given")
		}
		if err != nil {
			if !errors.Is(err, agent.ErrCoolingDown) && !strings.Contains(err.Error(), "larger") {
				t.Fatal(err)
			}
			break
		}
		if err := checkCompaction(v, p); err != nil {
			t.Fatalf("pass %d: %v", pass, err)
		}
		s.Adopt(p)
		up.State = e.State()
		if !json.Valid(up.State) {
			t.Fatalf("the state is %s", up.State)
		}
		again := build(up)
		if string(again.State()) != string(up.State) {
			t.Fatalf("the state becomes another:\n%s\n%s", up.State, again.State())
		}
		e = again
		s.Append(nextTurn(s.Active())...)
	}
}

// nextTurn returns messages that may follow ms.
func nextTurn(ms []llm.Message) (out []llm.Message) {
	if len(ms)%2 == 1 {
		out = append(out, llm.AssistantText("done"))
	}
	for i := range 12 {
		out = append(out, llm.UserText(fmt.Sprint("ask ", i)), llm.AssistantText(strings.Repeat("answer ", 200)))
	}
	return out
}

// checkCompaction returns an error if p is not a valid compaction of v.
func checkCompaction(v agent.ContextView, p agent.Compaction) error {
	if err := llm.ValidateMessages(p.Messages); err != nil {
		return err
	}
	if p.From < 0 || p.To < p.From || p.To > len(v.Messages) {
		return fmt.Errorf("it archives %d to %d of %d", p.From, p.To, len(v.Messages))
	}
	head, tail := v.Messages[:p.From], v.Messages[p.To:]
	if len(p.Messages) < len(head)+len(tail) || !slices.EqualFunc(head, p.Messages[:len(head)], plan.Equal) {
		return errors.New("what is before the archived messages is not as it was")
	}
	if !slices.EqualFunc(tail, p.Messages[len(p.Messages)-len(tail):], plan.Equal) {
		return errors.New("the tail is not as it was")
	}
	if p.After >= p.Before {
		return fmt.Errorf("%d tokens became %d", p.Before, p.After)
	}
	legal := llm.ValidateMessages(v.Messages) == nil
	if cleared := strings.Contains(p.Explanation, "cleared"); legal && !cleared && len(tail) == 0 {
		return errors.New("nothing of the tail is left")
	}
	return checkNewestUser(v.Messages, p.Messages)
}

// checkNewestUser returns an error if the newest user message is not in after
// verbatim.
func checkNewestUser(before, after []llm.Message) error {
	i := plan.NewestUser(before)
	if i < 0 {
		return nil
	}
	for _, b := range before[i].Blocks {
		if b.Type != llm.Text || strings.TrimSpace(b.Text) == "" {
			continue
		}
		if !slices.ContainsFunc(after, func(m llm.Message) bool {
			return m.Role == llm.User && slices.ContainsFunc(m.Blocks, func(x llm.Block) bool { return x.Type == b.Type && x.Text == b.Text })
		}) {
			return errors.New("the newest message of the user is not there verbatim")
		}
	}
	return nil
}

// testHundredCompactions grows a session through a hundred compactions.
func testHundredCompactions(t *testing.T, build func(Setup) agent.Engine) {
	s := &Session{Fixed: 3000}
	e := build(Setup{Limits: agent.Limits{Window: 40_000}, Session: s, Summarise: &Clerk{}})
	limit := e.Status().Threshold
	var said []llm.Message
	for n, turn := 0, 0; n < 100; turn++ {
		if turn > 20_000 {
			t.Fatalf("only %d passes in %d turns", n, turn)
		}
		id := fmt.Sprintf("call_%d", turn)
		ms := []llm.Message{
			llm.UserText(fmt.Sprintf("fact-%d: what about it?", turn)),
			{Role: llm.Assistant, Blocks: []llm.Block{toolUse(id, `{"q":"x"}`)}},
			{Role: llm.User, Blocks: []llm.Block{toolResult(id, fmt.Sprintf("output-%d ", turn)+strings.Repeat("data ", 200))}},
			llm.AssistantText(strings.Repeat("It is so. ", 20)),
		}
		s.Append(ms...)
		said = append(said, ms...)
		if v := s.View(); e.ShouldCompress(v.Tokens) {
			p, err := e.Compress(t.Context(), v)
			if err != nil {
				t.Fatalf("pass %d: %v", n, err)
			}
			if err := checkCompaction(v, p); err != nil {
				t.Fatalf("pass %d: %v", n, err)
			}
			if p.After >= limit {
				t.Fatalf("pass %d: %d tokens are left, and %d make the next one due", n, p.After, limit)
			}
			s.Adopt(p)
			n++
		}
	}
	if e.Status().Passes != 100 {
		t.Errorf("the status tells %d passes", e.Status().Passes)
	}
	kept := map[string]bool{}
	for _, m := range append(s.Archived(), s.Active()...) {
		kept[fmt.Sprint(m)] = true
	}
	for i, m := range said {
		if !kept[fmt.Sprint(m)] {
			t.Fatalf("message %d is neither archived nor active", i)
		}
	}
	if !Holds(append(s.Archived(), s.Active()...), "fact-0:") {
		t.Error("the first fact is lost")
	}
}
