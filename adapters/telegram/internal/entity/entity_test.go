package entity_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/adapters/telegram/internal/entity"
	"hermesd/gateway/chat"
)

func styled(t *testing.T, r chat.RichText) string {
	t.Helper()
	_, es := entity.Render(r)
	if es == nil {
		return ""
	}
	b, err := json.Marshal(es)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStylesBecomeEntities(t *testing.T) {
	sp := func(from, to int, s chat.Style, arg ...string) chat.Span {
		return chat.Span{Start: from, End: to, Style: s, Arg: strings.Join(arg, "")}
	}
	for _, c := range []struct {
		name  string
		text  string
		spans []chat.Span
		want  string
	}{
		{"none", "abc", nil, ""},
		{"behind an emoji", "😀 bold", []chat.Span{sp(5, 9, chat.Bold)}, `[{"type":"bold","offset":3,"length":4}]`},
		{"nested", "abcd", []chat.Span{sp(0, 4, chat.Bold), sp(1, 2, chat.Italic)}, `[{"type":"bold","offset":0,"length":4},{"type":"italic","offset":1,"length":1}]`},
		{"language", "x=1", []chat.Span{sp(0, 3, chat.CodeBlock, "go")}, `[{"type":"pre","offset":0,"length":3,"language":"go"}]`},
		{"nothing around code", "a b c", []chat.Span{sp(0, 5, chat.Bold), sp(2, 3, chat.Code)}, `[{"type":"bold","offset":0,"length":2},{"type":"bold","offset":3,"length":2},{"type":"code","offset":2,"length":1}]`},
		{"nothing inside code", "abc", []chat.Span{sp(0, 3, chat.CodeBlock), sp(1, 2, chat.Bold), sp(1, 2, chat.Code)}, `[{"type":"pre","offset":0,"length":3}]`},
		{"code in a link gives way", "abc", []chat.Span{sp(0, 3, chat.Link, "https://x.org"), sp(0, 3, chat.Code)}, `[{"type":"text_link","offset":0,"length":3,"url":"https://x.org"}]`},
		{"a link inside code", "a b c", []chat.Span{sp(0, 5, chat.CodeBlock), sp(2, 3, chat.Link, "https://x.org")}, `[{"type":"pre","offset":0,"length":5}]`},
		{"a link nobody can follow", "abc", []chat.Span{sp(0, 3, chat.Link, "javascript:1"), sp(0, 3, chat.Code)}, `[{"type":"code","offset":0,"length":3}]`},
		{"quotation in a quotation", "abc", []chat.Span{sp(0, 3, chat.BlockQuote), sp(1, 2, chat.BlockQuote)}, `[{"type":"blockquote","offset":0,"length":3}]`},
		{"code in a quotation", "abc", []chat.Span{sp(0, 3, chat.BlockQuote), sp(1, 2, chat.Code)}, `[{"type":"blockquote","offset":0,"length":3},{"type":"code","offset":1,"length":1}]`},
		{"out of the text", "abc", []chat.Span{sp(-1, 2, chat.Bold), sp(2, 9, chat.Bold), sp(2, 2, chat.Bold)}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, styled(t, chat.RichText{Text: c.text, Spans: c.spans})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTextThatIsNotUTF8GoesPlain(t *testing.T) {
	text, es := entity.Render(chat.RichText{Text: "a\xffb", Spans: []chat.Span{{Start: 0, End: 3, Style: chat.Bold}}})
	if text != "a\uFFFDb" || es != nil {
		t.Errorf("%q %v", text, es)
	}
}

// TestEntitiesAreAlwaysAllowed: whatever the spans, the entities lie on
// characters, in the text, and nothing overlaps code.
func TestEntitiesAreAlwaysAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \n😀é漢")), 1, 30, -1).Draw(t, "text")
		var cuts []int
		for i := range text {
			cuts = append(cuts, i)
		}
		cuts = append(cuts, len(text))
		spans := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chat.Span {
			a, b := rapid.SampledFrom(cuts).Draw(t, "a"), rapid.SampledFrom(cuts).Draw(t, "b")
			return chat.Span{
				Start: min(a, b), End: max(a, b), Arg: "https://x.org/",
				Style: rapid.SampledFrom([]chat.Style{chat.Bold, chat.Italic, chat.Code, chat.CodeBlock, chat.Link, chat.BlockQuote}).Draw(t, "style"),
			}
		}), 0, 6).Draw(t, "spans")
		got, es := entity.Render(chat.RichText{Text: text, Spans: spans})
		if got != text {
			t.Fatalf("text changed: %q", got)
		}
		u := utf16.Encode([]rune(text))
		for i, e := range es {
			if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > len(u) {
				t.Fatalf("entity %+v outside %d units", e, len(u))
			}
			if s := string(utf16.Decode(u[e.Offset : e.Offset+e.Length])); strings.Contains(s, "\uFFFD") || !utf8.ValidString(s) {
				t.Fatalf("entity %+v cuts a character: %q", e, s)
			}
			for _, o := range es[i+1:] {
				overlap := e.Offset < o.Offset+o.Length && o.Offset < e.Offset+e.Length
				code := func(s string) bool { return s == "code" || s == "pre" }
				if overlap && (code(e.Type) && o.Type != "blockquote" || code(o.Type) && e.Type != "blockquote") {
					t.Fatalf("%+v overlaps code %+v", e, o)
				}
				if overlap && e.Type == o.Type && (e.Type == "text_link" || e.Type == "blockquote") {
					t.Fatalf("%+v inside its own kind %+v", o, e)
				}
			}
		}
	})
}

func TestUnitsCountUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if got, want := entity.Units(s), len(utf16.Encode([]rune(s))); got != want {
			t.Fatalf("Units(%q) = %d, want %d", s, got, want)
		}
	})
}

func TestCutEndsAtARune(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"ab😀c", 3, "ab"}, {"ab😀c", 4, "ab😀"}, {"ab", 5, "ab"}, {"é", 0, ""}} {
		if got := entity.Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
