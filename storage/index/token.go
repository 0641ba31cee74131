package index

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A token is one word of a text, or one character of a script that is written
// without spaces, as it is searched for.
type token struct {
	form     string // folded; letters, digits and marks only
	from, to int    // bytes of the text
	run      bool   // of a script without spaces
}

// tokens cuts text, which is in NFC, into its tokens. Identifiers fall into
// their parts: foo-bar.baz is foo, bar and baz.
func tokens(text string) []token {
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
		case dense(r), unicode.Is(unicode.So, r):
			word(i)
			for _, f := range fold(text[i:end]) {
				out = append(out, token{form: f, from: i, to: end, run: dense(r)})
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

// dense reports whether r is of a script that is written without spaces between
// words, or, as Korean, with endings grown onto them.
func dense(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Yi,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー'
}

// fold returns the forms under which a word is found whatever its case, width
// and accents are; mostly one.
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

// terms are the words under which tokens stand in the index: a word is itself;
// of a run of characters each stands with the next, and the last alone.
func terms(ts []token) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.form
		if joined(ts, i) {
			out[i] += ts[i+1].form
		}
	}
	return out
}

// joined reports whether token i and the next are of one run.
func joined(ts []token, i int) bool {
	return ts[i].run && i+1 < len(ts) && ts[i+1].run && ts[i].to == ts[i+1].from
}

// words is how a text is given to the index.
func words(text string) string { return strings.Join(terms(tokens(text)), " ") }
