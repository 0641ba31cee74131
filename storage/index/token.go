package index

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A token is one word of a text, or one character of a script written without
// spaces, in the form in which it is indexed.
type token struct {
	form     string // folded; letters, digits and combining marks only
	from, to int    // byte offsets in the text
	isDense  bool   // the token is a character of a script without spaces
}

// tokenize splits text, which must be in NFC, into tokens. Identifiers are
// split into their parts: foo-bar.baz becomes foo, bar and baz.
func tokenize(text string) []token {
	var out []token
	start := -1
	word := func(end int) {
		if start >= 0 {
			for _, f := range fold(text[start:end]) {
				out = append(out, token{form: f, from: start, to: end})
			}
		}
		start = -1
	}
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError:
			word(i)
		case isDense(r), unicode.Is(unicode.So, r):
			word(i)
			for _, f := range fold(text[i:end]) {
				out = append(out, token{form: f, from: i, to: end, isDense: isDense(r)})
			}
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r) && start >= 0:
			if start < 0 {
				start = i
			}
		default:
			word(i)
		}
	}
	word(len(text))
	return out
}

// isDense reports whether r belongs to a script that is written without spaces
// between words or, like Korean, with endings attached to them.
func isDense(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Yi,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー'
}

// fold returns the forms of a word without case, width and accents; usually
// one.
func fold(word string) []string {
	ascii := true
	for i := range len(word) {
		ascii = ascii && word[i] < utf8.RuneSelf
	}
	if ascii {
		return []string{strings.ToLower(word)}
	}
	decomposed := norm.NFKD.String(word)
	bare := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x300 && r <= 0x36f:
			return -1
		case r == 'ς':
			return 'σ'
		}
		return unicode.ToLower(r)
	}, decomposed)
	return strings.FieldsFunc(norm.NFC.String(bare), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.Is(unicode.So, r)
	})
}

// terms returns the words of tokens in the index: a word itself; each character
// of a run joined with the next one, and the last one alone.
func terms(ts []token) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.form
		if isJoined(ts, i) {
			out[i] += ts[i+1].form
		}
	}
	return out
}

// isJoined reports whether token i and the next one belong to the same run.
func isJoined(ts []token, i int) bool {
	return ts[i].isDense && i+1 < len(ts) && ts[i+1].isDense && ts[i].to == ts[i+1].from
}

// indexText returns the text that is passed to the full-text table.
func indexText(text string) string { return strings.Join(terms(tokenize(text)), " ") }
