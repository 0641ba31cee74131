package injection

import (
	"math/bits"
	"slices"
	"strings"
)

// A match is where a slot of a rule was last found: the word, counted from 1, 0
// for nowhere; and the word at which the row of slots began.
type match struct{ word, start int32 }

// match runs all rules over all words. For each slot of a rule only the last
// place matters at which the slots up to it were found: a later one is nearer to
// whatever follows. So the time is words times slots, whatever the text says.
func (s *scan) match() {
	for i := range s.list {
		w := &s.list[i]
		if w.classes == s.lex.none {
			continue
		}
		for half, some := range s.lex.concerned(w.classes) {
			for ; some != 0; some &= some - 1 {
				s.step(&s.lex.rules[half*64+bits.TrailingZeros64(some)], i)
			}
		}
	}
}

// step takes word i into a rule.
func (s *scan) step(r *rule, i int) {
	w, last := &s.list[i], s.buf.places[r.first:]
	for k := len(r.slots) - 1; k >= 0; k-- {
		if !w.classes.meets(&r.slots[k].classes) {
			continue
		}
		start := int32(i)
		if k > 0 {
			before := last[k-1]
			if before.word == 0 || w.pos-s.list[before.word-1].pos-1 > r.slots[k].gap {
				continue
			}
			start = before.start
		}
		last[k] = match{int32(i) + 1, start}
		if k == len(r.slots)-1 && !s.harmless(r, int(start), i) {
			s.hit(r, int(start), i)
		}
	}
}

func (s *scan) hit(r *rule, start, end int) {
	from, to := s.list[start].at, s.list[end].at+len(s.list[end].text)
	s.found(r.id, s.text[from:min(to, len(s.text))])
	s.raise = append(s.raise, span{from, to})
}

// harmless reports whether words that fit a rule are no attack: they are negated,
// told about, or fail a condition of the rule.
func (s *scan) harmless(r *rule, start, end int) bool {
	first := min(s.list[start].from, start)
	if r.imperative && !s.ordered(first) || s.negated(first, r.negatable) || s.mentioned(first, end) {
		return true
	}
	switch {
	case r.flags["hide"]:
		return s.harmlessSilence(end)
	case r.flags["tech"]:
		tech := set{}
		tech.add(s.lex.numbers["TECH"])
		tech.add(s.lex.numbers["PRIOR"]) // that is prompt_injection
		for i := start; i <= end; i++ {
			if s.list[i].classes.meets(&tech) {
				return true
			}
		}
	case r.flags["scoped"]:
		if end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 {
			switch s.list[end+1].text {
			case "in", "for", "about", "of", "on", "from", "to":
				return true
			}
		}
	case r.flags["own"]: // "what I said about the blue one" is taken back, and no order
		if w := &s.list[end-1]; (w.text == "i" || w.text == "we") && end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 {
			return slices.Contains([]string{"about", "regarding", "on", "in"}, s.list[end+1].text)
		}
	case r.flags["list"]: // it is only counted up among others
		before, after := s.text[:s.list[first].at], s.text[s.list[end].at+len(s.list[end].text):]
		return strings.HasSuffix(before, ", ") || strings.HasPrefix(after, ",")
	case r.flags["self"]: // what is called so is the name of something else
		w := &s.list[start]
		return w.quote != 0 && w.quote != s.list[end].quote
	case r.flags["alone"]:
		return end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 && !slices.Contains([]string{"and", "then", "this", "these"}, s.list[end+1].text)
	case r.flags["label"]:
		w := &s.list[start]
		return !w.begins || !strings.HasPrefix(s.text[w.at+len(w.text):], ":")
	case r.flags["last"]:
		return end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 && s.text[s.list[end].at+len(s.list[end].text)] != ':'
	}
	return false
}

// ordered reports whether the words from i on can be an order.
func (s *scan) ordered(i int) bool {
	if i > 1 && s.list[i-1].text == "you" && s.list[i].pos-s.list[i-2].pos == 2 {
		switch s.list[i-2].text {
		case "if", "when", "whenever", "before", "after", "once", "that":
			return false
		}
	}
	return s.list[i].begins || i == 0 || s.list[i-1].classes.meets(&s.lex.lead) || s.list[i].para != s.list[i-1].para
}

// negated reports whether a negation stands at most far words before i, with
// nothing but auxiliary words between.
func (s *scan) negated(i, far int) bool {
	for k := 1; k <= max(far, 3) && i-k >= 0; k++ {
		w := &s.list[i-k]
		if s.list[i].pos-w.pos > k {
			return false
		}
		if w.classes.meets(&s.lex.neg) {
			return true
		}
		if far <= 1 && !w.classes.meets(&s.lex.between) {
			return false
		}
	}
	return false
}

// mentioned reports whether the words from first to end are only spoken of:
// quoted in a paragraph about attacks, or reported of a third party in a
// sentence about them.
func (s *scan) mentioned(first, end int) bool {
	w := &s.list[first]
	quoted := w.quote != 0 && w.quote == s.list[end].quote
	reported := false
	for k := first - 1; k >= max(0, first-4) && s.list[first].pos-s.list[k].pos <= 4; k-- {
		reported = reported || s.list[k].classes.meets(&s.lex.report)
	}
	if !quoted && !reported {
		return false
	}
	for k := first - 1; k >= max(0, first-25) && s.list[k].para == w.para; k-- {
		c := s.list[k].classes
		if s.list[k].quote == 0 && (c.meets(&s.lex.caution) || reported && c.meets(&s.lex.foreign)) {
			return true
		}
	}
	for k := end + 1; k < min(len(s.list), end+15) && s.list[k].para == w.para; k++ {
		if s.list[k].quote == 0 && s.list[k].classes.meets(&s.lex.caution) {
			return true
		}
	}
	return false
}

// harmlessSilence reports whether "do not tell the user", which ends at end, goes
// on as an ordinary rule of work: "to do this", "until", "whether", a quotation.
func (s *scan) harmlessSilence(end int) bool {
	if end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 {
		switch next := s.list[end+1]; {
		case slices.Contains([]string{"to", "whether", "line", "their", "his", "her", "its"}, next.text):
			return true
		case end+2 < len(s.list) && (s.list[end+2].text == "each" || s.list[end+2].text == "every"):
			return true
		case next.quote != 0 && s.list[end].quote == 0 && !strings.HasPrefix(next.text, "you"):
			return true
		}
	}
	for k := end + 1; k < len(s.list) && k < end+16 && s.list[k].pos-s.list[k-1].pos == 1; k++ {
		switch s.list[k].text {
		case "until", "unless", "before", "twice":
			return true
		}
	}
	return s.manner(end)
}

// manner reports whether "do not tell the user", which ends at end, goes on with
// how it is not to be told ("line by line", "verbatim"), and not with a fact that
// is to be kept.
func (s *scan) manner(end int) bool {
	fact := false
	for k := end + 1; k < len(s.list) && k < end+16 && s.list[k].pos-s.list[k-1].pos == 1; k++ {
		w := s.list[k].text
		fact = fact || k == end+1 && (w == "that" || w == "about") || k == end+2 && s.list[end+1].text == "what" && strings.HasPrefix(w, "you")
		between := k > end+2 && (s.list[k-1].text == "by" || s.list[k-1].text == "for")
		if !fact && (w == "verbatim" || between && w == s.list[k-2].text) {
			return true
		}
	}
	return false
}
