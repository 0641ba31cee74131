package markup_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// show returns r with its spans written as tags.
func show(r chat.RichText) string {
	var b strings.Builder
	markup.Walk(r, markup.Visitor{
		Open: func(s chat.Span) {
			if s.Arg != "" {
				fmt.Fprintf(&b, "{%s=%s|", s.Style, s.Arg)
			} else {
				fmt.Fprintf(&b, "{%s|", s.Style)
			}
		},
		Text:  func(s string) { b.WriteString(s) },
		Close: func(chat.Span) { b.WriteString("}") },
	})
	return b.String()
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, md, want string }{
		{"nothing", "", ""},
		{"blank", " \n\n\t\n", ""},
		{"plain", "Hello, world", "Hello, world"},
		{"line ends stay", "one\ntwo\r\nthree\rfour", "one\ntwo\nthree\nfour"},
		{"hard breaks", "one  \ntwo\\\nthree", "one\ntwo\nthree"},
		{"paragraphs", "one\n\n\n\ntwo", "one\n\ntwo"},
		{"emphasis", "*i* _i_ **b** __b__ ~~s~~", "{i|i} {i|i} {b|b} {b|b} {s|s}"},
		{"nested emphasis", "***both*** **b *bi* b**", "{i|{b|both}} {b|b {i|bi} b}"},
		{"emphasis twice is emphasis once", "**a **b** c** *x *y* z*", "{b|a b c} {i|x y z}"},
		{"intraword", "snake_case_name 2*3*4", "snake_case_name 2{i|3}4"},
		{"emphasis in Chinese", "**标题：**内容，**“引号”**之后", "{b|标题：}内容，{b|“引号”}之后"},
		{"emphasis in Japanese", "これは**「重要」**です。~~（誤）~~正", "これは{b|「重要」}です。{s|（誤）}正"},
		{"code", "run `go *test*` or ``a ` b``", "run {c|go *test*} or {c|a ` b}"},
		{"code over a line", "`a\nb`", "{c|a b}"},
		{"code in emphasis", "**`x`** [`y`](https://e.x)", "{b|{c|x}} {a=https://e.x|{c|y}}"},
		{"escapes", `\*not\* \[x\](y) \\ \q`, `*not* [x](y) \ \q`},
		{"references", "&amp; &lt;b&gt; &copy; &#65; &#x42; &nosuch; &", "& <b> © A B &nosuch; &"},
		{"references in code stay", "`&amp;`", "{c|&amp;}"},
		{"no control characters by reference", "a&#0;b&#7;c&#x1b;d&#xD800;e", "a\uFFFDbcd\uFFFDe"},
		{"no control characters", "a\x00b\x1b[1mc\x7f\u0085d\xffe", "ab[1mcd\uFFFDe"},
		{"html is text", "<b>x</b> <!-- y -->\n\n<div>\n*z*\n</div>", "<b>x</b> <!-- y -->\n\n<div>\n*z*\n</div>"},
		{"attributes are text", `<a href="_x_" b="*y*">`, `<a href="_x_" b="*y*">`},
		{"rule", "a\n\n***\n\nb", "a\n\n———\n\nb"},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.md, c.want) })
	}
}

