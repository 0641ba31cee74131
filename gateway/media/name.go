package media

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const longestName = 240 // runes

// Name returns a sender's name for a file in a form that can be shown: one line
// of valid UTF-8 without control characters, path separators, and characters
// that are not seen or turn the direction of writing, 240 characters at most
// with the extension kept. It is for people to read; it is never a path. An
// empty name stays empty.
func Name(s string) string {
	if s == "" {
		return ""
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == '\\':
			return '_'
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			return ' '
		case r == '\u200c' || r == '\u200d': // joiners, which scripts and emoji need
			return r
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Noncharacter_Code_Point):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if strings.Trim(s, ". \u200c\u200d") == "" {
		return "file"
	}
	if utf8.RuneCountInString(s) <= longestName {
		return s
	}
	const longestExtension = 16
	ext := path.Ext(s)
	if utf8.RuneCountInString(ext) > longestExtension {
		ext = ""
	}
	stem := []rune(strings.TrimSuffix(s, ext))
	return string(stem[:longestName-1-utf8.RuneCountInString(ext)]) + "…" + ext
}
