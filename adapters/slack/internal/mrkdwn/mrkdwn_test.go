package mrkdwn_test

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hermesd/adapters/slack/internal/mrkdwn"
	"hermesd/gateway/chat"
)

// rich marks up s: each span is found by its text.
func rich(s string, spans ...chat.Span) chat.RichText { return chat.RichText{Text: s, Spans: spans} }

func span(s, part string, st chat.Style, arg string) chat.Span {
	i := strings.Index(s, part)
	return chat.Span{Start: i, End: i + len(part), Style: st, Arg: arg}
}

func TestRender(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		sp   []chat.Span
		want string
	}{
		{"plain", "hello", nil, "hello"},
		{"escaped", "a < b && c > d <@U1> <!channel>", nil, "a &lt; b &amp;&amp; c &gt; d &lt;@U1&gt; &lt;!channel&gt;"},
		{"bold", "a bold b", []chat.Span{span("a bold b", "bold", chat.Bold, "")}, "a *bold* b"},
		{"spaces stay outside", "a  bold  b", []chat.Span{span("a  bold  b", " bold ", chat.Bold, "")}, "a  *bold*  b"},
		{"nested", "a b c d", []chat.Span{span("a b c d", "b c", chat.Bold, ""), span("a b c d", "c", chat.Italic, "")}, "a *b _c_* d"},
		{"the same style twice", "a b c", []chat.Span{span("a b c", "a b c", chat.Bold, ""), span("a b c", "b", chat.Bold, "")}, "*a b c*"},
		{"inside a word", "这是粗体字", []chat.Span{span("这是粗体字", "粗体", chat.Bold, "")}, "这是\u200b*粗体*\u200b字"},
		{"over two lines", "one\ntwo", []chat.Span{{Start: 0, End: 7, Style: chat.Strike}}, "~one~\n~two~"},
		{"code is escaped and bare", "x a*b<c y", []chat.Span{span("x a*b<c y", "a*b<c", chat.Code, "")}, "x `a*b&lt;c` y"},
		{"code with a backtick", "x a`b y", []chat.Span{span("x a`b y", "a`b", chat.Code, "")}, "x a`b y"},
		{"link", "see here now", []chat.Span{span("see here now", "here", chat.Link, "https://e.com/?a=1&b=<|>")}, "see <https://e.com/?a=1&amp;b=%3C%7C%3E|here> now"},
		{"link in bold", "see here", []chat.Span{span("see here", "see here", chat.Bold, ""), span("see here", "here", chat.Link, "https://e.com")}, "*see <https://e.com|here>*"},
		{"bare link", "https://e.com", []chat.Span{{Start: 0, End: 13, Style: chat.Link, Arg: "https://e.com"}}, "<https://e.com>"},
		{"a link that is none", "run", []chat.Span{{Start: 0, End: 3, Style: chat.Link, Arg: "javascript:alert(1)"}}, "run (javascript:alert(1))"},
		{"a link that would be a mention", "run", []chat.Span{{Start: 0, End: 3, Style: chat.Link, Arg: "!channel"}}, "run (!channel)"},
		{"label with a bar", "a|b>", []chat.Span{{Start: 0, End: 4, Style: chat.Link, Arg: "https://e.com"}}, "<https://e.com|a¦b&gt;>"},
		{"pre", "x\ncode\n<b>\ny", []chat.Span{{Start: 2, End: 11, Style: chat.CodeBlock, Arg: "go"}}, "x\n```\ncode\n&lt;b&gt;\n```\ny"},
		{"pre without a line feed", "code\ny", []chat.Span{{Start: 0, End: 4, Style: chat.CodeBlock}}, "```\ncode\n```\ny"},
		{"pre with a fence", "a```b", []chat.Span{{Start: 0, End: 5, Style: chat.CodeBlock}}, "```\na``\u200b`b\n```"},
		{"quote", "a\nb\nc", []chat.Span{{Start: 0, End: 4, Style: chat.BlockQuote}}, "> a\n> b\nc"},
		{"spoiler", "a b", []chat.Span{span("a b", "b", chat.Spoiler, "")}, "a b"},
		{"crossing spans", "abcd", []chat.Span{{Start: 0, End: 3, Style: chat.Bold}, {Start: 1, End: 4, Style: chat.Italic}}, "*abc*\u200bd"},
		{"outside", "ab", []chat.Span{{Start: 1, End: 9, Style: chat.Bold}, {Start: -1, End: 1, Style: chat.Bold}}, "ab"},
		{"within a rune", "é", []chat.Span{{Start: 1, End: 2, Style: chat.Bold}}, "é"},
		{"not text", "a\xffb", []chat.Span{{Start: 0, End: 1, Style: chat.Bold}}, "a\uFFFDb"},
	} {
		if got := mrkdwn.Render(rich(c.text, c.sp...)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	name := func(r mrkdwn.Reference) string {
		if r.Mark == '@' && r.ID == "U1" {
			return "@Ann"
		}
		return ""
	}
	for in, want := range map[string]string{
		"a &lt;b&gt; &amp;amp;":                         "a <b> &amp;",
		"<@U1> and <@U2> and <@U3|bob>":                 "@Ann and @U2 and @bob",
		"<#C1|general> <#C2>":                           "#general #C2",
		"<!here> <!subteam^S1|@devs> <!date^1^{x}|d>":   "@here @devs d",
		"<https://e.com/?a=1&amp;b=2>":                  "https://e.com/?a=1&b=2",
		"<https://e.com|e.com> <https://e.com/|e.com>":  "https://e.com https://e.com/",
		"<https://e.com|here> <mailto:a@e.com|a@e.com>": "here (https://e.com) mailto:a@e.com",
		"unclosed <@U1":                                 "unclosed <@U1",
		"<>":                                            "",
		"<@>":                                           "@",
		"nothing at all":                                "nothing at all",
		"&lt;@U1&gt; <|>":                               "<@U1> ",
	} {
		if got := mrkdwn.Read(in, name); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

var styles = []chat.Style{chat.Bold, chat.Italic, chat.Strike, chat.Code, chat.CodeBlock, chat.Link, chat.BlockQuote, chat.Spoiler}

// drawn is any text with any spans, also such as nobody should make.
func drawn(t *rapid.T) chat.RichText {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "word ", "\n", "<", "&", ">", "*", "_", "`", "```", "|", "漢", "😀", "long line of words "}), 0, 60).Draw(t, "parts")
	r := chat.RichText{Text: strings.Join(parts, "")}
	for range rapid.IntRange(0, 8).Draw(t, "spans") {
		r.Spans = append(r.Spans, chat.Span{
			Start: rapid.IntRange(-1, len(r.Text)+1).Draw(t, "start"), End: rapid.IntRange(-1, len(r.Text)+1).Draw(t, "end"),
			Style: rapid.SampledFrom(styles).Draw(t, "style"), Arg: rapid.SampledFrom([]string{"", "https://e.com/a|b", "x"}).Draw(t, "arg"),
		})
	}
	return r
}

