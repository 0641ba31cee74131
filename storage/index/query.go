package index

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// The most that is read of a query.
const (
	maxQuery   = 2000 // bytes
	maxPhrases = 24
	maxTerms   = 64
)

// A phrase is what must stand together: the parts of one word of a query, or
// what somebody has quoted.
type phrase struct {
	terms  []string
	prefix bool // the last term may go on
	forms  []string
}

// A parsed is a query as it was understood: one phrase of each group, and none
// of not.
type parsed struct {
	groups [][]phrase
	not    []phrase
}

// parse understands any text. Words must all be there; "a b" stands together,
// a OR b is either, NOT a is without, and a* is a beginning.
func parse(text string) parsed {
	text = norm.NFC.String(strings.ToValidUTF8(cut(text, maxQuery), " "))
	var p parsed
	or, not, count := false, false, 0
	for _, piece := range pieces(text) {
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

// pieces cuts a query at spaces that are not in quotes.
func pieces(text string) []string {
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
	ts := tokens(piece)
	ph := phrase{terms: terms(ts), prefix: strings.HasSuffix(piece, "*")}
	for _, t := range ts {
		ph.forms = append(ph.forms, t.form)
	}
	if n := len(ts); n > 0 && ts[n-1].run {
		// The run may go on in the text: its last character stands there with another.
		if n > 1 && joined(ts, n-2) {
			ph.terms = ph.terms[:n-1]
		} else {
			ph.prefix = true
		}
	}
	return ph
}

func cut(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}

func (ph phrase) expr(prefix bool) string {
	var b strings.Builder
	b.WriteByte('"')
	b.WriteString(strings.Join(ph.terms, " "))
	b.WriteByte('"')
	last := []rune(ph.terms[len(ph.terms)-1])
	if ph.prefix || prefix && len(last) >= 3 {
		b.WriteByte('*')
	}
	return b.String()
}

// strict is the expression for texts that have all that was asked for; "" for
// nothing.
func (p parsed) strict() string {
	var all []string
	for _, g := range p.groups {
		all = append(all, either(g, false))
	}
	return p.without(strings.Join(all, " AND "))
}

// loose is the expression for texts that have anything of it, or words that
// begin so.
func (p parsed) loose() string {
	var some []phrase
	for _, g := range p.groups {
		for _, ph := range g {
			for i, t := range ph.terms {
				some = append(some, phrase{terms: []string{t}, prefix: ph.prefix && i == len(ph.terms)-1})
			}
		}
	}
	if len(some) == 0 {
		return ""
	}
	return p.without(either(some, true))
}

func (p parsed) without(expr string) string {
	if expr == "" || len(p.not) == 0 {
		return expr
	}
	return "(" + expr + ") NOT " + either(p.not, false)
}

func either(ps []phrase, prefix bool) string {
	out := make([]string, len(ps))
	for i, ph := range ps {
		out[i] = ph.expr(prefix)
	}
	return "(" + strings.Join(out, " OR ") + ")"
}
