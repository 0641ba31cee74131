// Package text renders untrusted text for a terminal. The result cannot move the cursor,
// change a color or a title, or contain direction marks.
package text

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// sequences matches complete terminal escape sequences. The rest of an incomplete
// one is harmless without its first byte.
var sequences = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` + // CSI
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])[^\x07\x1b\n\x{9c}]*(?:\x07|\x1b\\|\x{9c})` + // OSC, DCS, SOS, PM, APC
	`|\x1b[ -/]*[0-Z\\^-~]`)

const tab = "    "

// Clean returns s without terminal controls: escape sequences, control characters
// except line feeds, and direction marks. Tabs become spaces. The result is valid
// UTF-8.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = sequences.ReplaceAllString(s, "")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n", "\t", tab).Replace(s)
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || isDirectionMark(r)) {
			return -1
		}
		return r
	}, s)
}

// plain reports whether s is ASCII that needs no cleaning.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\n' && (c < ' ' || c >= 0x7f) {
			return false
		}
	}
	return true
}

// isDirectionMark reports whether r changes the direction of the surrounding text.
func isDirectionMark(r rune) bool {
	return r == '\u200e' || r == '\u200f' || r == '\u061c' || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}

// Line returns s cleaned and on one line.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// Cut returns s cleaned, on one line of at most width columns.
func Cut(s string, width int) string { return ansi.Truncate(Line(s), width, "…") }

// Width returns the width of the widest line of s in columns.
func Width(s string) int {
	w := 0
	for l := range strings.SplitSeq(s, "\n") {
		w = max(w, ansi.StringWidth(l))
	}
	return w
}
