package injection

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// invisible reports whether r is a character that shows nothing and can hide text
// or turn its order round. Joiners are among them; where they belong is for
// invisible to say.
func invisible(r rune) bool {
	switch {
	case r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F:
		return true
	case r == 0xFEFF, r == 0x00AD, r == 0x034F, r == 0x180E, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0:
		return true
	case r >= 0xFFF9 && r <= 0xFFFB, r >= 0xE0000 && r <= 0xE007F:
		return true
	}
	return false
}

// invisible reports invisible characters, except where they belong: a leading
// BOM, joiners within emoji and within scripts that are written with them, the
// tags of a flag, direction marks beside text that runs from right to left, and
// soft hyphens, which are only where a word may break.
func (s *scan) invisible(text string) {
	if plain(text) {
		return
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	var before rune // the last visible character
	flag := false   // within the tags that follow a black flag
	for i, r := range text {
		if !invisible(r) {
			before, flag = visible(before, r), r == 0x1F3F4
			continue
		}
		after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case r == 0x00AD:
		case r >= 0xE0020 && r <= 0xE007F && flag:
		case (r == 0x200C || r == 0x200D) && joins(r, before, after):
		case (r == 0x200E || r == 0x200F) && (rightToLeft(before) || rightToLeft(after)):
		default:
			s.found(InvisibleUnicode, fmt.Sprintf("U+%04X", r))
			return
		}
	}
}

// visible returns what counts as the character before a joiner: variation
// selectors, skin tones and combining marks belong to what they follow.
func visible(before, r rune) rune {
	if r == 0xFE0F || r >= 0x1F3FB && r <= 0x1F3FF {
		return before
	}
	return r
}

func joins(r, before, after rune) bool {
	if r == 0x200D && pictograph(before) && pictograph(after) {
		return true
	}
	return shaped(before) && (shaped(after) || after == utf8.RuneError || unicode.IsSpace(after) || unicode.IsPunct(after))
}

func pictograph(r rune) bool {
	switch {
	case r >= 0x1F000 && r <= 0x1FAFF, r >= 0x2190 && r <= 0x2BFF, r >= 0x3000 && r <= 0x303F, r == 0x3297, r == 0x3299:
		return true
	}
	return r == 0xA9 || r == 0xAE || r == 0x203C || r == 0x2049 || r == 0x2122 || r == 0x2139
}

// shaped reports whether r is of a script in which joiners change how letters
// are written.
func shaped(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Nko, unicode.Thaana)
}

func rightToLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}
