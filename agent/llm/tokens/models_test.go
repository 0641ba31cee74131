package tokens_test

import (
	"strings"
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

func TestTableUsesLongestKey(t *testing.T) {
	tab := tokens.Builtin()
	if tab.Date == "" || tab.Source == "" {
		t.Error("the table does not say when and where it was looked up")
	}
	for model, want := range map[string]int{
		"claude-opus-4-8": 1_000_000, "anthropic/claude-opus-4.8": 1_000_000, "claude-haiku-4-5-20251001": 200_000, "claude-3-5-sonnet": 200_000,
		"gpt-5.4-mini": 400_000, "gpt-5.4": 1_050_000, "openai/GPT-5": 400_000, "gpt-4.1-mini": 1_047_576, "gpt-4o": 128_000,
		"google/gemma-3-27b": 131_072, "gemma-2": 8192, "qwen/qwen3-coder-plus": 1_000_000, "moonshotai/kimi-k2": 262_144, "grok-4-fast": 2_000_000,
	} {
		if got, ok := tab.Context(model); got != want || !ok {
			t.Errorf("%s: got %d, want %d", model, got, want)
		}
	}
	if _, ok := tab.Context("unheard-of"); ok {
		t.Error("an unknown model is known")
	}
	for model, want := range map[string]int{
		"claude-opus-4-8": 1024, "claude-opus-4.6": 4096, "claude-sonnet-4-6": 2048, "claude-haiku-4-5": 4096, "claude-3-haiku-20240307": 2048, "gpt-5": 1024,
	} {
		if got := tab.MinCache(model); got != want {
			t.Errorf("min_cache of %s: got %d, want %d", model, got, want)
		}
	}
}

func TestTableOverrides(t *testing.T) {
	tab, err := tokens.Builtin().With(strings.NewReader(`{"date":"d","source":"mine","context":{"Claude-Opus-4.8":500000,"mine":9000},"min_cache":{"mine":512}}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{"claude-opus-4-8": 500_000, "mine-7b": 9000, "claude-3": 200_000} {
		if got, _ := tab.Context(model); got != want {
			t.Errorf("%s: got %d, want %d", model, got, want)
		}
	}
	if tab.MinCache("mine") != 512 {
		t.Error("min_cache was not taken")
	}
	for _, bad := range []string{`{`, `{"contxt":{}}`, `{"context":{"a":0}}`, `{"context":{"a":-5}}`, `{"context":{"a":"256K"}}`, `{"context":{"a":99999999}}`, `{"min_cache":{"a":0}}`} {
		if _, err := tokens.Builtin().With(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestResolveSources(t *testing.T) {
	learned := tokens.NewLearnedLengths(map[string]int{"claude-3@u": 150_000, "bad@u": 3})
	for _, c := range []struct {
		q    tokens.Query
		want int
		from tokens.Source
	}{
		{tokens.Query{Model: "claude-3", BaseURL: "u", Config: 1, Custom: 2}, 1, tokens.FromConfig},
		{tokens.Query{Model: "claude-3", BaseURL: "u", Custom: 2}, 2, tokens.FromCustom},
		{tokens.Query{Model: "claude-3", BaseURL: "u/"}, 150_000, tokens.FromProvider},
		{tokens.Query{Model: "claude-3", BaseURL: "u", Service: 4096}, 150_000, tokens.FromProvider},
		{tokens.Query{Model: "claude-3", BaseURL: "v", Service: 4096}, 4096, tokens.FromService},
		{tokens.Query{Model: "claude-3", BaseURL: "v"}, 200_000, tokens.FromTable},
		{tokens.Query{Model: "bad", BaseURL: "u"}, tokens.DefaultContext, tokens.FromFallback},
	} {
		if got, from := tokens.Builtin().Resolve(c.q, learned); got != c.want || from != c.from {
			t.Errorf("%+v: got %d from %q", c.q, got, from)
		}
	}
	if n, _ := tokens.Builtin().Resolve(tokens.Query{Model: "claude-3"}, nil); n != 200_000 {
		t.Errorf("without anything learned: %d", n)
	}
}

func TestLearnedLimitsFromErrors(t *testing.T) {
	l := tokens.NewLearnedLengths(nil)
	e := llm.Classify(llm.ErrorResponse{Status: 400, Body: []byte(`{"error":{"message":"This model's maximum context length is 65,536 tokens. However, your messages resulted in 70000 tokens."}}`)})
	if e.Limit != 65_536 {
		t.Fatalf("the refusal names %d", e.Limit)
	}
	steps := []struct {
		limit, current int
		noted          bool
		known          int
	}{
		{e.Limit, 128_000, true, 65_536},
		{e.Limit, 65_536, false, 65_536}, // not lower
		{200_000, 65_536, false, 65_536}, // higher
		{0, 65_536, false, 65_536},       // none named
		{512, 65_536, false, 65_536},     // implausible
		{32_768, 65_536, true, 32_768},
	}
	for i, s := range steps {
		noted := l.SetFromError("m", "u", s.limit, s.current)
		if got, _ := l.Context("m", "u"); noted != s.noted || got != s.known {
			t.Errorf("step %d: noted %v, known %d", i, noted, got)
		}
	}
	if !l.SetReported("m", "u", 100_000) || l.SetReported("m", "u", 100_000) || l.SetReported("m", "u", -1) {
		t.Error("what a list of models says is not taken as it should")
	}
	again := tokens.NewLearnedLengths(l.All())
	if n, ok := again.Context("m", "u"); n != 100_000 || !ok {
		t.Errorf("after a restart: %d", n)
	}
}

func TestLearnedLimitSurvivesSameReport(t *testing.T) {
	l := tokens.NewLearnedLengths(nil)
	l.SetReported("m", "u", 200_000)
	l.SetFromError("m", "u", 150_000, 200_000)
	l = tokens.NewLearnedLengths(l.All()) // the next start, at which the model list is fetched again
	if l.SetReported("m", "u", 200_000) {
		t.Error("the same is told as news")
	}
	if n, _ := l.Context("m", "u"); n != 150_000 {
		t.Errorf("%d: a request of that length was refused before", n)
	}
	l.SetReported("m", "u", 100_000) // the server's configuration changed
	if n, _ := l.Context("m", "u"); n != 100_000 {
		t.Errorf("%d, though the server says otherwise now", n)
	}
}

func FuzzTable(f *testing.F) {
	f.Add(`{"context":{"a":5000}}`)
	f.Fuzz(func(t *testing.T, s string) {
		tab, err := tokens.Builtin().With(strings.NewReader(s))
		if err != nil {
			return
		}
		if n, ok := tab.Context("claude-opus-4-8"); !ok || n < 1024 {
			t.Errorf("%s: %d", s, n)
		}
	})
}
