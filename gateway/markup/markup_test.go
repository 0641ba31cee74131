package markup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

func TestCheck(t *testing.T) {
	spans := func(ends ...int) (s []chat.Span) {
		for i := 0; i < len(ends); i += 2 {
			s = append(s, chat.Span{Start: ends[i], End: ends[i+1], Style: chat.Bold})
		}
		return s
	}
	for _, c := range []struct {
		name  string
		text  string
		spans []chat.Span
		ok    bool
	}{
		{"plain", "abc", nil, true},
		{"disjoint and nested", "abcdef", spans(0, 4, 0, 2, 2, 4, 4, 6), true},
		{"equal", "ab", spans(0, 2, 0, 2), true},
		{"crossing", "abcd", spans(0, 2, 1, 3), false},
		{"inner before outer", "abcd", spans(0, 2, 0, 3), false},
		{"out of order", "abcd", spans(2, 3, 0, 1), false},
		{"empty", "abcd", spans(2, 2), false},
		{"out of range", "abcd", spans(2, 5), false},
		{"negative", "abcd", spans(-1, 2), false},
		{"inside a rune", "é", spans(0, 1), false},
		{"not UTF-8", "\xff", nil, false},
	} {
		if err := check(chat.RichText{Text: c.text, Spans: c.spans}); (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestSlice(t *testing.T) {
	r := markup.Parse("**ab *cd* é** f")
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 99, "{b|ab {i|cd} é} f"},
		{-5, 2, "{b|ab}"},
		{4, 9, "{b|{i|d} é} "},
		{3, 4, "{b|{i|c}}"},
		{0, 7, "{b|ab {i|cd} }"},
		{7, 8, ""},
		{5, 3, ""},
		{9, 10, "f"},
	} {
		got := markup.Slice(r, c.from, c.to)
		if err := check(got); err != nil {
			t.Error(err)
		}
		if show(got) != c.want {
			t.Errorf("Slice(%d, %d) = %s, want %s", c.from, c.to, show(got), c.want)
		}
	}
}

func TestConcatReversesSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := markup.Parse(markdown().Draw(t, "md"))
		at := rapid.IntRange(0, len(r.Text)).Draw(t, "at")
		for at > 0 && at < len(r.Text) && r.Text[at]&0xC0 == 0x80 {
			at--
		}
		both := concat(markup.Slice(r, 0, at), markup.Slice(r, at, len(r.Text)))
		if err := check(both); err != nil {
			t.Fatal(err)
		}
		if both.Text != r.Text {
			t.Fatalf("text changed from %q to %q", r.Text, both.Text)
		}
		if diff := cmp.Diff(styles(r), styles(both)); diff != "" {
			t.Fatalf("styles changed: %s", diff)
		}
	})
}

func TestPlainText(t *testing.T) {
	for _, c := range []struct{ md, want string }{
		{"**a** *b* `c`", "a b c"},
		{"[a](https://e.x/y), [**b**](mailto:x@e.x)", "a (https://e.x/y), b (mailto:x@e.x)"},
		{"https://e.x www.e.x x@e.x [e.x](https://e.x/)", "https://e.x www.e.x x@e.x e.x"},
		{"a\n\n```go\nx := 1\n\ty()\n```\nb", "a\n\nx := 1\n\ty()\nb"},
		{"- a\n- b", "• a\n• b"},
	} {
		if got := markup.PlainText(markup.Parse(c.md)); got != c.want {
			t.Errorf("PlainText(%q) = %q, want %q", c.md, got, c.want)
		}
	}
}
