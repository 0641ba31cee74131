package text_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/markup"
)

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
