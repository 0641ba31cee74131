// Package shorten shortens texts, and finds those that show nothing.
package shorten

import (
	"strings"
	"unicode"
)

// To returns s or, if s has more than n characters, its first n and "…".
func To(s string, n int) string {
	if i := Offset(s, n); i < len(s) {
		return s[:i] + "…"
	}
	return s
}

// Line is To for s on one line: each sequence of white space is one space.
func Line(s string, n int) string { return To(strings.Join(strings.Fields(s), " "), n) }

// Offset returns the offset in bytes of character n of s, or len(s) if s has at most n
// characters.
func Offset(s string, n int) int {
	for i := range s {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(s)
}

// IsBlank reports whether people see nothing of s: white space, control characters and
// format characters, such as U+200B.
func IsBlank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r)
	})
}