func TestParseBlocks(t *testing.T) {
	for _, c := range []struct{ name, md, want string }{
		{"heading", "# A *b*\ntext\n\n### C\n\nmore", "{b|A {i|b}}\ntext\n\n{b|C}\n\nmore"},
		{"underlined heading", "A\n===\nb", "{b|A}\nb"},
		{"bold heading", "## **A**", "{b|A}"},
		{"empty heading", "#\ntext", "text"},
		{"bullets", "a:\n- x\n- y\n\nb", "a:\n• x\n• y\n\nb"},
		{"loose list", "- x\n\n- y", "• x\n\n• y"},
		{"numbers", "3. x\n4. y\n9. z", "3. x\n4. y\n5. z"},
		{"nested lists", "- a\n  - b\n    - c\n      1. d\n         more\n- e", "• a\n  ◦ b\n    ▪ c\n      1. d\n         more\n• e"},
		{"list item of paragraphs", "1. a\n\n   b\n2. c", "1. a\n\n   b\n2. c"},
		{"tasks", "- [x] done\n- [ ] open\n\n1. [x] first", "☑ done\n☐ open\n\n1. ☑ first"},
		{"quote", "> a\n> **b**\n\nc", "{q|a\n{b|b}}\n\nc"},
		{"nested quote", "> a\n>> b\n>> c\n\nd", "{q|a\n> b\n> c}\n\nd"},
		{"quote of a list", "> - a\n> - b", "{q|• a\n• b}"},
		{"quote in a list", "- > a\n- b", "•\n{q|a}\n• b"},
		{"fence", "x:\n```go\nif a {\n\n\tb()\n}\n```\ny", "x:\n{p=go|if a {\n\n\tb()\n}}\ny"},
		{"fence with attributes", "~~~c++ title=x\na\n~~~", "{p=c++|a}"},
		{"language that is none", "```a\"><b>\nx\n```\n```{.python}\ny\n```\n```a\tb\nz\n```", "{p|x}\n{p=python|y}\n{p=a|z}"},
		{"fence in a list", "- a\n  ```\n  x\n    y\n  ```\n- b", "• a\n{p|x\n  y}\n• b"},
		{"fence in a quote", "> ```\n> x\n> ```", "{q|{p|x}}"},
		{"markup in a fence", "```\n**a** [b](c) <d> &amp;\n```", "{p|**a** [b](c) <d> &amp;}"},
		{"longer fence", "````\n```\n````", "{p|```}"},
		{"indented code", "a\n\n    b\n      c\n\nd", "a\n\n{p|b\n  c}\n\nd"},
		{"empty fence", "a\n```\n```\nb", "a\nb"},
		{"definitions say nothing", "[a]: https://e.x\n\n[a] [b][a] [c][d]", "{a=https://e.x|a} {a=https://e.x|b} [c][d]"},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.md, c.want) })
	}
}

func TestParseLinks(t *testing.T) {
	long := "https://e.x/" + strings.Repeat("a", 3000)
	for _, c := range []struct{ name, md, want string }{
		{"link", `[a](https://e.x/b_(c)?d=e "title")`, "{a=https://e.x/b_(c)?d=e|a}"},
		{"scheme in capitals", "[a](HTTPS://E.x)", "{a=https://E.x|a}"},
		{"styled link", "[**a** b](https://e.x)", "{a=https://e.x|{b|a} b}"},
		{"link without text", "[](https://e.x)", "{a=https://e.x|https://e.x}"},
		{"other targets", "[a](tg://user?id=1) [b](mailto:x@e.x) [c](tel:+123)", "{a=tg://user?id=1|a} {a=mailto:x@e.x|b} {a=tel:+123|c}"},
		{"script", "[a](javascript:alert(1)) [b](data:text/html,x) [c](file:///etc/passwd)", "a (javascript:alert(1)) b (data:text/html,x) c (file:///etc/passwd)"},
		{"hidden scheme", "[a](java&#10;script:x) [b](&#106;avascript:x)", "a (java\nscript:x) b (javascript:x)"},
		{"relative", "[a](docs/b.md) [c](#d) [e]()", "a (docs/b.md) c (#d) e"},
		{"no host", "[a](https://) [b](http:/x)", "a (https://) b (http:/x)"},
		{"markup in a target", "[a](<https://e.x/b c|d>)", "{a=https://e.x/b%20c%7Cd|a}"},
		{"invisible characters in a target", "[a](https://e.x/\u202eb)", "{a=https://e.x/%E2%80%AEb|a}"},
		{"too long", "[a](" + long + ")", "a (" + long + ")"},
		{"bare", "see https://e.x/a. www.e.x, x@e.x", "see {a=https://e.x/a|https://e.x/a}. {a=http://www.e.x|www.e.x}, {a=mailto:x@e.x|x@e.x}"},
		{"in angle brackets", "<https://e.x> <x@e.x> <javascript:x>", "{a=https://e.x|https://e.x} {a=mailto:x@e.x|x@e.x} javascript:x"},
		{"image", "![alt *x*](https://e.x/i.png) ![](https://e.x/j.png) ![k](k.png)", "{a=https://e.x/i.png|alt {i|x}} {a=https://e.x/j.png|https://e.x/j.png} k (k.png)"},
		{"image in a link", "[![alt](https://e.x/i.png)](https://e.y)", "{a=https://e.y|alt}"},
		{"bare link in a link", "[https://e.x](https://e.y)", "{a=https://e.y|https://e.x}"},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.md, c.want) })
	}
}

