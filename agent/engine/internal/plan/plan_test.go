package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/llm"
)

func cloneMessages(ms []llm.Message) []llm.Message {
	out := slices.Clone(ms)
	for i := range out {
		out[i].Blocks = slices.Clone(out[i].Blocks)
	}
	return out
}

func equalLists(a, b []llm.Message) bool { return slices.EqualFunc(a, b, plan.Equal) }

func TestAnyListIsRepaired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := enginetest.Any().Draw(t, "list")
		before := cloneMessages(ms)
		out, changed := plan.Repair(ms)
		if !equalLists(before, ms) {
			t.Fatal("it has changed what it was given")
		}
		if err := llm.ValidateMessages(out); err != nil && len(out) > 0 {
			t.Fatal(err)
		}
		if llm.ValidateMessages(ms) == nil && (changed || !equalLists(ms, out)) {
			t.Fatal("a legal list did not stay as it was")
		}
		if again, changed := plan.Repair(out); len(out) > 0 && (changed || !equalLists(again, out)) {
			t.Fatal("what is repaired is repaired again")
		}
	})
}

func TestBoundariesPartNoCallFromItsResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := enginetest.Legal().Draw(t, "conversation")
		b := plan.Bounds{
			Head: rapid.IntRange(0, 6).Draw(t, "head"), LastN: rapid.IntRange(1, 30).Draw(t, "last"),
			Budget: rapid.IntRange(0, 20_000).Draw(t, "budget"),
		}
		p, ok := plan.NewPlan(ms, b)
		if !ok {
			return
		}
		if p.Tail > plan.NewestUser(ms) || len(ms)-p.Tail < min(b.LastN, len(ms)) || p.Head < min(b.Head, len(ms)) {
			t.Fatalf("%+v of %d messages, %+v", p, len(ms), b)
		}
		out := plan.Assemble(ms[:p.Head], p, plan.SummaryHeading+" here", nil, ms[p.Tail:])
		if err := llm.ValidateMessages(out); err != nil {
			t.Fatal(err)
		}
		at, text := plan.Summary(out)
		if at < 0 || text != plan.SummaryHeading+" here" {
			t.Fatalf("the summary is found at %d: %q", at, text)
		}
		if left := plan.WithoutSummary(out, text); !equalLists(left, slices.Concat(ms[:p.Head], ms[p.Tail:])) {
			t.Fatal("without the summary it is not the head and the tail")
		}
	})
}

func TestPruningKeepsCallsAndTheirJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := enginetest.Legal().Draw(t, "conversation")
		before := cloneMessages(ms)
		n := rapid.IntRange(0, len(ms)).Draw(t, "n")
		out := plan.Prune(ms, n)
		if !equalLists(before, ms) {
			t.Fatal("it has changed what it was given")
		}
		if err := llm.ValidateMessages(slices.Concat(out, ms[n:])); err != nil {
			t.Fatal(err)
		}
		if plan.Tokens(out) > plan.Tokens(ms[:n]) {
			t.Fatal("it became larger")
		}
		for _, m := range out {
			for _, b := range m.Blocks {
				if b.Type == llm.ToolUse && !json.Valid(b.Input) || b.Type == llm.ToolResult && len([]rune(b.Text)) > 200 {
					t.Fatalf("%+v", b)
				}
			}
		}
		limit := rapid.IntRange(0, 20_000).Draw(t, "limit")
		tail, cleared := plan.PruneTail(ms, limit)
		keep := max(len(ms)-2, 0)
		if !equalLists(before, ms) || !equalLists(tail[keep:], ms[keep:]) || cleared == 0 && !equalLists(tail, ms) {
			t.Fatal("the last exchange is not as it was")
		}
		from, to := plan.Changed(ms, tail)
		if !equalLists(ms[:from], tail[:from]) || !equalLists(ms[to:], tail[to:]) || cleared > 0 && to == 0 {
			t.Fatalf("it differs from %d to %d, %d cleared", from, to, cleared)
		}
	})
}

func TestOldOutputPointsToTheSameThatStandsLater(t *testing.T) {
	out := strings.Repeat("x", 201)
	text := func(i int, s string) []llm.Message {
		id := fmt.Sprint("c", i)
		in, _ := json.Marshal(map[string]any{"n": 12345678901234567890.0, "text": strings.Repeat("é", 300), "list": []string{strings.Repeat("日", 200)}})
		return []llm.Message{
			{Role: llm.Assistant, Raw: []byte("{}"), Dialect: "d", Blocks: []llm.Block{{Type: llm.ToolUse, ID: id, Name: "x", Input: in}}},
			{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: id, Text: s}}},
		}
	}
	ms := slices.Concat([]llm.Message{llm.UserText("a")}, text(1, out), text(2, "other"+out), text(3, out[1:]), text(4, out))
	got := plan.Prune(ms, 7)
	for i, want := range map[int]string{2: plan.Duplicate, 4: plan.Cleared, 6: out[1:]} {
		if s := got[i].Blocks[0].Text; s != want {
			t.Errorf("message %d: %.60q, want %.60q", i, s, want)
		}
	}
	var in struct {
		Text string
		List []string
	}
	if err := json.Unmarshal(got[1].Blocks[0].Input, &in); err != nil || in.Text != strings.Repeat("é", 200)+"...[truncated]" || in.List[0] != strings.Repeat("日", 200) {
		t.Errorf("%v, %+v", err, in)
	}
	if got[1].Raw != nil || got[1].Dialect != "" {
		t.Error("a call that was shortened is sent as it was")
	}
}
