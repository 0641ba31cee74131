package index

import (
	"strings"
	"unicode/utf8"
)

// contextSize is the number of bytes of a text that a snippet shows before and
// after the match.
const contextSize = 160

// snippet returns the part of text that contains the largest number of
// different words of p, on one line; the beginning of text if there is none.
func (p parsedQuery) snippet(text string) string {
	wanted := map[string]bool{}
	var begins []string
	for _, g := range p.groups {
		for _, ph := range g {
			for _, f := range ph.forms {
				wanted[f] = true
			}
			if ph.isPrefix && len(ph.forms) > 0 {
				begins = append(begins, ph.forms[len(ph.forms)-1])
			}
		}
	}
	var at []token
	for _, t := range tokenize(text) {
		hit := wanted[t.form]
		for _, b := range begins {
			hit = hit || strings.HasPrefix(t.form, b)
		}
		if hit {
			at = append(at, t)
		}
	}
	best, most, seen := 0, 0, map[string]int{}
	for i, j := 0, 0; i < len(at) && most < len(wanted); i++ {
		for ; j < len(at) && at[j].to <= at[i].from+2*contextSize; j++ {
			seen[at[j].form]++
		}
		if len(seen) > most {
			best, most = at[i].from, len(seen)
		}
		if seen[at[i].form]--; seen[at[i].form] <= 0 {
			delete(seen, at[i].form)
		}
		j = max(j, i+1)
	}
	return excerpt(text, best-contextSize/2, best+2*contextSize)
}

// excerpt returns text from about from to about to on one line, with … where
// text is omitted.
func excerpt(text string, from, to int) string {
	from, to = max(from, 0), min(to, len(text))
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	s := strings.Join(strings.Fields(text[from:to]), " ")
	if from > 0 {
		s = "…" + s
	}
	if to < len(text) {
		s += "…"
	}
	return s
}
