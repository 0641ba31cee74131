package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/internal/plan"
	"hermesd/agent/llm"
)

func sameRow(i int) int { return i }

func TestAnyListIsTruncated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := enginetest.Legal().Draw(t, "conversation")
		before := cloneMessages(ms)
		limit := rapid.IntRange(0, 20_000).Draw(t, "limit")
		out := plan.Truncate(ms, limit, sameRow)
		if !equalLists(before, ms) {
			t.Fatal("it has changed what it was given")
		}
		if err := llm.ValidateMessages(out); err != nil {
			t.Fatal(err)
		}
		if plan.Tokens(ms) <= limit && !equalLists(out, ms) {
			t.Fatal("a list that fits was changed")
		}
		least := 0 // what no list can be shortened below
		for _, m := range ms {
			least += 32 + 110*len(m.Blocks)
		}
		if n := plan.Tokens(out); n > max(limit, least) {
			t.Fatalf("%d tokens are left, limit %d, least %d", n, limit, least)
		}
		if again := plan.Truncate(out, plan.Tokens(out), sameRow); !equalLists(again, out) {
			t.Fatal("what fits is truncated again")
		}
	})
}

func TestNewestMessageIsTruncatedLast(t *testing.T) {
	long := strings.Repeat("word ", 4000)
	call := llm.Message{Role: llm.Assistant, Raw: []byte("{}"), Dialect: "d", Blocks: []llm.Block{
		{Type: llm.ToolUse, ID: "c", Name: "write", Input: json.RawMessage(`{"text":"` + long + `"}`)},
	}}
	result := llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: "c", Text: long}}}
	ms := []llm.Message{llm.UserText("old " + long), llm.AssistantText(long), llm.UserText("new " + long), call, result}
	out := plan.Truncate(ms, 8000, sameRow)
	if !plan.Equal(out[2], ms[2]) || out[3].Raw != nil || len(out[3].Blocks[0].Input) > 400 || plan.Tokens(out) > 8000 {
		t.Errorf("%d tokens, the call is %.80s", plan.Tokens(out), out[3].Blocks[0].Input)
	}
	for _, i := range []int{0, 1} {
		if text := out[i].Text(); !strings.HasSuffix(text, " word ") || !strings.Contains(text, fmt.Sprintf("characters are left out here; the whole text is row %d of this conversation …]\n", i)) {
			t.Errorf("message %d is %.60q", i, text)
		}
	}
	out = plan.Truncate(ms, 2000, sameRow)
	if text := out[2].Text(); !strings.HasPrefix(text, "new word") || !strings.Contains(text, "row 2 of") || plan.Tokens(out) > 2000 {
		t.Errorf("%d tokens, the newest message is %.60q", plan.Tokens(out), text)
	}
}

// A text that is truncated again keeps the number of the row with the whole text, and the
// number of characters.
func TestTruncatedTextIsTruncatedAgain(t *testing.T) {
	text := strings.Repeat("word ", 4000)
	ms := []llm.Message{llm.UserText(text)}
	for i, limit := range []int{3000, 1000, 200} {
		ms = plan.Truncate(ms, limit, func(int) int { return 7 + i })
		got := ms[0].Text()
		begin, rest, _ := strings.Cut(got, "\n[… ")
		var n, row int
		if _, err := fmt.Sscanf(rest, "%d characters are left out here; the whole text is row %d", &n, &row); err != nil || row != 7 {
			t.Fatalf("limit %d: %.100q: row %d, %v", limit, rest, row, err)
		}
		_, end, _ := strings.Cut(rest, "]\n")
		if len(begin)+n+len(end) != len(text) || !strings.HasPrefix(text, begin) || !strings.HasSuffix(text, end) || strings.Contains(end, "left out") {
			t.Errorf("limit %d: %d + %d + %d characters of %d", limit, len(begin), n, len(end), len(text))
		}
	}
}

func TestPicturesAreLeftOutOldestFirst(t *testing.T) {
	m := llm.UserText("what are these?")
	for range 3 {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Image, MIME: "image/png", Path: "/p.png"})
	}
	out := plan.Truncate([]llm.Message{m}, 3500, sameRow)[0]
	if out.Blocks[1].Type != llm.Text || !strings.Contains(out.Blocks[1].Text, "row 0") || out.Blocks[2].Type != llm.Image || out.Blocks[3].Type != llm.Image || out.Text()[:15] != "what are these?" {
		t.Errorf("%+v", out.Blocks)
	}
}
