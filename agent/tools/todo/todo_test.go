package todo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/agent/tools/todo"
)

// A talk is a transcript in which the tool is used as by an agent.
type talk struct {
	t  *llm.Transcript
	id int
}

func newTalk() *talk { return &talk{t: llm.NewTranscript(llm.UserText("go"))} }

// answer makes calls in one answer of the model, and returns their results.
func (k *talk) answer(inputs ...string) []string {
	var m llm.Message
	m.Role = llm.Assistant
	for _, in := range inputs {
		k.id++
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.ToolUse, ID: fmt.Sprint("c", k.id), Name: todo.Name, Input: json.RawMessage(in)})
	}
	k.t.Append(m)
	results := llm.Message{Role: llm.User}
	var out []string
	for _, c := range m.Blocks {
		text, err := todo.New().Run(context.Background(), tool.Call{ID: c.ID, Input: c.Input, Transcript: k.t})
		b := llm.Block{Type: llm.ToolResult, ID: c.ID, Text: text}
		if err != nil {
			b.Text, b.Failed = "Error: "+err.Error(), true
		}
		results.Blocks = append(results.Blocks, b)
		out = append(out, b.Text)
	}
	k.t.Append(results)
	return out
}

func TestTodoSpec(t *testing.T) {
	if _, err := tool.NewSet(todo.New()); err != nil {
		t.Error(err)
	}
	if s := todo.New().Spec(); s.Effect != tool.Idempotent || s.Parallel || s.Description == "" {
		t.Errorf("%+v", s)
	}
}

func TestTodoWriteMergeRead(t *testing.T) {
	k := newTalk()
	for _, step := range []struct{ in, want string }{
		{`{}`, "Todo list: 0 items, 0 completed, 0 in progress, 0 pending, 0 cancelled"},
		{
			`{"todos":[{"id":"a","content":"write  the\ncode"},{"id":"b","content":"test | it","status":"in_progress"}]}`,
			"Todo list: 2 items, 0 completed, 1 in progress, 1 pending, 0 cancelled\n[ ] a | write the code\n[>] b | test | it",
		},
		{
			`{"merge":true,"todos":[{"id":"b","status":"completed"},{"id":"c","content":"rest"},{"id":"a","content":"write code","status":"cancelled"}]}`,
			"Todo list: 3 items, 1 completed, 0 in progress, 1 pending, 1 cancelled\n[~] a | write code\n[x] b | test | it\n[ ] c | rest",
		},
		{`{}`, "Todo list: 3 items, 1 completed, 0 in progress, 1 pending, 1 cancelled\n[~] a | write code\n[x] b | test | it\n[ ] c | rest"},
		{`{"todos":[{"id":"x","content":"y"},{"id":"x","content":"z"}]}`, "Error: two items have the id x"},
		{`{"merge":true,"todos":[{"id":"new"}]}`, "Error: item new is new and needs a content"},
		{`{"todos":[{"id":"a b","content":"y"}]}`, "Error: item 1 needs an id without spaces"},
		{`{"todos":[{"content":"y"}]}`, "Error: item 1 needs an id without spaces"},
		{`{"todos":[{"id":"a","content":"y","status":"done"}]}`, `Error: item a has the status "done"; use pending, in_progress, completed or cancelled`},
		{`{"todos":[{"id":"a","content":"` + strings.Repeat("y", 301) + `"}]}`, "Error: the content of item a has more than 300 characters"},
		{`{"todos":"all"}`, `Error: the argument "todos" does not take a string`},
		{`{"merge":true,"todos":[{"id":"c","status":"completed"}]}`, "Todo list: 3 items, 2 completed, 0 in progress, 0 pending, 1 cancelled\n[~] a | write code\n[x] b | test | it\n[x] c | rest"},
		{`{"todos":[]}`, "Todo list: 0 items, 0 completed, 0 in progress, 0 pending, 0 cancelled"},
	} {
		if d := cmp.Diff(step.want, k.answer(step.in)[0]); d != "" {
			t.Errorf("%s: %s", step.in, d)
		}
	}
}

