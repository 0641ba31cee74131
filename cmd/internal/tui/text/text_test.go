package text_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/markup"
)

func TestCleanRemovesTerminalControls(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "hello\nworld", "hello\nworld"},
		{"colour", "a\x1b[31mred\x1b[0mb", "aredb"},
		{"title", "a\x1b]0;evil\x07b", "ab"},
		{"title, ended by ST", "a\x1b]0;evil\x1b\\b", "ab"},
		{"hyperlink", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"a title that never ends keeps the text", "a\x1b]0;evil and more", "a]0;evil and more"},
		{"clear screen in one byte", "a\u009b2Jb", "ab"},
		{"other controls", "a\x00\x08\x7fb", "ab"},
		{"carriage return cannot overwrite", "safe\rEVIL", "safe\nEVIL"},
		{"tab", "a\tb", "a    b"},
		{"direction", "abc\u202edef\u2066", "abcdef"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
		{"wide", "日本 👩‍👩‍👧 é", "日本 👩‍👩‍👧 é"},
		{"charset switch", "a\x1b(0b", "ab"},
	} {
		if got := text.Clean(tc.in); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\x07")
	f.Add("\x1b\x1b[[31m31m\u009b")
	f.Fuzz(func(t *testing.T, s string) {
		got := text.Clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r != '\n' && unicode.IsControl(r) {
				t.Errorf("%q holds %U", got, r)
			}
		}
		if again := text.Clean(got); again != got {
			t.Errorf("cleaning twice gives %q, once %q", again, got)
		}
		if l := text.Line(s); strings.Contains(l, "\n") {
			t.Errorf("%q is more than a line", l)
		}
	})
}

const sample = "A **bold** and *leaning* word, `code`, ~~gone~~, a [link](https://example.org/x) and https://example.org.\n\n" +
	"```go\nfunc main() {\n\tprintln(\"日本\")\n}\n```\n\n> quoted **words**\n> go on\n\nThe end."

