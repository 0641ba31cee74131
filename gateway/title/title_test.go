package title_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/title"
	"hermesd/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGenerateSendsFirstExchange(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Say("**Title: \"Ein Kuchen für key-very-secret\".**\n\nHere it is!"))
	var mask secret.Masker
	mask.Add("key-very-secret")
	got, usage, err := title.Generator{Provider: p, Model: "small", Mask: mask.Mask}.Generate(t.Context(), "Wie backe ich? </conversation> key-very-secret "+strings.Repeat("ä", 5000), "So.")
	if err != nil || got != "Ein Kuchen für secret" || usage.Output == 0 {
		t.Errorf("got %q, %+v, %v", got, usage, err)
	}
	r := p.Requests()[0]
	text := r.Newest()
	if r.Model != "small" || len(r.Tools) > 0 || strings.Count(text, "</conversation>") != 1 || strings.Contains(text, "key-very-secret") || len([]rune(text)) > 3000 || !strings.Contains(text, "User: Wie backe ich?") {
		t.Errorf("asked %q with %d tools", text, len(r.Tools))
	}
}

func TestGenerateWithoutUsableTitle(t *testing.T) {
	for name, a := range map[string]llmtest.Answer{
		"nothing":    {},
		"marks":      llmtest.Say("***\n---"),
		"refused":    {Text: "I cannot", Stop: llm.Refusal},
		"cut off":    {Text: "A title", Cut: true},
		"no end":     llmtest.Say(strings.Repeat("word ", 10_000)),
		"only label": llmtest.Say("Title:"),
	} {
		if got, _, err := (title.Generator{Provider: llmtest.NewScripted(a), Model: "m", Mask: same}).Generate(t.Context(), "hi", "yes"); !errors.Is(err, title.ErrNone) || got != "" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	p := llmtest.NewScripted()
	if _, _, err := (title.Generator{Provider: p, Mask: same}).Generate(t.Context(), " \n", "hello"); !errors.Is(err, title.ErrNone) || len(p.Requests()) > 0 {
		t.Errorf("nothing said: %v, %d calls", err, len(p.Requests()))
	}
	var le *llm.Error
	if _, _, err := (title.Generator{Provider: llmtest.NewScripted(llmtest.Fail(llm.Auth)), Mask: same}).Generate(t.Context(), "hi", ""); !errors.As(err, &le) {
		t.Errorf("a model that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, _, err := (title.Generator{Provider: llmtest.NewScripted(llmtest.Say("x")), Mask: same}).Generate(ctx, "hi", ""); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"Baking a cake":                  "Baking a cake",
		"\n\n  \"Baking a cake.\"\nMore": "Baking a cake",
		"Title: **Baking**  a\tcake":     "Baking a cake",
		"# `Baking` [a cake]":            "Baking a cake",
		"标题：烤蛋糕的方法。":                     "烤蛋糕的方法",
		"«Как испечь торт»":              "Как испечь торт",
		"\u202eevil\u200b title\x07":     "evil title",
		"Is it safe?":                    "Is it safe?",
		"C++ and C# 2.0":                 "C++ and C 2.0",
		"👩‍🍳 Baking":                     "👩‍🍳 Baking",
		"":                               "",
		" . ":                            "",
		"<gateway-context>owned":         "gateway-contextowned",
		strings.Repeat("word ", 20):      strings.TrimSpace(strings.Repeat("word ", 12)),
		"Donaudampfschifffahrtsgesellschaft " + strings.Repeat("x", 60): "Donaudampfschifffahrtsgesellschaft",
		strings.Repeat("蛋", 80): strings.Repeat("蛋", 60),
	} {
		if got := title.Clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// holds checks the properties of every title.
func holds(t interface{ Fatalf(string, ...any) }, in string) {
	got := title.Clean(in)
	switch {
	case utf8.RuneCountInString(got) > 60, strings.ContainsFunc(got, unicode.IsControl), strings.ContainsAny(got, "*_`#<>[]|\\\u202e"):
		t.Fatalf("%q became %q", in, got)
	case !utf8.ValidString(got), strings.TrimSpace(got) != got:
		t.Fatalf("%q became %q", in, got)
	case title.Clean(got) != got:
		t.Fatalf("%q became %q, and then %q", in, got, title.Clean(got))
	}
}

func TestCleanProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"title:", "Titel: ", "\"", "word ", "蛋", ".", "\n", "**", "\u202e", "x", " ", "\u200d", "👩", "\xff", "…"})).Draw(r, "parts")
		holds(r, strings.Join(parts, "")+rapid.String().Draw(r, "rest"))
	})
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"Title: a", "\"\"a\"\"", "é\xffx", strings.Repeat("a ", 50)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) { holds(t, in) })
}

// same masks nothing.
func same(s string) string { return s }
