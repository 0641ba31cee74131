package yamlconf_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"hermesd/cmd/internal/config/yamlconf"
)

// No document causes a panic, and every problem has a position.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"text: a\nint: 5\n", "---\n---\n", "a: &a [*a]\n", "<<: {a: b}\n", "<<: [*x]\n", "? [a]\n: b\n", "text: !!binary x\n", "{", "\t", "text: |\n  b\n c", "section: &t {n: ${X:-3}}\nelsewhere: *t\n",
		"list: [{}, null, [], *a]\n", "%YAML 9.9\n---\na: b\n", "text: \"\\ud800\"\n", "words: [~, 1, [2]]", "? \n: x\n", "{a, b, c}", "- - - a", "pairs: {<<: {a: b}, ? {x: y} : z}", "\xff", "a:\x00", "float: .inf",
		"table: {a: {n: 1}, B: {}}", "hidden_file: /nowhere\n", "span: 1e9\n", "text: &l de\nchoice: *l", "old.words: [x]\nwords: y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if strings.Contains(doc, "_file") {
			return // it would be opened
		}
		e := new(everything)
		l := yamlconf.New(e, yamlconf.Options{
			File: "f", LookupEnv: func(n string) (string, bool) { return n, n == "X" }, Path: func(s string) string { return s },
			Moved: map[string]string{"elsewhere": "section"}, Foreign: func(p string) (string, bool) { return "foreign", p == "alien" },
		})
		l.Decode([]byte(doc))
		l.Validate()
		lines := 1 + strings.Count(doc, "\n") + strings.Count(doc, "\r") + strings.Count(doc, "\u0085") + strings.Count(doc, "\u2028") + strings.Count(doc, "\u2029") // as YAML counts
		for _, p := range append(l.Problems, l.Warnings...) {
			if p.File != "f" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Text == "" || !utf8.ValidString(p.String()) {
				t.Fatalf("a problem without a place in %d lines: %+v", lines, p)
			}
		}
		if len(l.Problems) == 0 && (e.Int > 10 || e.Int64 < -5 || e.Float < 0 || e.Float > 1 || e.Choice != "one" && e.Choice != "two" && e.Choice != "off") {
			t.Fatalf("values out of range were taken: %+v", e)
		}
	})
}
