package injection

import (
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
