package tool_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

type input struct {
	Path  string `json:"path"`
	Limit int    `json:"limit"`
}

func named(name, schema string) tool.Tool {
	return tool.New(tool.Spec{Tool: llm.Tool{Name: name, Schema: json.RawMessage(schema)}, Effect: tool.Pure},
		func(_ context.Context, _ tool.Call, in input) (string, error) {
			return in.Path + strings.Repeat("!", in.Limit), nil
		})
}

const object = `{"type":"object"}`

func TestSetIsOrderedByName(t *testing.T) {
	s, err := tool.NewSet(named("c", object), named("a", object), named("b", object))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "b", "c"}
	if d := cmp.Diff(want, s.Names()); d != "" {
		t.Error(d)
	}
	var told []string
	for _, l := range s.Tools() {
		told = append(told, l.Name)
	}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	for _, n := range want {
		if got, ok := s.Lookup(n); !ok || got.Spec().Name != n {
			t.Errorf("%s is not found", n)
		}
	}
	for _, n := range []string{"", "aa", "d", "A"} {
		if _, ok := s.Lookup(n); ok {
			t.Errorf("%q is found", n)
		}
	}
}

func TestNewSetRejectsInvalidTools(t *testing.T) {
	for name, tools := range map[string][]tool.Tool{
		"is not valid":       {named("look around", object)},
		`"" is not valid`:    {named("", object)},
		"called \"a\"":       {named("a", object), named("b", object), named("a", object)},
		"schema of list":     {named("list", `{"type":"array"}`)},
		"schema of nothing":  {named("nothing", ``)},
		"schema of cut":      {named("cut", `{"type":`)},
		"schema of unstated": {named("unstated", `{}`)},
	} {
		if _, err := tool.NewSet(tools...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}

func TestNewDecodesInput(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"x","limit":2}`:           "x!!",
		`{"path":"x","other":[1,{}]}`:      "x",
		`{}`:                               "",
		`{"path":"x","limit":"2"}`:         `error: the argument "limit" does not take a string`,
		`{"path":["x"]}`:                   `error: the argument "path" does not take a array`,
		`{"limit":1.5}`:                    `error: the argument "limit" does not take a number 1.5`,
		`[1]`:                              "error: the arguments do not fit: ",
		`{"path":`:                         "error: the arguments do not fit: ",
		`{"path":null,"limit":null,"a":1}`: "",
	} {
		got, err := named("x", object).Run(t.Context(), tool.Call{Input: json.RawMessage(in)})
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(err != nil && strings.HasSuffix(want, ": ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestTruncateKeepsBeginningAndEnd(t *testing.T) {
	text := "FIRST line\n" + strings.Repeat("middle line\n", 1000) + "LAST line"
	got := tool.Truncate(text, 1000)
	if !strings.HasPrefix(got, "FIRST line\n") || !strings.HasSuffix(got, "\nLAST line") {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(got, "characters left out here …]\n\nmiddle line\n") || !strings.Contains(got, "middle line\n\n[… ") {
		t.Errorf("lines are cut: %q", got)
	}
	if got := tool.Truncate("short", 5); got != "short" {
		t.Errorf("what fits became %q", got)
	}
}

func TestTruncateObservesLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "中\n", "a b\n", "\xff"}).Draw(r, "piece"), rapid.IntRange(0, 2000).Draw(r, "n"))
		limit := rapid.IntRange(0, 3000).Draw(r, "limit")
		got := tool.Truncate(text, limit)
		n := utf8.RuneCountInString(got)
		if n > limit {
			r.Fatalf("%d characters, want at most %d", n, limit)
		}
		if utf8.RuneCountInString(text) <= limit && got != text {
			r.Fatal("what fits was changed")
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			r.Fatal("a character was cut")
		}
	})
}

func TestFairShareUsesTotal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 500), 0, 20).Draw(r, "sizes")
		total := rapid.IntRange(0, 3000).Draw(r, "total")
		sum := func(limit int) (n int) {
			for _, s := range sizes {
				n += min(s, limit)
			}
			return n
		}
		before := slices.Clone(sizes)
		limit := tool.FairShare(sizes, total)
		if sum(limit) > total {
			r.Fatalf("limit %d: %d in all, want at most %d", limit, sum(limit), total)
		}
		if sum(limit) < sum(1<<30) && sum(limit+1) <= total {
			r.Fatalf("limit %d leaves room", limit)
		}
		if d := cmp.Diff(before, sizes); d != "" {
			r.Fatal(d)
		}
	})
}

func TestInputSummary(t *testing.T) {
	for input, want := range map[string]string{
		`{"query":"trains"}`:                         "`trains`",
		`{"n":1,"command":"ls\n  -l ` + "`x`" + `"}`: "`ls -l 'x'`",
		`{"path":"","url":"https://a"}`:              "`https://a`",
		`{"path":"` + strings.Repeat("ä", 61) + `"}`: "`" + strings.Repeat("ä", 60) + "…`",
		`{"n":1}`: "", `[`: "", ``: "",
	} {
		if got := tool.InputSummary([]byte(input)); got != want {
			t.Errorf("%s is %s, want %s", input, got, want)
		}
	}
}