func TestWhateverIsRenderedNamesNobodyAndIsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := mrkdwn.Render(drawn(t))
		if !utf8.ValidString(out) {
			t.Fatalf("%q is no text", out)
		}
		if strings.Contains(out, "<@") || strings.Contains(out, "<!") || strings.Contains(out, "<#") {
			t.Fatalf("%q names somebody", out)
		}
	})
}

func TestPlainTextComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		if got := mrkdwn.Read(mrkdwn.Render(chat.PlainText(s)), func(mrkdwn.Reference) string { return "" }); got != strings.ToValidUTF8(s, "\uFFFD") {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

func TestSectionsFitAndLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawn(t)
		limit := rapid.IntRange(60, 200).Draw(t, "limit")
		all := ""
		for _, s := range mrkdwn.Sections(r, limit) {
			if n := len(utf16.Encode([]rune(s))); n > limit {
				t.Fatalf("a section of %d units: %q", n, s)
			}
			all += mrkdwn.Read(s, func(mrkdwn.Reference) string { return "" })
		}
		for _, w := range []string{"a", "漢", "😀"} {
			if want := strings.Count(r.Text, w); strings.Count(all, w) < want {
				t.Fatalf("%d of %q in %q, want %d", strings.Count(all, w), w, all, want)
			}
		}
	})
}

func TestSections(t *testing.T) {
	line := strings.Repeat("x", 50) + "\n"
	got := mrkdwn.Sections(chat.RichText{Text: strings.Repeat(line, 5), Spans: []chat.Span{{Start: 0, End: 5 * len(line), Style: chat.CodeBlock}}}, 130)
	if len(got) != 3 || got[2] != "```\n"+line+"```" {
		t.Errorf("preformatted text is cut into %q", got)
	}
	got = mrkdwn.Sections(chat.PlainText(strings.Repeat("word ", 50)), 99)
	if len(got) != 3 || !strings.HasSuffix(strings.TrimRight(got[0], " "), "word") {
		t.Errorf("a long line is cut into %q", got)
	}
	if got := mrkdwn.Sections(chat.PlainText("\n \n"), 99); got != nil {
		t.Errorf("nothing is cut into %q", got)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"<@U1>", "<", "<a|b>", "&amp;lt;", "<!date^1^x|y>", "<@", "<|>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := mrkdwn.Read(s, func(mrkdwn.Reference) string { return "" })
		if utf8.ValidString(s) && !utf8.ValidString(out) {
			t.Errorf("%q becomes %q", s, out)
		}
		if len(out) > 2*len(s)+2 {
			t.Errorf("%q grows to %q", s, out)
		}
	})
}
