package index

import (
	"strings"
	"unicode/utf8"
)

// around is how many bytes of a text are shown before and behind what was
// found.
const around = 160

// snippet returns the part of text in which most different words of p stand,
// on one line. It is the beginning if none is found.
func (p parsed) snippet(text string) string {
	wanted := map[string]bool{}
	var begins []string
	for _, g := range p.groups {
		for _, ph := range g {
			for _, f := range ph.forms {
				wanted[f] = true
			}
			if ph.prefix && len(ph.forms) > 0 {
				begins = append(begins, ph.forms[len(ph.forms)-1])
			}
		}
	}
	var at []token
	for _, t := range tokens(text) {
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
		for ; j < len(at) && at[j].to <= at[i].from+2*around; j++ {
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
	return window(text, best-around/2, best+2*around)
}

// window is text from about from to about to, with … where something was left
// out, on one line.
func window(text string, from, to int) string {
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