func TestParseTables(t *testing.T) {
	for _, c := range []struct{ name, md, want string }{
		{
			"small", "Sizes:\n\n| Name | Size |\n|:-----|-----:|\n| a | 1 |\n| **bc** | 1234567 |\n\nend",
			"Sizes:\n\n{p|Name |    Size\n-----|--------\na    |       1\nbc   | 1234567}\n\nend",
		},
		{
			"wide characters", "|名前|x|\n|:-:|-|\n|あ|1|\n|いろは|2|",
			"{p| 名前  | x\n-------|--\n  あ   | 1\nいろは | 2}",
		},
		{"short and long rows", "|a|b|\n|-|-|\n|1|\n|1|2|3|", "{p|a | b\n--|--\n1 |\n1 | 2}"},
		{"pipe in a cell", "|a|b|\n|-|-|\n|x\\|y|`p\\|q`|", "{p|a   | b\n----|----\nx|y | p|q}"},
		{
			"wide", "| Name | What it is good for, in some words |\n|-|-|\n| **one** | the *first* of all the things that there are |\n| two | |\n| three | c<br>d |",
			"{b|one}\n• What it is good for, in some words: the {i|first} of all the things that there are\n\n{b|two}\n\n{b|three}\n• What it is good for, in some words: c d",
		},
		{"with links", "|n|l|\n|-|-|\n|a|[b](https://e.x)|", "{b|a}\n• l: {a=https://e.x|b}"},
		{"with bare links", "|n|\n|-|\n|https://e.x|", "{p|n\n-----------\nhttps://e.x}"},
		{
			"header that is too long to repeat", "|a|" + strings.Repeat("b", 60) + "|\n|-|-|\n|c|d|",
			"{b|a}\n• " + strings.Repeat("b", 60) + "\n\n{b|c}\n• d",
		},
		{"in a list", "- x\n\n  |a|b|\n  |-|-|\n  |1|2|\n- y", "• x\n\n{p|a | b\n--|--\n1 | 2}\n• y"},
		{"in a quote", "> |a|b|\n> |-|-|\n> |1|2|", "{q|{p|a | b\n--|--\n1 | 2}}"},
		{"too many columns", strings.Repeat("|a", 60) + "\n" + strings.Repeat("|-", 60), strings.Repeat("|a", 60) + "\n" + strings.Repeat("|-", 60)},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.md, c.want) })
	}
}

// Incomplete markup of a text that is being streamed is not shown as something else.
func TestParseUnfinished(t *testing.T) {
	for _, c := range []struct{ name, md, want string }{
		{"bold", "a **b", "a **b"},
		{"code", "a `b", "a `b"},
		{"link", "a [b](https://e.x", "a [b]({a=https://e.x|https://e.x}"},
		{"link text", "a [b", "a [b"},
		{"fence", "a\n```go\nx := 1", "a\n{p=go|x := 1}"},
		{"fence without content", "a\n```go", "a"},
		{"fence with blank end", "```\nx\n\n", "{p|x}"},
		{"list that begins", "a\n-", "a\n-"},
		{"second item begins", "- a\n-", "• a\n• "},
		{"rule that begins", "a\n--", "a\n--"},
		{"table header", "|a|b|\n|-", "|a|b|\n|-"},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.md, c.want) })
	}
}

func same(t *testing.T, md, want string) {
	t.Helper()
	r := markup.Parse(md)
	if err := sound(r); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, show(r)); diff != "" {
		t.Errorf("Parse(%q) (-want +got):\n%s", md, diff)
	}
}

