package config_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"hermesd/cmd/internal/config"
)

// Any config.yaml is accepted, or each problem has a position in the file.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		string(config.Example()), "", "---\n---\n", "model: x\nagent: {max_turns: 1}\n", "a: &a [*a]\n", "<<: {a: b}\n", "<<: [*x]\n", "? [a]\n: b\n", "model: !!binary x\n", "{", "\t", "a: |\n  b\n c",
		"telegram: &t {accounts: {a: {token: ${X:-y}}}}\nslack: *t\n", "fallback_providers: [{}, null, [], *a]\n", "%YAML 9.9\n---\na: b\n", "timezone: \"\\ud800\"\n", "access: {owners: [~, 1, [2]]}", "? \n: x\n", "{a, b, c}", "- - - a",
		"telegram: {channel_prompts: {<<: {a: b}, ? {x: y} : z}}", "model: {base_url: 'http://[::1'}", "\xff", "a:\x00", "logging: {file: &l de}\ntimezone: *l", "streaming: {edit_interval: .inf}",
	} {
		f.Add([]byte(s))
	}
	home := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		c, r, err := setup{yaml: string(data), home: home}.load(t)
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") // as YAML counts
		place := func(p config.Problem) {
			if p.File == "" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Text == "" || !utf8.ValidString(p.String()) {
				t.Fatalf("a problem without a place in %d lines: %+v", lines, p)
			}
		}
		var e *config.Error
		switch {
		case errors.As(err, &e):
			if len(e.Problems) == 0 || c != nil {
				t.Fatal("an error without a problem, or with a configuration")
			}
			for _, p := range e.Problems {
				place(p)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if err := config.Show(io.Discard, c, r); err != nil {
				t.Fatal(err)
			}
		}
	})
}
