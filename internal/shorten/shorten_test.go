package shorten_test

import (
	"testing"

	"hermesd/internal/shorten"
)

func TestTo(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"é", 0, "…"}, {"é", -1, "…"}, {"éa", 1, "é…"}, {"éa", 2, "éa"}, {"éa", 3, "éa"}, {"a\xffb", 2, "a\xff…"},
	} {
		if got := shorten.To(c.s, c.n); got != c.want {
			t.Errorf("%q, %d: got %q, want %q", c.s, c.n, got, c.want)
		}
	}
	if got := shorten.Line(" a\n\t b c ", 3); got != "a b…" {
		t.Errorf("got %q", got)
	}
}

func TestIsBlank(t *testing.T) {
	for s, want := range map[string]bool{"": true, " \n\u200b\u00ad\x07": true, "\u200b.": false, "🙂": false} {
		if got := shorten.IsBlank(s); got != want {
			t.Errorf("%q: got %t", s, got)
		}
	}
}
