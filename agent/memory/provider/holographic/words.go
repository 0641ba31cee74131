package holographic

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/internal/lazyregexp"
	"hermesd/internal/shorten"
)

// stopWords are left out of searches: they say little about what is meant.
var stopWords = words(`
	a an the this that these those such same other own some any all each both few more most
	i me my myself we our ours ourselves you your yours yourself yourselves
	he him his himself she her hers herself it its itself they them their theirs themselves
	who whom what which when where why how
	am is are was were be been being do does did doing don have has had having
	can could will would should
	about above after again at before below between by down during for from further in into of
	off on once out over through to under until up with
	and as because but if nor or so than then while
	here there just no not now only too very`)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		set[w] = true
	}
	return set
}

// aroundWord are characters around words that are no part of them.
const aroundWord = `.,;:!?"'()[]{}#@<>`

// tokens returns the words of texts, in lower case.
func tokens(texts ...string) map[string]bool {
	set := map[string]bool{}
	for _, s := range texts {
		for w := range strings.FieldsSeq(strings.ToLower(s)) {
			if w = strings.Trim(w, aroundWord); w != "" {
				set[w] = true
			}
		}
	}
	return set
}

// jaccard returns the share of common elements.
func jaccard(a, b map[string]bool) float64 {
	common := 0
	for w := range a {
		if b[w] {
			common++
		}
	}
	if common == 0 {
		return 0
	}
	return float64(common) / float64(len(a)+len(b)-common)
}

// maxTerms is the maximum number of words of a search.
const maxTerms = 32

// terms returns the words of a text that are searched, as FTS5 phrases: any of them is to
// occur, or, if the text consists of stop words, all.
func terms(text string) (anyOf, all []string) {
	seen := map[string]bool{}
	for w := range strings.FieldsSeq(strings.ToLower(text)) {
		w = strings.Trim(w, aroundWord)
		w = strings.Map(func(r rune) rune {
			if r == '"' || r == 0 || r == utf8.RuneError {
				return -1
			}
			return r
		}, w)
		if seen[w] || !strings.ContainsFunc(w, isWord) {
			continue
		}
		seen[w] = true
		switch {
		case stopWords[w] || utf8.RuneCountInString(w) < 2:
			all = append(all, `"`+w+`"`)
		case len(anyOf) < maxTerms:
			anyOf = append(anyOf, `"`+w+`"`)
		}
	}
	if len(anyOf) > 0 {
		return anyOf, nil
	}
	return nil, all[:min(len(all), maxTerms)]
}

// A word is a sequence of letters and digits.
type word struct {
	text  string
	after bool // only white space is between it and the word before
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func split(s string) (all []word) {
	end := 0
	for s != "" {
		start := strings.IndexFunc(s, isWord)
		if start < 0 {
			break
		}
		gap := s[:start]
		s = s[start:]
		if end = strings.IndexFunc(s, func(r rune) bool { return !isWord(r) }); end < 0 {
			end = len(s)
		}
		all = append(all, word{s[:end], len(all) > 0 && gap != "" && strings.TrimSpace(gap) == ""})
		s = s[end:]
	}
	return all
}

// isName reports whether a word is a capital and small letters, all ASCII.
func isName(s string) bool {
	return len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz") == ""
}

// Limits of the names of entities.
const (
	maxName      = 80 // characters
	maxNameWords = 8
	maxNames     = 32 // of one fact
)

// entities returns the names in a text: two or more capitalized words, what is in
// quotation marks, and both sides of "aka" and "also known as".
func entities(text string) (names []string) {
	all := split(text)
	add := func(name string) {
		name = strings.Join(strings.Fields(name), " ")
		if len(names) == maxNames || name == "" || utf8.RuneCountInString(name) > maxName || strings.Count(name, " ") >= maxNameWords ||
			!strings.ContainsFunc(name, isWord) ||
			slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, name) }) {
			return
		}
		names = append(names, name)
	}
	for i := 0; i < len(all); {
		end := i
		for end < len(all) && isName(all[end].text) && (end == i || all[end].after) {
			end++
		}
		if end-i > 1 {
			add(join(all[i:end]))
		}
		i = max(end, i+1)
	}
	for _, mark := range []byte{'"', '\''} {
		for _, s := range quoted(text, mark) {
			add(s)
		}
	}
	for i := range all {
		if n := alias(all[i:]); n > 0 && all[i].after && i+n < len(all) && all[i+n].after {
			add(before(all[:i]))
			add(behind(all[i+n:]))
		}
	}
	return names
}

