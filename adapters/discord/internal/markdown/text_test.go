package markdown_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hermesd/adapters/discord/internal/markdown"
	"hermesd/gateway/chat"
)

// styled makes a text of pieces, each with the styles that stand before it.
func styled(s string, spans ...chat.Span) chat.RichText { return chat.RichText{Text: s, Spans: spans} }

func span(style chat.Style, from, to int, arg ...string) chat.Span {
	return chat.Span{Start: from, End: to, Style: style, Arg: strings.Join(arg, "")}
}

func TestRender(t *testing.T) {
	for _, c := range []struct {
		name string
		r    chat.RichText
		want string
	}{
		{"plain", chat.PlainText("hello"), "hello"},
		{"stars", chat.PlainText("2 * 3 ** 4"), `2 \* 3 \*\* 4`},
		{"underscores in words stay", chat.PlainText("snake_case_name"), "snake_case_name"},
		{"underscores around words", chat.PlainText("_no_ __no__"), `\_no\_ \_\_no\_\_`},
		{"backticks", chat.PlainText("a `b`"), "a \\`b\\`"},
		{"a backslash", chat.PlainText(`C:\*`), `C:\\\*`},
		{"one tilde stays", chat.PlainText("~5 minutes, ~~no~~"), `~5 minutes, \~\~no\~\~`},
		{"one bar stays", chat.PlainText("a|b ||c||"), `a|b \|\|c\|\|`},
		{"heading", chat.PlainText("# one\n## two\n#three"), "\\# one\n\\## two\n#three"},
		{"small text", chat.PlainText("-# x"), `\-# x`},
		{"quotation", chat.PlainText("> x\n>>> y\n>z"), "\\> x\n\\>>> y\n>z"},
		{"a list of dashes stays", chat.PlainText("- a\n- b"), "- a\n- b"},
		{"a list of stars", chat.PlainText("* a"), `\* a`},
		{"a link that is none", chat.PlainText("[a](b)"), `[a\](b)`},
		{"an address stays", chat.PlainText("see https://x.test/a_b_c*d_?q=_1_ now_"), `see https://x.test/a_b_c\*d\_?q=\_1\_ now\_`},
		{"an address with underscores", chat.PlainText("https://x.test/__init__.py"), "https://x.test/__init__.py"},
		{"a mention stays", chat.PlainText("<@12> <@&34> <#56>"), "<@12> <@&34> <#56>"},
		{"an emoji stays", chat.PlainText("<:a_b_:12>"), "<:a_b_:12>"},
		{"html stays", chat.PlainText("<second>"), "<second>"},
		{"bold", styled("a bold b", span(chat.Bold, 2, 6)), "a **bold** b"},
		{"italic", styled("a b", span(chat.Italic, 0, 1)), "*a* b"},
		{"bold and italic", styled("ab", span(chat.Bold, 0, 2), span(chat.Italic, 0, 2)), "**_ab_**"},
		{"italic in bold", styled("abc", span(chat.Bold, 0, 3), span(chat.Italic, 1, 2)), "**a*b*c**"},
		{"strike", styled("ab", span(chat.Strike, 0, 2)), "~~ab~~"},
		{"spoiler", styled("ab", span(chat.Spoiler, 0, 2)), "||ab||"},
		{"white space stays outside", styled("a b c", span(chat.Bold, 1, 4)), "a **b** c"},
		{"nothing but white space", styled("a  b", span(chat.Bold, 1, 3)), "a  b"},
		{"twice the same style", styled("abc", span(chat.Bold, 0, 3), span(chat.Bold, 1, 2)), "**abc**"},
		{"code", styled("run a*b now", span(chat.Code, 4, 7)), "run `a*b` now"},
		{"code with a backtick", styled("a`b", span(chat.Code, 0, 3)), "`` a`b ``"},
		{"a block", styled("x\nint a;\ny", span(chat.CodeBlock, 2, 8, "go")), "x\n```go\nint a;\n```\ny"},
		{"a block at the end of a line", styled("x code", span(chat.CodeBlock, 2, 6)), "x \n```\ncode\n```"},
		{"a block with a fence", styled("a```b", span(chat.CodeBlock, 0, 5)), "```\na`\u200b``b\n```"},
		{"a block of a strange language", styled("a", span(chat.CodeBlock, 0, 1, "a b`")), "```\na\n```"},
		{"a link", styled("see this now", span(chat.Link, 4, 8, "https://x.test/")), "see [this](<https://x.test/>) now"},
		{"a link to itself", styled("https://x.test/", span(chat.Link, 0, 15, "https://x.test/")), "https://x.test/"},
		{"a link named like another", styled("https://a.test", span(chat.Link, 0, 14, "https://b.test/")), "https://a.test (<https://b.test/>)"},
		{"a link that Discord does not follow", styled("mail", span(chat.Link, 0, 4, "mailto:a@b.test")), "mail"},
		{"a link that would break out", styled("a", span(chat.Link, 0, 1, "https://x.test/>)[b](")), "a"},
		{"bold in a link", styled("ab", span(chat.Link, 0, 2, "https://x.test/"), span(chat.Bold, 0, 1)), "[**a**b](<https://x.test/>)"},
		{"a quotation", styled("one\ntwo\nthree", span(chat.BlockQuote, 0, 7)), "> one\n> two\nthree"},
		{"a quotation with its line feed", styled("one\ntwo", span(chat.BlockQuote, 0, 4)), "> one\ntwo"},
		{"bold in a quotation", styled("ab\nc", span(chat.BlockQuote, 0, 4), span(chat.Bold, 0, 2)), "> **ab**\n> c"},
		{"code in a quotation", styled("a\nb", span(chat.BlockQuote, 0, 3), span(chat.CodeBlock, 2, 3)), "> a\n> ```\n> b\n> ```"},
		{"a crossing span", styled("abcd", span(chat.Bold, 0, 3), span(chat.Italic, 2, 4)), "**abc**d"},
		{"a span outside the text", styled("ab", span(chat.Bold, 1, 9)), "ab"},
		{"a span inside a character", styled("é", span(chat.Bold, 0, 1)), "é"},
		{"broken text", chat.PlainText("a\xffb"), "a\ufffdb"},
	} {
		if got := markdown.Render(c.r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Nothing that people write is lost or made of nothing, whatever the styles.
func TestRenderKeepsTheWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,5}|[*_~|#>\x60-]{1,3}|[é漢😀]| |\n`), 1, 30).Draw(t, "words")
		var s string
		var at []int
		for _, w := range words {
			at = append(at, len(s))
			s += w
		}
		at = append(at, len(s))
		r := chat.RichText{Text: s}
		for range rapid.IntRange(0, 6).Draw(t, "spans") {
			i := rapid.IntRange(0, len(at)-2).Draw(t, "from")
			j := rapid.IntRange(i+1, len(at)-1).Draw(t, "to")
			style := rapid.SampledFrom([]chat.Style{chat.Bold, chat.Italic, chat.Strike, chat.Code, chat.CodeBlock, chat.Link, chat.BlockQuote, chat.Spoiler}).Draw(t, "style")
			r.Spans = append(r.Spans, chat.Span{Start: at[i], End: at[j], Style: style, Arg: "https://x.test"})
		}
		got := markdown.Render(r)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no text", got)
		}
		letters := func(s string) string {
			s = strings.ReplaceAll(s, "https://x.test", "")
			return strings.Map(func(r rune) rune {
				if r >= 'a' && r <= 'z' || r > 0x7f && r != 0x200b {
					return r
				}
				return -1
			}, s)
		}
		if letters(got) != letters(s) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 2, "ab"}, {"abc", 3, "abc"}, {"é漢😀", 2, "é漢"}, {"", 0, ""}, {"a", 0, ""}} {
		if got := markdown.Cut(c.s, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("a *b* `c`\n> d", 0, 5, "b")
	f.Fuzz(func(t *testing.T, s string, from, to int, style string) {
		got := markdown.Render(chat.RichText{Text: s, Spans: []chat.Span{{Start: from, End: to, Style: chat.Style(style), Arg: s}}})
		if !utf8.ValidString(got) {
			t.Errorf("%q is no text", got)
		}
	})
}
