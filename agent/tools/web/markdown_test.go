package web_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"hermesd/agent/tools/web"
)

func at(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestMarkdownParts(t *testing.T) {
	u := at(t, "https://example.com/a/b.html")
	for html, want := range map[string]string{
		`<p>a <a href="c.html#x">link</a>`:                                           "a [link](https://example.com/a/c.html#x)",
		`<p><a href="//cdn.test/x">other</a>`:                                        "[other](https://cdn.test/x)",
		`<p><a href="javascript:evil()">press</a> here`:                              "press here",
		`<p><img src="data:image/png;base64,AAAA" alt="x">after`:                     "after",
		`<h2>Head</h2><ul><li>one<li>two<ul><li>three</ul></ul>`:                     "## Head\n\n- one\n- two\n\n  - three",
		`<ol start="3"><li>c<li>d</ol>`:                                              "3. c\n4. d",
		`<pre><code class="language-go">x := 1` + "\n  y" + `</code></pre>`:          "```go\nx := 1\n  y\n```",
		`<table><tr><td>1<td>2<tr><td>3<td>4</table>`:                                "| 1 | 2 |\n|---|---|\n| 3 | 4 |",
		`<p>snake_case * 3 [x] #4`:                                                   "snake_case * 3 [x] #4",
		`<p>seen<p hidden>not<p style="Display : NONE">not<div aria-hidden=true>not`: "seen",
		`<!-- hidden words --><p>x<template><p>not</template><style>p{}</style>`:     "x",
		`<p>broken <b>bold <i>both</b> rest`:                                         "broken **bold *both* rest**",
		`<p>&lt;tag&gt; &amp; &eacute;`:                                              "&lt;tag&gt; & é",
		`<b>x</i></table></b><tr><td>y`:                                              "**x**y",
		`plain words`:                                                                "plain words",
		``:                                                                           "",
		`<script>var a = "<p>not</p>"`:                                               "",
		`<svg><text>drawn</text></svg>`:                                              "drawn",
	} {
		if got := web.Markdown([]byte(html), u); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", html, got, want)
		}
	}
}

// Pages of these kinds take minutes or gigabytes in the libraries when they have the
// maximum size. These are small; the memory allocated shows the cost of a missing limit.
func TestMarkdownHostilePages(t *testing.T) {
	var shapes strings.Builder
	for i := range 400 {
		fmt.Fprintf(&shapes, "<b id=x%d>", i)
	}
	u := at(t, "https://example.com/")
	for name, html := range map[string]string{
		"opened again":    "<p>" + shapes.String() + "</p>" + strings.Repeat("<p>word</p>", 1500),
		"deep lists":      strings.Repeat("<ul><li>", 250) + strings.Repeat("<li>word", 800),
		"deep quotes":     strings.Repeat("<blockquote>", 500) + strings.Repeat("<p>word", 1000),
		"deep tables":     strings.Repeat("<table><tr><td>word", 5000),
		"too deep":        strings.Repeat("<div>", 20_000) + "word",
		"brackets":        "<p>word" + strings.Repeat("[", 60_000),
		"signs":           "<p>word" + strings.Repeat("`*_~", 20_000),
		"wide cells":      "<table>" + strings.Repeat("<tr><td colspan=999999999 rowspan=999999>word</td></tr>", 500),
		"cells":           "<table>" + strings.Repeat("<tr><td>word</td><td>b</td></tr>", 2000),
		"attributes":      "<p " + strings.Repeat("a=b ", 20_000) + ">word",
		"next to a table": "<table>" + strings.Repeat("<div>word<tr>", 3000),
		"not ended":       "<p>word<" + strings.Repeat("a", 500_000),
		"empty":           strings.Repeat("<div></div>", 10_000) + "word",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := web.Markdown([]byte(html), u)
		runtime.ReadMemStats(&after)
		if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 60 {
			t.Errorf("%s: %d MB were taken for %d KB", name, taken, len(html)>>10)
		}
		if name != "empty" && !strings.Contains(got, "word") {
			t.Errorf("%s: nothing is left: %.100q", name, got)
		}
		if len(got) > 8<<20 {
			t.Errorf("%s: %d bytes of Markdown", name, len(got))
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{
		story, "<table><tr><td>x<table><tr><td colspan=3>y", "<ul><li><ol><li>a<p>b", "<a href='x'><b><p>c", "\xff\x00<p>", "<base href='ftp://x'><a href=y>z",
		"<svg><title>x</title><foreignObject><p>y", "<frameset><frame></frameset>", "<math><mi>x", "<select><option>x", "<plaintext><p>", "<title>a</title><title>b",
		"<pre>\n\n```</pre>", "<textarea><p>x", "<br><hr><img alt=x src=y>", "<dl><dt>a<dd>b", "<td>x", "<!doctype x [<p>", "<p/><x-y z=1>&#0;&#x110000;&nosuch;",
	} {
		f.Add([]byte(s))
	}
	u := at(f, "https://example.com/a")
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := web.Markdown(raw, u)
		if !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("control characters in %q", got)
		}
		if most := 400*len(raw) + 1000; len(got) > most {
			t.Errorf("%d bytes became %d", len(raw), len(got))
		}
		if again := web.Markdown(raw, u); again != got {
			t.Errorf("the second time it is %q, first %q", again, got)
		}
	})
}
