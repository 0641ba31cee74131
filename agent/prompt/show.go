package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Show renders the layers of a cached prompt for a person: a table of their
// sizes, followed by their texts if texts is true. Tokens are estimated at four
// characters each. The texts are not sanitized for a terminal.
func Show(layers []Layer, texts bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %10s %10s %9s\n", "layer", "characters", "bytes", "~tokens")
	row := func(name string, chars, bytes int) {
		fmt.Fprintf(&b, "%-16s %10d %10d %9d\n", name, chars, bytes, (chars+3)/4)
	}
	chars, bytes := 0, 0
	for i, l := range layers {
		n := utf8.RuneCountInString(l.Text)
		row(l.Name, n, len(l.Text))
		chars, bytes = chars+n, bytes+len(l.Text)
		if i > 0 {
			chars, bytes = chars+2, bytes+2 // the blank line
		}
	}
	row("together", chars, bytes)
	if texts {
		for _, l := range layers {
			fmt.Fprintf(&b, "\n=== %s ===\n%s\n", l.Name, l.Text)
		}
	}
	return b.String()
}