// sound checks the guarantees of Parse.
func sound(r chat.RichText) error {
	if err := check(r); err != nil {
		return err
	}
	if i := strings.IndexFunc(r.Text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }); i >= 0 {
		return fmt.Errorf("control character at %d of %q", i, r.Text)
	}
	var open []chat.Span
	for _, s := range r.Spans {
		for len(open) > 0 && open[len(open)-1].End <= s.Start {
			open = open[:len(open)-1]
		}
		for _, o := range open {
			if o.Style == s.Style || o.Style == chat.CodeBlock || o.Style == chat.Code {
				return fmt.Errorf("%s inside %s in %q", s.Style, o.Style, r.Text)
			}
		}
		open = append(open, s)
		starts := s.Start == 0 || r.Text[s.Start-1] == '\n'
		ends := s.End == len(r.Text) || r.Text[s.End] == '\n'
		if (s.Style == chat.CodeBlock || s.Style == chat.BlockQuote) && !(starts && ends) {
			return fmt.Errorf("%s [%d,%d) is not whole lines of %q", s.Style, s.Start, s.End, r.Text)
		}
		if s.Arg != "" && (!utf8.ValidString(s.Arg) || strings.ContainsFunc(s.Arg, unicode.IsControl)) {
			return fmt.Errorf("bad argument %q", s.Arg)
		}
	}
	return nil
}

// bits are fragments of Markdown and of invalid text.
var bits = []string{
	"a", "word ", "Ünï ", "中文", "。", "\n", "\n\n", "  ", "    ", "\t", "*", "**", "_", "~~", "`", "``", "```", "```go\n", "~~~\n",
	"- ", "1. ", "> ", "# ", "[", "]", "(", ")", "![", "](https://e.x)", "](x)", "[a]: b\n", "<", ">", "<b>", "<!--", "-->", "&amp;", "&#10;", "&#x85;",
	"\\", "|", "|-|-|\n", "|a|b|\n", "---\n", "===\n", "- [ ] ", "https://e.x/y", "www.e.x", "x@e.x", "👩‍👩‍👧", "🇩🇪", "e\u0301", "\u200d", "\xff", "\x00", "\r", "\u2028", "\u00a0",
}

func markdown() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(bits), 0, 60).Draw(t, "bits"), "")
	})
}

func TestParseIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		md := rapid.OneOf(markdown(), rapid.String()).Draw(t, "md")
		if err := sound(markup.Parse(md)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestParsePrefixesAreSound(t *testing.T) {
	md := answer
	for i := range len(md) { // including cuts inside a rune
		if err := sound(markup.Parse(md[:i])); err != nil {
			t.Fatalf("after %q: %v", md[:i], err)
		}
	}
}

// All words are kept in order, whatever markup is around them.
func TestParseKeepsAllWords(t *testing.T) {
	marks := []string{"%s", "**%s**", "*%s", "`%s`", "~~%s~~", "[%s](https://e.x)", "[%s](", "<%s>", "> %s\n", "\n- %s\n", "\n\n1. %s\n\n", "\n# %s\n", "\n```\n%s\n```\n", "\n\n    %s\n\n", "\n|%s|b|\n|-|-|\n|c|d|\n\n"}
	rapid.Check(t, func(t *rapid.T) {
		var md strings.Builder
		n := rapid.IntRange(1, 30).Draw(t, "n")
		for i := range n {
			fmt.Fprintf(&md, rapid.SampledFrom(marks).Draw(t, "mark")+" ", fmt.Sprintf("word%dend", i))
		}
		text := markup.PlainText(markup.Parse(md.String()))
		at := 0
		for i := range n {
			word := fmt.Sprintf("word%dend", i)
			k := strings.Index(text[at:], word)
			if k < 0 {
				t.Fatalf("%s is missing behind %d in %q of %q", word, at, text, md.String())
			}
			at += k
		}
	})
}

func TestParseLongInput(t *testing.T) {
	paragraph := "**a** " + strings.Repeat("b", 200) + "\n\n"
	r := markup.Parse(strings.Repeat(paragraph, 1000))
	if err := sound(r); err != nil {
		t.Error(err)
	}
	if got := len(r.Spans); got != 1000 {
		t.Errorf("%d of 1000 paragraphs are formatted", got)
	}
	if got, want := strings.Count(r.Text, "\n\n"), 999; got != want {
		t.Errorf("%d gaps, want %d", got, want)
	}
	tail := strings.Repeat("x**y** ", 400_000)
	r = markup.Parse(tail)
	if err := check(r); err != nil {
		t.Error(err)
	}
	if got, want := strings.Count(r.Text, "x"), 400_000; got != want {
		t.Errorf("%d of %d words came through", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(answer)
	for _, b := range bits {
		f.Add(b + "a" + b)
	}
	f.Fuzz(func(t *testing.T, md string) {
		if err := sound(markup.Parse(md)); err != nil {
			t.Fatal(err)
		}
	})
}
