package injection

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalize returns text as used by the scan: valid UTF-8, NFKC, in lower case, without
// invisible characters, with straight quotes, and with spaced letters ("i g n o r e")
// joined.
func normalize(text string) string {
	if !isASCII(text) {
		text = norm.NFKC.String(strings.ToValidUTF8(text, " "))
		text = strings.Map(fold, text)
	}
	return joinSpaced(strings.ToLower(text))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func fold(r rune) rune {
	switch r {
	case '‘', '’', 'ʼ', '′':
		return '\''
	case '“', '”', '„', '«', '»':
		return '"'
	case '\u00A0', '\u2028', '\u2029':
		return ' '
	}
	if isInvisible(r) {
		return -1
	}
	return r
}

// joinSpaced joins runs of at least six single letters. Two or more spaces separate words
// within such a run.
func joinSpaced(s string) string {
	const minLetters = 6
	var b strings.Builder
	copied := 0
	for i := 0; i < len(s); {
		if i+1 >= len(s) || s[i+1] != ' ' {
			i++
			continue // not a single letter
		}
		end, letters := spacedRun(s, i)
		if letters >= minLetters {
			b.WriteString(s[copied:i])
			for j := i; j < end; j++ {
				if s[j] != ' ' {
					b.WriteByte(s[j])
				} else if j+1 < end && s[j+1] == ' ' {
					b.WriteByte(' ')
				}
			}
			copied = end
		}
		i = max(end, i+1)
	}
	if copied == 0 {
		return s
	}
	b.WriteString(s[copied:])
	return b.String()
}

// spacedRun returns the end of the run of single letters that begins at i, and the number
// of its letters.
func spacedRun(s string, i int) (end, letters int) {
	if i > 0 && wordByte(s[i-1]) {
		return i, 0
	}
	for end = i; end < len(s) && s[end] >= 'a' && s[end] <= 'z'; {
		next := end + 1
		if next < len(s) && wordByte(s[next]) {
			return end, letters
		}
		letters++
		end = next
		for next < len(s) && s[next] == ' ' {
			next++
		}
		if next == end || next-end > 3 || next+1 < len(s) && wordByte(s[next+1]) {
			return end, letters
		}
		end = next
	}
	return end, letters
}

func wordByte(c byte) bool {
	return c-'a' < 26 || c-'0' < 10 || c >= utf8.RuneSelf
}

// homoglyphs maps letters of other scripts, and digits, to the Latin letters that they
// resemble.
var homoglyphs = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'ԁ': 'd', 'е': 'e', 'ё': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'к': 'k', 'м': 'm', 'н': 'h',
	'о': 'o', 'р': 'p', 'ѕ': 's', 'т': 't', 'у': 'y', 'х': 'x', 'ԛ': 'q', 'ԝ': 'w', 'α': 'a', 'ε': 'e', 'ι': 'i', 'ο': 'o',
	'ρ': 'p', 'υ': 'u', 'ν': 'v', 'τ': 't', 'κ': 'k', 'ı': 'i', 'ɡ': 'g', 'ӏ': 'l', '0': 'o', '1': 'i', '3': 'e', '4': 'a',
	'5': 's', '7': 't',
}

// undisguise returns a word with homoglyphs replaced by Latin letters; ok reports whether
// the word mixes Latin letters with homoglyphs at all.
func undisguise(word string) (plain string, ok bool) {
	if !strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "", false
	}
	var latin, other bool
	for _, r := range word {
		_, twin := homoglyphs[r]
		latin = latin || r >= 'a' && r <= 'z'
		other = other || twin
		if !twin && unicode.IsDigit(r) {
			return "", false
		}
	}
	if !latin || !other {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if t, ok := homoglyphs[r]; ok {
			return t
		}
		return r
	}, word), true
}

// sortedLetters returns the letters of a word with those between the first and the last
// sorted, so that "ignroe" and "ignore" are equal. Short and very long words have none.
func sortedLetters(w string) (key [16]byte, ok bool) {
	if len(w) < 6 || len(w) > len(key) || !isASCII(w) {
		return key, false
	}
	copy(key[:], w)
	slices.Sort(key[1 : len(w)-1])
	return key, true
}

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
