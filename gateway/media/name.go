package media

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxName = 240 // in runes

// Name converts a sender's file name to a form that can be shown: one line of valid
// UTF-8, at most 240 characters with the extension kept, without control characters,
// path separators, invisible characters and characters that change the writing
// direction. The result is not a path. An empty name stays empty.
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
	if utf8.RuneCountInString(s) <= maxName {
		return s
	}
	const longestExtension = 16
	ext := path.Ext(s)
	if utf8.RuneCountInString(ext) > longestExtension {
		ext = ""
	}
	stem := []rune(strings.TrimSuffix(s, ext))
	return string(stem[:maxName-1-utf8.RuneCountInString(ext)]) + "…" + ext
}
