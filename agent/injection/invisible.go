package injection

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isInvisible reports whether r is a character that is not displayed and can hide text or
// reverse its direction. Joiners are included; matchInvisible decides where they are
// legitimate.
func isInvisible(r rune) bool {
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

// matchInvisible reports invisible characters, except where they are legitimate: a leading
// BOM, joiners within emoji and within scripts that use them, the tags of a flag, direction
// marks next to right-to-left text, and soft hyphens.
func (s *scan) matchInvisible(text string) {
	if isASCII(text) {
		return
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	var before rune // the last visible character
	flag := false   // within the tags that follow a black flag
	for i, r := range text {
		if !isInvisible(r) {
			before, flag = baseOf(before, r), r == 0x1F3F4
			continue
		}
		after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case r == 0x00AD:
		case r >= 0xE0020 && r <= 0xE007F && flag:
		case (r == 0x200C || r == 0x200D) && joinerAllowed(r, before, after):
		case (r == 0x200E || r == 0x200F) && (isRightToLeft(before) || isRightToLeft(after)):
		default:
			s.addFinding(InvisibleUnicode, fmt.Sprintf("U+%04X", r))
			return
		}
	}
}

// baseOf returns the character to which a following joiner applies: variation selectors and
// skin tones belong to the character before them.
func baseOf(before, r rune) rune {
	if r == 0xFE0F || r >= 0x1F3FB && r <= 0x1F3FF {
		return before
	}
	return r
}

func joinerAllowed(r, before, after rune) bool {
	if r == 0x200D && isPictograph(before) && isPictograph(after) {
		return true
	}
	return usesJoiners(before) && (usesJoiners(after) || after == utf8.RuneError || unicode.IsSpace(after) || unicode.IsPunct(after))
}

func isPictograph(r rune) bool {
	switch {
	case r >= 0x1F000 && r <= 0x1FAFF, r >= 0x2190 && r <= 0x2BFF, r >= 0x3000 && r <= 0x303F, r == 0x3297, r == 0x3299:
		return true
	}
	return r == 0xA9 || r == 0xAE || r == 0x203C || r == 0x2049 || r == 0x2122 || r == 0x2139
}

// usesJoiners reports whether r belongs to a script in which joiners change the shape of
// letters.
func usesJoiners(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Nko, unicode.Thaana)
}

func isRightToLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}
