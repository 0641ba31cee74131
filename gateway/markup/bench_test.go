package markup_test

import (
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// answer is a typical answer of a model with every kind of block.
const answer = "## Heading with `code`\n\nSome **bold text** and a [link](https://example.com/a_(b)?c=d) in *a paragraph*\nthat has two lines.\n\n" +
	"- first\n- second with 中文 and 👩‍👩‍👧‍👦\n  1. nested\n  2. ~~gone~~\n\n> a quotation\n> of two lines\n\n" +
	"```go\nfunc main() {\n\tfmt.Println(\"x\")\n\n}\n```\n\n| A | B |\n|---|--:|\n| 1 | 2 |\n\n---\n\n"

func repeat(s string, size int) string { return strings.Repeat(s, size/len(s)+1)[:size] }

// hostile holds inputs that are known to be slow in some Markdown parsers.
var hostile = map[string]func(size int) string{
	"open brackets":       func(n int) string { return repeat("[", n) },
	"images":              func(n int) string { return repeat("![", n) },
	"links in links":      func(n int) string { return repeat("[a](", n) },
	"angle targets":       func(n int) string { return repeat("[a](<b", n) },
	"titles":              func(n int) string { return repeat("[a](b \"", n) },
	"references":          func(n int) string { return repeat("[a][", n) },
	"brackets":            func(n int) string { return repeat("[]", n) },
	"closers":             func(n int) string { return repeat("[", n/2) + repeat("]", n/2) },
	"quotes":              func(n int) string { return repeat(">", n) },
	"lists":               func(n int) string { return repeat("- ", n) },
	"quoted lists":        func(n int) string { return repeat("> - ", n) },
	"deep lists":          deepList,
	"lazy quotes":         func(n int) string { return strings.Repeat("> ", 40) + repeat("a\n", n-80) },
	"mixed emphasis":      func(n int) string { return repeat("*a_ ", n) },
	"emphasis":            func(n int) string { return repeat("*a **a ", n) },
	"nested emphasis":     func(n int) string { return repeat("*a ", n/2) + repeat("a* ", n/2) },
	"strikethrough":       func(n int) string { return repeat("~~a ~b* ", n) },
	"backticks":           backticks,
	"comments":            func(n int) string { return repeat("a <!--", n) },
	"cdata":               func(n int) string { return repeat("a <![CDATA[", n) },
	"instructions":        func(n int) string { return repeat("a <?", n) },
	"tags":                func(n int) string { return repeat("<a b='", n) },
	"autolinks":           func(n int) string { return repeat("<http://a", n) },
	"bare links":          func(n int) string { return repeat("http://a.b ", n) },
	"mail":                func(n int) string { return repeat("a@", n) },
	"entities":            func(n int) string { return repeat("&amp", n) },
	"wide table":          func(n int) string { return repeat("|a", n/3) + "|\n" + repeat("|-", n/3) + "|\n" + repeat("a\n", n/3) },
	"long header":         func(n int) string { return "|" + repeat("h", n/2) + "|b|\n|-|-|\n" + repeat("|a|b|\n", n/2) },
	"many tables":         func(n int) string { return repeat("|a|b|\n|-|-|\n", n) },
	"reference amplifier": func(n int) string { return "[a]: http://" + repeat("b", 1700) + "\n\n" + repeat("[a] ", n) },
	"definitions":         func(n int) string { return repeat("[a]: b\n", n) },
	"blank lines":         func(n int) string { return repeat("\n", n) },
	"spaces":              func(n int) string { return repeat(" ", n) },
	"tabs":                func(n int) string { return repeat("\t", n) },
	"fences":              func(n int) string { return repeat("```\n", n) },
	"headings":            func(n int) string { return repeat("# a\n", n) },
	"underlines":          func(n int) string { return repeat("a\n---\n", n) },
	"combining":           func(n int) string { return "a" + repeat("\u0301", n) },
	"one word":            func(n int) string { return repeat("a", n) },
	"joined emoji":        func(n int) string { return repeat("👩\u200d", n) },
	"controls":            func(n int) string { return repeat("\x00\x1b\xff\r", n) },
}

func deepList(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	return b.String()[:n]
}

func backticks(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("`", i) + " ")
	}
	return b.String()[:n]
}

// The time and space for hostile input are linear in its length. The bound is for a hang:
// it detects quadratic behavior, which takes minutes.
func TestParseHostileIsBounded(t *testing.T) {
	const size = 80 << 10
	for name, make := range hostile {
		t.Run(name, func(t *testing.T) {
			md := make(size)
			start := time.Now()
			r := markup.Parse(md)
			parsed := time.Since(start)
			pieces := markup.Split(r, 4096, utf16Units)
			all := time.Since(start)
			t.Logf("parse %v, split %v, %d bytes, %d spans, %d pieces", parsed, all-parsed, len(r.Text), len(r.Spans), len(pieces))
			if err := check(r); err != nil {
				t.Error(err)
			}
			if all > 2*time.Minute {
				t.Errorf("took %v", all)
			}
			total := len(r.Text)
			for _, s := range r.Spans {
				total += len(s.Arg)
			}
			if total > 24*size {
				t.Errorf("%d bytes became %d", size, total)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	md := repeat(answer, 46<<10)
	b.SetBytes(int64(len(md)))
	for b.Loop() {
		markup.Parse(md)
	}
}

func BenchmarkParseHostile(b *testing.B) {
	for name, make := range hostile {
		b.Run(name, func(b *testing.B) {
			md := make(46 << 10)
			for b.Loop() {
				markup.Parse(md)
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	r := markup.Parse(repeat(answer, 1<<20))
	for name, size := range map[string]func(chat.RichText) int{"utf16": utf16Units, "runes": runes} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(r.Text)))
			for b.Loop() {
				markup.Split(r, 4096, size)
			}
		})
	}
}