func join(all []word) string {
	var b strings.Builder
	for i, w := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// quoted returns what is between two marks on one line: an apostrophe within a word is no
// mark.
func quoted(text string, mark byte) (all []string) {
	start, last := -1, ' '
	for i, r := range text {
		switch {
		case r == '\n' || r == '\r':
			start = -1
		case r != rune(mark):
		case start < 0 && !isWord(last):
			start = i + 1
		case start >= 0 && i > start:
			if next, _ := utf8.DecodeRuneInString(text[i+1:]); !isWord(next) {
				all = append(all, text[start:i])
				start = -1
			}
		}
		last = r
	}
	return all
}

// alias returns how many words say that two names are of the same thing: 0 if none do.
func alias(all []word) int {
	switch {
	case strings.EqualFold(all[0].text, "aka"):
		return 1
	case len(all) > 2 && strings.EqualFold(all[0].text, "also") && strings.EqualFold(all[1].text, "known") && strings.EqualFold(all[2].text, "as"):
		return 3
	}
	return 0
}

var particles = words("van von de del der da di la le")

func isUpper(w word) bool {
	r, _ := utf8.DecodeRuneInString(w.text)
	return unicode.IsUpper(r)
}

// before returns the name at the end of words: capitalized words with particles, else one
// word.
func before(all []word) string {
	i := len(all) - 1
	for i > 0 && len(all)-i < maxNameWords && all[i].after && isUpper(all[i]) {
		switch {
		case isUpper(all[i-1]):
			i--
		case particles[all[i-1].text] && i > 1 && all[i-1].after && isUpper(all[i-2]):
			i -= 2
		default:
			return join(all[i:])
		}
	}
	return join(all[i:])
}

// behind returns the name at the beginning of words.
func behind(all []word) string {
	end := 1
	for isUpper(all[0]) && end < min(len(all), maxNameWords) && all[end].after {
		switch {
		case isUpper(all[end]):
			end++
		case particles[all[end].text] && end+1 < len(all) && all[end+1].after && isUpper(all[end+1]):
			end += 2
		default:
			return join(all[:end])
		}
	}
	return join(all[:end])
}

var (
	preference = lazyregexp.New(`(?i)\bI\s+(?:prefer|like|love|use|want|need|always|never|usually)\s+.|\bmy\s+(?:favorite|preferred|default)\s+\w+\s+is\s+.`)
	decision   = lazyregexp.New(`(?i)\bwe\s+(?:decided|agreed|chose)\s+.|\bthe\s+project\s+(?:uses|needs|requires)\s+.`)
)

// Limits of messages that become facts, in characters.
const (
	minExtract = 10
	maxExtract = 400
)

// extract returns the fact that a message of a person states, and its category; "" if it
// states none.
func extract(text string) (content, category string) {
	if utf8.RuneCountInString(text) < minExtract {
		return "", ""
	}
	switch {
	case preference().MatchString(text):
		category = "user_pref"
	case decision().MatchString(text):
		category = "project"
	default:
		return "", ""
	}
	return clean(text[:shorten.Offset(text, maxExtract)]), category
}

// clean returns the content of a fact as it is stored.
func clean(s string) string { return strings.TrimSpace(strings.ToValidUTF8(s, "�")) }
