package llm_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
)

func encode(dst []byte, m llm.Message) []byte { return append(append(dst, '|'), m.Text()...) }

// TestWireEqualsFullEncoding mixes appends, truncations and calls of Wire in any
// order and dialect.
func TestWireEqualsFullEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := llm.NewTranscript()
		var model []string
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				s := rapid.StringN(0, 5, -1).Draw(t, "text")
				tr.Append(llm.UserText(s))
				model = append(model, s)
			},
			"truncate": func(t *rapid.T) {
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				tr.Truncate(n)
				model = model[:n]
			},
			"wire": func(t *rapid.T) {
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				dialect := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "dialect")
				want := strings.Builder{}
				for _, s := range model[:n] {
					want.WriteString("|" + s)
				}
				if got := string(tr.Wire(dialect, n, encode)); got != want.String() {
					t.Fatalf("wire of %d: got %q, want %q", n, got, want.String())
				}
			},
			"": func(t *rapid.T) {
				if tr.Len() != len(model) {
					t.Fatalf("length %d, want %d", tr.Len(), len(model))
				}
			},
		})
	})
}

func TestWireEncodesEachMessageOnce(t *testing.T) {
	tr := llm.NewTranscript()
	calls := 0
	count := func(dst []byte, m llm.Message) []byte { calls++; return encode(dst, m) }
	for i := range 100 {
		tr.Append(llm.UserText(fmt.Sprint(i)))
		tr.Wire("a", i+1, count)
		tr.Wire("a", i, count)
	}
	if calls != 100 {
		t.Errorf("encoded %d times, want 100", calls)
	}
}

func TestValidInput(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`: true, ` {"a":1.0}`: true, ``: false, `[]`: false, `"x"`: false, `{"a":`: false, `{} {}`: false, `null`: false,
	} {
		if got := llm.ValidInput([]byte(in)); got != want {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

func TestTranscriptCalls(t *testing.T) {
	call := func(id string) llm.Message {
		return llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: id}}}
	}
	tr := llm.NewTranscript(call("a"))
	if !tr.HasCall("a") || tr.HasCall("b") || tr.Calls() != 1 {
		t.Error("before")
	}
	tr.Append(call("b"), llm.UserText("x"), call("a"))
	if !tr.HasCall("b") || tr.Calls() != 2 {
		t.Error("after more")
	}
	tr.Truncate(1)
	if !tr.HasCall("a") || tr.HasCall("b") {
		t.Error("after a cut")
	}
	tr.Append(llm.UserText("x"), call("c"))
	if !tr.HasCall("c") || tr.HasCall("b") {
		t.Error("a cut and as many more")
	}
	tr.Replace([]llm.Message{call("d")})
	if !tr.HasCall("d") || tr.HasCall("a") || tr.Calls() != 1 {
		t.Error("after a compaction")
	}
}