func TestTodoCallsOfOneAnswer(t *testing.T) {
	k := newTalk()
	got := k.answer(
		`{"todos":[{"id":"a","content":"one"}]}`,
		`{"merge":true,"todos":[{"id":"a","status":"nonsense"}]}`,
		`{"merge":true,"todos":[{"id":"b","content":"two"}]}`,
		`{"merge":true,"todos":[{"id":"a","status":"completed"}]}`)
	if want := "Todo list: 2 items, 1 completed, 0 in progress, 1 pending, 0 cancelled\n[x] a | one\n[ ] b | two"; got[3] != want {
		t.Errorf("got %q", got)
	}
}

func TestTodoRejectsIncompleteList(t *testing.T) {
	k := newTalk()
	k.answer(`{"todos":[{"id":"a","content":"one"},{"id":"b","content":"two"}]}`)
	r := &k.t.At(k.t.Len() - 1).Blocks[0]
	r.Text = strings.Replace(r.Text, "[ ] a | one", "[… 11 of 90 characters left out here …]", 1)
	for _, in := range []string{`{}`, `{"merge":true,"todos":[{"id":"a","status":"completed"}]}`} {
		if got := k.answer(in)[0]; !strings.Contains(got, "not whole any more") {
			t.Errorf("got %q", got)
		}
	}
	if got := k.answer(`{"todos":[{"id":"c","content":"x"}]}`)[0]; !strings.HasSuffix(got, "[ ] c | x") {
		t.Errorf("got %q", got)
	}
}

func TestTodoIgnoresOtherTools(t *testing.T) {
	k := newTalk()
	k.answer(`{"todos":[{"id":"a","content":"one"}]}`)
	k.t.Append(
		llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: "z", Name: "read_file", Input: json.RawMessage("{}")}}},
		llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: "z", Text: "Todo list: 1 items\n[x] evil | gotcha"}}})
	got, err := todo.Last(k.t)
	if d := cmp.Diff([]todo.Item{{ID: "a", Content: "one", Status: todo.Pending}}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}

// For any input, the list in the result is the list that is read back, and a repeated call
// changes nothing.
func TestTodoRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		k := newTalk()
		for range rapid.IntRange(1, 6).Draw(r, "calls") {
			in := map[string]any{"merge": rapid.Bool().Draw(r, "merge")}
			var items []map[string]string
			for range rapid.IntRange(0, 4).Draw(r, "items") {
				items = append(items, map[string]string{
					"id":      rapid.SampledFrom([]string{"a", "b", "c", "|", "]"}).Draw(r, "id"),
					"content": rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " | ", "[x] a | b", "\n"})).Draw(r, "content"),
					"status":  rapid.SampledFrom([]string{"", "pending", "in_progress", "completed", "cancelled"}).Draw(r, "status"),
				})
			}
			in["todos"] = items
			raw, err := json.Marshal(in)
			if err != nil {
				r.Fatal(err)
			}
			first := k.answer(string(raw))[0]
			if strings.HasPrefix(first, "Error") {
				continue
			}
			found, err := todo.Last(k.t)
			want, err2 := todo.Parse(first)
			if err != nil || err2 != nil {
				r.Fatalf("%q: %v, %v", first, err, err2)
			}
			if d := cmp.Diff(want, found); d != "" {
				r.Fatal(d)
			}
			if second := k.answer(string(raw))[0]; second != first {
				r.Fatalf("twice gives %q, once %q", second, first)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("Todo list: 1 items\n[x] a | b")
	f.Add("Todo list: 0 items")
	f.Add("[x]")
	f.Fuzz(func(t *testing.T, s string) {
		items, err := todo.Parse(s)
		if err == nil && strings.Count(s, "\n") != len(items) {
			t.Errorf("%q gives %d items", s, len(items))
		}
	})
}
