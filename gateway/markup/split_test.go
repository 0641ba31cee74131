package markup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// marked is the measure of a platform whose markup counts: each style and each link
// target adds to the size.
func marked(r chat.RichText) int {
	n := utf8.RuneCountInString(r.Text)
	for _, s := range r.Spans {
		n += 4 + utf8.RuneCountInString(s.Arg)
		if s.Style == chat.CodeBlock {
			n += 4
		}
	}
	return n
}

var sizes = map[string]func(chat.RichText) int{
	"utf16":  utf16Units,
	"runes":  runes,
	"bytes":  func(r chat.RichText) int { return len(r.Text) },
	"marked": marked,
}

func TestSplit(t *testing.T) {
	pre := func(s string) string { return "```go\n" + s + "\n```" }
	for _, c := range []struct {
		name, md string
		limit    int
		want     []string
	}{
		{"nothing", "", 10, nil},
		{"blank", "&nbsp; &nbsp;", 1, nil},
		{"fits", "*a*\n\nb", 10, []string{"{i|a}\n\nb"}},
		{"at a paragraph", "aaaa aa\n\nbb bb\ncc", 15, []string{"aaaa aa", "bb bb\ncc"}},
		{"at a line", "aaaa\n\naaaa bb bb\ncc cc", 18, []string{"aaaa\n\naaaa bb bb", "cc cc"}},
		{"at a sentence", "aa aaaaa. bb bb cc", 14, []string{"aa aaaaa.", "bb bb cc"}},
		{"at an East Asian sentence", "一二三四五六。七八九十", 9, []string{"一二三四五六。", "七八九十"}},
		{"at a space", "aaaa bbb cccc", 10, []string{"aaaa bbb", "cccc"}},
		{"not in the first half", "a\n\nbbbbbbbbbbbbbbb", 10, []string{"a\n\nbbbbbbb", "bbbbbbbb"}},
		{"nowhere", "abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"white space at a cut goes", "aaaaaa \n \n\n bb", 8, []string{"aaaaaa", "bb"}},
		{"indentation stays", "- aaaaaa\n  - bb", 10, []string{"• aaaaaa", "  ◦ bb"}},
		{"style goes on", "**aaaa bbbb**", 6, []string{"{b|aaaa}", "{b|bbbb}"}},
		{"styles go on", "**aaaa *bbbb cccc***", 6, []string{"{b|aaaa}", "{b|{i|bbbb}}", "{b|{i|cccc}}"}},
		{"fence is reopened", pre("aaaa\n  bbbb\ncccc"), 12, []string{"{p=go|aaaa\n  bbbb}", "{p=go|cccc}"}},
		{"fence keeps its indentation", pre("aaaaaa\n  bb\n  cc"), 8, []string{"{p=go|aaaaaa}", "{p=go|  bb}", "{p=go|  cc}"}},
		{"before a fence", "aaaa aa\n" + pre("b\n\nb\nb\nb"), 14, []string{"aaaa aa", "{p=go|b\n\nb\nb\nb}"}},
		{"behind a fence", pre("aaaaaa") + "\nbb bb bb", 13, []string{"{p=go|aaaaaa}", "bb bb bb"}},
		{"quote goes on", "> aaaa\n> bbbb", 6, []string{"{q|aaaa}", "{q|bbbb}"}},
		{"before a link", "aaa aaa [b b b](https://e.x)", 10, []string{"aaa aaa", "{a=https://e.x|b b b}"}},
		{"before a link in the first half", "aa [bb bb bb bb](https://e.x)", 12, []string{"aa", "{a=https://e.x|bb bb bb bb}"}},
		{"behind a link", "[aa\naa aa](https://e.x)bb bb", 10, []string{"{a=https://e.x|aa\naa aa}bb", "bb"}},
		{"long link", "aa [bb bb bb bb](https://e.x)", 7, []string{"aa {a=https://e.x|bb}", "{a=https://e.x|bb bb}", "{a=https://e.x|bb}"}},
		{"before inline code", "aaa `b b b`", 8, []string{"aaa", "{c|b b b}"}},
		{"long inline code", "`aaa bbb`", 4, []string{"{c|aaa}", "{c|bbb}"}},
		{"grapheme", "aa👩‍👩‍👧‍👧bb", 12, []string{"aa", "👩‍👩‍👧‍👧b", "b"}},
		{"flags", "🇩🇪🇫🇷🇮🇹", 9, []string{"🇩🇪🇫🇷", "🇮🇹"}},
		{"combining mark on a space", "aaaaa \u0301bbb", 7, []string{"aaaaa \u0301", "bbb"}},
		{"grapheme over the limit", "👩‍👩‍👧‍👧", 5, []string{"👩‍👩", "\u200d", "👧\u200d👧"}},
		{"rune over the limit", "a👩b", 1, []string{"a", "👩", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range markup.Split(markup.Parse(c.md), c.limit, utf16Units) {
				got = append(got, show(p))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// If markup counts, a link whose target exceeds the limit becomes text, and the rest
// keeps its styles.
func TestSplitDropsTooLongLink(t *testing.T) {
	r := markup.Parse("**a [b](https://e.x/" + strings.Repeat("x", 100) + ") c**")
	var got []string
	for _, p := range markup.Split(r, 50, marked) {
		got = append(got, show(p))
	}
	if diff := cmp.Diff([]string{"{b|a}", "{b|b c}"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Split terminates with a measure that is not monotone or always too large.
func TestSplitTerminatesWithAnyMeasure(t *testing.T) {
	r := markup.Parse(repeat(answer, 5000))
	n := 0
	for name, size := range map[string]func(chat.RichText) int{
		"always too long": func(chat.RichText) int { return 99 },
		"odd":             func(r chat.RichText) int { return len(r.Text) % 97 },
		"random":          func(r chat.RichText) int { n = n*1103515245 + 12345; return n >> 16 & 31 },
	} {
		pieces := markup.Split(r, 10, size)
		if got, want := squeeze(join(pieces)), squeeze(r.Text); got != want {
			t.Errorf("%s: text changed: %s", name, cmp.Diff(want, got))
		}
	}
}

func join(pieces []chat.RichText) string { return concat(pieces...).Text }

// squeeze removes all white space.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// styles returns the styles of each rune that is not white space.
func styles(r chat.RichText) []string {
	var all []string
	var open []string
	markup.Walk(r, markup.Visitor{
		Open:  func(s chat.Span) { open = append(open, string(s.Style)+s.Arg) },
		Close: func(chat.Span) { open = open[:len(open)-1] },
		Text: func(s string) {
			for range squeezeRunes(s) {
				all = append(all, strings.Join(open, ","))
			}
		},
	})
	return all
}

func squeezeRunes(s string) []rune { return []rune(squeeze(s)) }

// soundPieces checks the guarantees of Split.
func soundPieces(r chat.RichText, pieces []chat.RichText, limit int, size func(chat.RichText) int) error {
	for i, p := range pieces {
		if err := check(p); err != nil {
			return fmt.Errorf("piece %d: %w", i, err)
		}
		if squeeze(p.Text) == "" {
			return fmt.Errorf("piece %d is blank", i)
		}
		plain := chat.PlainText(p.Text)
		if size(p) > limit && (len(p.Spans) > 0 || utf8.RuneCountInString(plain.Text) > 1) {
			return fmt.Errorf("piece %d has size %d over %d: %q", i, size(p), limit, p.Text)
		}
	}
	if got, want := squeeze(join(pieces)), squeeze(r.Text); got != want {
		return fmt.Errorf("text changed: %s", cmp.Diff(want, got))
	}
	return nil
}

func TestSplitIsSound(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := markup.Parse(markdown().Draw(t, "md"))
				limit := rapid.IntRange(1, 80).Draw(t, "limit")
				if err := soundPieces(r, markup.Split(r, limit, size), limit, size); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// If the limit is large enough for the styles, each rune keeps its styles.
func TestSplitKeepsStyles(t *testing.T) {
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := markup.Parse(markdown().Draw(t, "md"))
				limit := rapid.IntRange(100, 160).Draw(t, "limit")
				got := styles(concat(markup.Split(r, limit, size)...))
				if diff := cmp.Diff(styles(r), got); diff != "" {
					t.Fatalf("styles changed: %s", diff)
				}
			})
		})
	}
}

// No cut is inside a link, inline code or a grapheme that fits.
func TestSplitKeepsAtomsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := markup.Parse(markdown().Draw(t, "md"))
		const limit = 60
		pieces := markup.Split(r, limit, utf16Units)
		count := func(rs ...chat.RichText) (n int) {
			for _, r := range rs {
				for _, s := range r.Spans {
					atom := s.Style == chat.Link || s.Style == chat.Code
					if atom && squeeze(r.Text[s.Start:s.End]) != "" && !nestedAtom(r, s) && utf16Units(markup.Slice(r, s.Start, s.End)) <= limit {
						n++
					}
				}
			}
			return n
		}
		if big := slices.ContainsFunc(r.Spans, func(s chat.Span) bool {
			return (s.Style == chat.Link || s.Style == chat.Code) && s.End-s.Start > limit
		}); big {
			return
		}
		if got, want := count(pieces...), count(r); got != want {
			t.Fatalf("%d links and codes became %d", want, got)
		}
		if err := clustersWhole(r.Text, pieces, limit); err != nil {
			t.Fatal(err)
		}
	})
}

// nestedAtom reports whether s is inside another link or inline code.
func nestedAtom(r chat.RichText, s chat.Span) bool {
	return slices.ContainsFunc(r.Spans, func(o chat.Span) bool {
		return o != s && (o.Style == chat.Link || o.Style == chat.Code) && o.Start <= s.Start && o.End >= s.End
	})
}

// clustersWhole checks that each piece begins at a cluster boundary of the text.
func clustersWhole(text string, pieces []chat.RichText, limit int) error {
	starts := map[int]bool{0: true}
	at := 0
	for g := uniseg.NewGraphemes(text); g.Next(); {
		at += len(g.Str())
		starts[at] = true
		if len(g.Str()) > limit {
			return nil // may be cut
		}
	}
	at = 0
	for _, p := range pieces {
		k := strings.Index(text[at:], p.Text)
		if k < 0 || squeeze(text[at:at+k]) != "" {
			return fmt.Errorf("piece %q does not follow at %d of %q", p.Text, at, text)
		}
		if at += k; !starts[at] {
			return fmt.Errorf("a cluster is cut at %d of %q", at, text)
		}
		at += len(p.Text)
	}
	return nil
}

func FuzzSplit(f *testing.F) {
	f.Add(answer, 40, 0)
	f.Add("a [b](https://e.x) `c`", 3, 3)
	names := []string{"utf16", "runes", "bytes", "marked"}
	f.Fuzz(func(t *testing.T, md string, limit, measure int) {
		if limit < 1 || limit > 10000 || len(md) > 10000 {
			return
		}
		size := sizes[names[uint(measure)%uint(len(names))]]
		r := markup.Parse(md)
		if err := soundPieces(r, markup.Split(r, limit, size), limit, size); err != nil {
			t.Fatal(err)
		}
	})
}
