package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermesd/agent"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/llm"
)

// appendFacts appends n exchanges with one fact each.
func appendFacts(s *Session, first, n int) {
	for i := range n {
		s.Append(llm.UserText(fmt.Sprintf("fact-%d is told", first+i)), llm.AssistantText(strings.Repeat("It is so. ", 100)))
	}
}

// testDiscardedCompaction makes compactions that are not adopted: the next one
// must be the same as without them, for the first compaction of a session and
// for later ones.
func testDiscardedCompaction(t *testing.T, build func(Setup) agent.Engine) {
	s := &Session{}
	up := Setup{Limits: agent.Limits{Window: 40_000}, Session: s, Summarise: &Clerk{}}
	e := build(up)
	for round := range 4 {
		appendFacts(s, 1000*round, 60)
		up.State = e.State()
		if _, err := e.Compress(t.Context(), s.View()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		// Messages arrived during the compaction.
		s.Append(llm.UserText("and this?"), llm.AssistantText("also"))
		got, err := e.Compress(t.Context(), s.View())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		want, err := build(up).Compress(t.Context(), s.View())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got.From != want.From || got.To != want.To || !slices.EqualFunc(got.Messages, want.Messages, plan.Equal) {
			t.Fatalf("round %d: after a pass that was discarded the next one is another: %d to %d, want %d to %d", round, got.From, got.To, want.From, want.To)
		}
		if err := checkCompaction(s.View(), got); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		s.Adopt(got)
	}
}

// testLongTail gives an engine a tail that is above the threshold and has no
// tool output: it must keep fewer messages than protect_last_n.
func testLongTail(t *testing.T, build func(Setup) agent.Engine) {
	s := &Session{}
	for i := range 40 {
		s.Append(llm.UserText(fmt.Sprintf("fact-%d %s", i, strings.Repeat("long words ", 500))), llm.AssistantText(strings.Repeat("as long ", 600)))
	}
	s.Append(llm.UserText("the newest"))
	e := build(Setup{Limits: agent.Limits{Window: 40_000}, Session: s, Summarise: &Clerk{}})
	p, err := e.Compress(t.Context(), s.View())
	if err != nil {
		t.Fatal(err)
	}
	if err := checkCompaction(s.View(), p); err != nil {
		t.Fatal(err)
	}
	kept := len(s.Active()) - p.To
	if p.After >= e.Status().Threshold || kept >= 20 || kept < 2 {
		t.Errorf("%d tokens are left and make the next pass due at %d; %d messages of the tail", p.After, e.Status().Threshold, kept)
	}
}
