//go:build unix

package terminal_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hermesd/agent/tools/terminal"
)

func FuzzOutputBecomesPlainText(f *testing.F) {
	for _, s := range []string{"", "a\r\nb\r", "\x1b[31mred\x1b[0m", "\x1b]0;title", "\x9b1m", "a\bb\x00\xff\xc3", "\x1b", "10%\r20%"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := terminal.Clean(b)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no text", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Fatalf("%q has a control at %d", got, i)
		}
		if strings.Count(got, "\n") > strings.Count(string(b), "\n") {
			t.Fatalf("%q has lines that %q has not", got, b)
		}
	})
}

func TestOutputKeepsPlainText(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "中", " ", "\t", "\n", "1;2m"})).Draw(r, "parts"), "") + "."
		if got := terminal.Clean([]byte(s)); got != s {
			r.Fatalf("%q became %q", s, got)
		}
	})
}

// However typed lines are split, the text classified at the last piece contains the whole
// line.
func TestTypedLineIsEvaluatedWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		whole := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", " ", "\\", "\n", "b"})).Draw(r, "parts"), "")
		line, judged := "", ""
		for rest := whole; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(r, "n")
			judged = line + rest[:n]
			line, rest = terminal.Unfinished(judged), rest[n:]
		}
		if want := terminal.Unfinished(whole); line != want {
			r.Fatalf("%q: %q goes on, want %q", whole, line, want)
		}
		if !strings.HasSuffix(whole, judged) {
			r.Fatalf("%q: judged was %q", whole, judged)
		}
	})
}
