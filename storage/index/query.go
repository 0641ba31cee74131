package index

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of a query; the rest is ignored.
const (
	maxQuery   = 2000 // bytes
	maxPhrases = 24
	maxTerms   = 64
)

// A phrase is a sequence of terms that must be adjacent: the parts of one word
// of a query, or a quoted text.
type phrase struct {
	terms    []string
	isPrefix bool // the last term is a prefix
	forms    []string
}

// A parsedQuery is an analyzed query: a text must match one phrase of each
// group, and none of not.
type parsedQuery struct {
	groups [][]phrase
	not    []phrase
}

// parse accepts any text. All words must occur; "a b" is a phrase, a OR b means
// either, NOT a excludes a, and a* is a prefix.
func parse(text string) parsedQuery {
	text = norm.NFC.String(strings.ToValidUTF8(truncate(text, maxQuery), " "))
	var p parsedQuery
	or, not, count := false, false, 0
	for _, piece := range splitQuery(text) {
		switch {
		case piece == "OR" && len(p.groups) > 0:
			or = true
			continue
		case piece == "NOT":
			not = true
			continue
		case piece == "AND":
			continue
		}
		ph := newPhrase(piece)
		if count += len(ph.terms); len(ph.terms) == 0 || count > maxTerms || len(p.groups)+len(p.not) >= maxPhrases {
			continue
		}
		switch {
		case not:
			p.not = append(p.not, ph)
		case or:
			last := len(p.groups) - 1
			p.groups[last] = append(p.groups[last], ph)
		default:
			p.groups = append(p.groups, []phrase{ph})
		}
		or, not = false, false
	}
	return p
}

// splitQuery splits a query at spaces that are not in quotes.
func splitQuery(text string) []string {
	var out []string
	var b strings.Builder
	quoted := false
	end := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
		}
		b.Reset()
	}
	for _, r := range text {
		switch {
		case strings.ContainsRune(`"“”„«»`, r):
			end()
			quoted = !quoted
		case unicode.IsSpace(r) && !quoted:
			end()
		default:
			b.WriteRune(r)
		}
	}
	end()
	return out
}

func newPhrase(piece string) phrase {
	ts := tokenize(piece)
	ph := phrase{terms: terms(ts), isPrefix: strings.HasSuffix(piece, "*")}
	for _, t := range ts {
		ph.forms = append(ph.forms, t.form)
	}
	if n := len(ts); n > 0 && ts[n-1].isDense {
		// The run may continue in the text, where its last character is paired
		// with another one.
		if n > 1 && isJoined(ts, n-2) {
			ph.terms = ph.terms[:n-1]
		} else {
			ph.isPrefix = true
		}
	}
	return ph
}

func truncate(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}

func (ph phrase) expr(prefix bool) string {
	var b strings.Builder
	b.WriteByte('"')
	b.WriteString(strings.Join(ph.terms, " "))
	b.WriteByte('"')
	last := []rune(ph.terms[len(ph.terms)-1])
	if ph.isPrefix || prefix && len(last) >= 3 {
		b.WriteByte('*')
	}
	return b.String()
}

// strictExpr returns the expression for texts that match the whole query, ""
// for none.
func (p parsedQuery) strictExpr() string {
	var all []string
	for _, g := range p.groups {
		all = append(all, anyOf(g, false))
	}
	return p.exceptNot(strings.Join(all, " AND "))
}

// looseExpr returns the expression for texts that match any term of the query,
// or a word that begins with it.
func (p parsedQuery) looseExpr() string {
	var some []phrase
	for _, g := range p.groups {
		for _, ph := range g {
			for i, t := range ph.terms {
				some = append(some, phrase{terms: []string{t}, isPrefix: ph.isPrefix && i == len(ph.terms)-1})
			}
		}
	}
	if len(some) == 0 {
		return ""
	}
	return p.exceptNot(anyOf(some, true))
}

func (p parsedQuery) exceptNot(expr string) string {
	if expr == "" || len(p.not) == 0 {
		return expr
	}
	return "(" + expr + ") NOT " + anyOf(p.not, false)
}

func anyOf(ps []phrase, prefix bool) string {
	out := make([]string, len(ps))
	for i, ph := range ps {
		out[i] = ph.expr(prefix)
	}
	return "(" + strings.Join(out, " OR ") + ")"
}

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