func TestRenderSourceIsMarkdown(t *testing.T) {
	got := text.Render(markup.Parse(sample), text.Source, 0)
	want := "A **bold** and *leaning* word, `code`, ~~gone~~, a [link](https://example.org/x) and https://example.org.\n\n" +
		"```go\nfunc main() {\n    println(\"日本\")\n}\n```\n\n> quoted **words**\n> go on\n\nThe end."
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRenderMonoHasNoColors(t *testing.T) {
	got := text.Render(markup.Parse(sample), text.Mono, 30)
	for l := range strings.SplitSeq(got, "\n") {
		if w := text.Width(l); w > 30 {
			t.Errorf("%d columns: %q", w, l)
		}
	}
	for _, esc := range []string{"\x1b[3", "\x1b[9"} {
		for i := range got {
			if strings.HasPrefix(got[i:], esc) && len(got) > i+4 && got[i+4] == 'm' && got[i+3] >= '0' && got[i+3] <= '7' {
				t.Errorf("a colour at %q", got[i:i+5])
			}
		}
	}
	want := strings.Join([]string{
		"A bold and leaning word, code,",
		"gone, a link",
		"(https://example.org/x) and",
		"https://example.org.",
		"",
		"│ func main() {",
		"│     println(\"日本\")",
		"│ }",
		"",
		"▎ quoted words",
		"▎ go on",
		"",
		"The end.",
	}, "\n")
	if diff := cmp.Diff(want, text.Clean(got)); diff != "" {
		t.Error(diff)
	}
}

func TestRenderColors(t *testing.T) {
	got := text.Render(markup.Parse("a `b` **c**"), text.Colour, 80)
	if want := "a \x1b[36mb\x1b[m \x1b[1mc\x1b[m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRenderWrapsLongAndWideWords(t *testing.T) {
	long := strings.Repeat("x", 100) + " " + strings.Repeat("日", 60) + " `" + strings.Repeat("y", 50) + "`"
	for _, look := range []text.ColorMode{text.Mono, text.Colour} {
		for l := range strings.SplitSeq(text.Render(markup.Parse(long+"\n```\n"+long+"\n```"), look, 20), "\n") {
			if w := text.Width(l); w > 20 {
				t.Errorf("%d columns: %q", w, l)
			}
		}
	}
}

func TestRenderRemovesTerminalControls(t *testing.T) {
	evil := "**bo\x1b[2Jld** [a\x1b]0;t\x07b](https://x.org/\x1b[31m) `\x1b[31m` \n```\x1b[1m\n\x1b[31mcode\n```"
	for _, look := range []text.ColorMode{text.Source, text.Mono, text.Colour} {
		got := text.Render(markup.Parse(evil), look, 80)
		for _, bad := range []string{"\x1b[2J", "\x1b]", "\x1b[31m"} {
			if strings.Contains(got, bad) {
				t.Errorf("look %d: %q holds %q", look, got, bad)
			}
		}
		if look == text.Source && strings.Contains(got, "\x1b") {
			t.Errorf("source holds an escape: %q", got)
		}
	}
}

func TestTableAlignsColumns(t *testing.T) {
	got := text.Table([]string{"ID", "NAME", "N"}, [][]string{{"1", "日本", "2"}, {"10", "a\x1b[31mb\nc", "3"}, {"11"}})
	want := "ID  NAME  N\n1   日本  2\n10  ab c  3\n11\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := text.Table([]string{"ID"}, nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestSpanAndBytesUseOneUnit(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 90 * time.Second: "90 s ago", 3 * time.Minute: "3 min ago", 5 * time.Hour: "5 h ago", 72 * time.Hour: "3 days ago", -30 * time.Second: "in 30 s",
	} {
		if got := text.Ago(now.Add(-d), now); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{5: "5 B", 2048: "2.0 KiB", 5 << 20: "5.0 MiB", 1 << 62: "4096.0 PiB"} {
		if got := text.Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestCutCountsColumns(t *testing.T) {
	if got := text.Cut("日本語です\nx", 7); got != "日本語…" {
		t.Errorf("got %q", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 errors", 1: "1 error", 2: "2 errors"} {
		if got := text.Count(n, "error"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// For any model output, only styles of this package reach the terminal, and no line
// is wider than the screen.
func FuzzRender(f *testing.F) {
	for _, s := range []string{sample, "a\x1b[2Jb **c\x1b]0;x\x07**", "> > > quote\n> ```\n> code\n> ```", "| a | b |\n|---|---|\n| 日本 | [x](http://y) |", "- a\n  - b\n\n1. c", "👩‍👩‍👧 e\u0301 \u200b\u00ad", "```\n\t\tx\n```"} {
		f.Add(s, 20)
	}
	f.Fuzz(func(t *testing.T, md string, width int) {
		if width < 10 || width > 200 || len(md) > 2000 {
			return
		}
		r := markup.Parse(md)
		src := text.Render(r, text.Source, width)
		for _, c := range src {
			if c != '\n' && unicode.IsControl(c) {
				t.Errorf("source holds %U: %q", c, src)
			}
		}
		for _, look := range []text.ColorMode{text.Mono, text.Colour} {
			got := text.Render(r, look, width)
			for l := range strings.SplitSeq(got, "\n") {
				if w := ansi.StringWidth(l); w > width {
					t.Errorf("%d columns on a screen of %d: %q", w, width, l)
				}
			}
			for _, part := range strings.Split(got, "\x1b")[1:] {
				if end := strings.IndexByte(part, 'm'); !strings.HasPrefix(part, "[") || end < 0 || strings.Trim(part[1:end], "0123456789;:") != "" {
					t.Errorf("an escape that is no style: %q", part)
				}
			}
			plain := strings.Map(keep, ansi.Strip(got))
			for _, w := range strings.Fields(text.Clean(md)) {
				if len(w) > 3 && isWord(w) && len(w) < width/2 && !strings.Contains(plain, w) && strings.Contains(r.Text, w) {
					t.Errorf("the word %q is lost in %q", w, got)
				}
			}
		}
	})
}

// keep removes what wrapping may insert into a word.
func keep(r rune) rune {
	if r == '\n' || r == ' ' || r == '│' || r == '▎' {
		return -1
	}
	return r
}

func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 'z' || r < 'a' }) < 0
}
