package injection

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"hermesd/internal/lazyregexp"
)

// A match is the last match of a slot of a rule: word is the index of the matched word plus
// 1, 0 for none; start is the index of the word at which the sequence of slots began.
type match struct{ word, start int32 }

// matchRules applies all rules to all words. For each slot of a rule only the last place
// matters at which the slots up to it were matched: a later one is closer to anything that
// follows. So the time is proportional to words times slots, for any text.
func (s *scan) matchRules() {
	for i := range s.list {
		w := &s.list[i]
		if w.classes == s.lex.none {
			continue
		}
		for half, some := range s.lex.rulesFor(w.classes) {
			for ; some != 0; some &= some - 1 {
				s.applyRule(&s.lex.rules[half*64+bits.TrailingZeros64(some)], i)
			}
		}
	}
}

// applyRule applies a rule to word i.
func (s *scan) applyRule(r *rule, i int) {
	w, last := &s.list[i], s.buf.places[r.first:]
	for k := len(r.slots) - 1; k >= 0; k-- {
		if !w.classes.intersects(&r.slots[k].classes) {
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
		if k == len(r.slots)-1 && !s.isHarmless(r, int(start), i) {
			s.addMatch(r, int(start), i)
		}
	}
}

func (s *scan) addMatch(r *rule, start, end int) {
	from, to := s.list[start].offset, s.list[end].offset+len(s.list[end].text)
	s.addFinding(r.id, s.text[from:min(to, len(s.text))])
	s.matched = append(s.matched, span{from, to})
}

// isHarmless reports whether words that match a rule are not an attack: they are negated,
// merely mentioned, or fail a condition of the rule.
func (s *scan) isHarmless(r *rule, start, end int) bool {
	first := min(s.list[start].from, start)
	if r.imperative && !s.isOrder(first) || s.isNegated(first, r.negatable) || s.isMentioned(first, end) {
		return true
	}
	switch {
	case r.flags["hide"]:
		return s.isHarmlessSilence(end)
	case r.flags["tech"]:
		tech := set{}
		tech.add(s.lex.numbers["TECH"])
		tech.add(s.lex.numbers["PRIOR"]) // reported as prompt_injection
		for i := start; i <= end; i++ {
			if s.list[i].classes.intersects(&tech) {
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
	case r.flags["own"]: // "what I said about the blue one" concerns one statement, not the instructions
		if w := &s.list[end-1]; (w.text == "i" || w.text == "we") && end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 {
			return slices.Contains([]string{"about", "regarding", "on", "in"}, s.list[end+1].text)
		}
	case r.flags["list"]: // one item of an enumeration
		before, after := s.text[:s.list[first].offset], s.text[s.list[end].offset+len(s.list[end].text):]
		return strings.HasSuffix(before, ", ") || strings.HasPrefix(after, ",")
	case r.flags["self"]: // a quoted name of something else
		w := &s.list[start]
		return w.quote != 0 && w.quote != s.list[end].quote
	case r.flags["alone"]:
		return end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 && !slices.Contains([]string{"and", "then", "this", "these"}, s.list[end+1].text)
	case r.flags["label"]:
		w := &s.list[start]
		return !w.startsSentence || !strings.HasPrefix(s.text[w.offset+len(w.text):], ":")
	case r.flags["last"]:
		return end+1 < len(s.list) && s.list[end+1].pos-s.list[end].pos == 1 && s.text[s.list[end].offset+len(s.list[end].text)] != ':'
	}
	return false
}

// isOrder reports whether the words from i on can be an order.
func (s *scan) isOrder(i int) bool {
	if i > 1 && s.list[i-1].text == "you" && s.list[i].pos-s.list[i-2].pos == 2 {
		switch s.list[i-2].text {
		case "if", "when", "whenever", "before", "after", "once", "that":
			return false
		}
	}
	return s.list[i].startsSentence || i == 0 || s.list[i-1].classes.intersects(&s.lex.lead) || s.list[i].para != s.list[i-1].para
}

// isNegated reports whether there is a negation at most far words before i, with only
// auxiliary words between.
func (s *scan) isNegated(i, far int) bool {
	for k := 1; k <= max(far, 3) && i-k >= 0; k++ {
		w := &s.list[i-k]
		if s.list[i].pos-w.pos > k {
			return false
		}
		if w.classes.intersects(&s.lex.neg) {
			return true
		}
		if far <= 1 && !w.classes.intersects(&s.lex.between) {
			return false
		}
	}
	return false
}

// isMentioned reports whether the words from first to end are only mentioned: quoted in a
// paragraph about attacks, or reported about a third party in a sentence about attacks.
func (s *scan) isMentioned(first, end int) bool {
	w := &s.list[first]
	quoted := w.quote != 0 && w.quote == s.list[end].quote
	reported := false
	for k := first - 1; k >= max(0, first-4) && s.list[first].pos-s.list[k].pos <= 4; k-- {
		reported = reported || s.list[k].classes.intersects(&s.lex.report)
	}
	if !quoted && !reported {
		return false
	}
	for k := first - 1; k >= max(0, first-25) && s.list[k].para == w.para; k-- {
		c := s.list[k].classes
		if s.list[k].quote == 0 && (c.intersects(&s.lex.caution) || reported && c.intersects(&s.lex.foreign)) {
			return true
		}
	}
	for k := end + 1; k < min(len(s.list), end+15) && s.list[k].para == w.para; k++ {
		if s.list[k].quote == 0 && s.list[k].classes.intersects(&s.lex.caution) {
			return true
		}
	}
	return false
}

// isHarmlessSilence reports whether "do not tell the user", which ends at end, continues as
// an ordinary working rule: "to do this", "until", "whether", a quotation.
func (s *scan) isHarmlessSilence(end int) bool {
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
	return s.statesManner(end)
}

// statesManner reports whether "do not tell the user", which ends at end, continues with a
// manner of telling ("line by line", "verbatim"), and not with a fact that is to be kept
// secret.
func (s *scan) statesManner(end int) bool {
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

// matchCJK finds orders to ignore earlier instructions in languages written without spaces,
// where text cannot be split into words.
func (s *scan) matchCJK() {
	const around = 160 // bytes; longer than any match
	for _, p := range cjkOrders {
		for at := 0; ; {
			i := strings.Index(s.text[at:], p.stem)
			if i < 0 {
				break
			}
			at += i
			near := s.text[max(0, at-around):min(len(s.text), at+2*around)]
			if m := p.re().FindString(near); m != "" {
				s.addFinding(PromptInjection, m)
				return
			}
			at = min(len(s.text), at+around)
		}
	}
}

type cjkOrder struct {
	stem string // part of every match; searched first
	re   func() *regexp.Regexp
}

var cjkOrders = func() (out []cjkOrder) {
	const before = `(?:之前|以前|以上|上述|上面|先前|前面|此前)`
	const orders = `(?:指示|指令|说明|說明|命令|提示|要求)`
	for _, stem := range []string{"忽略", "无视", "無視", "忘记", "忘記", "忽視", "忽视"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(stem + `[^。!?\n]{0,6}` + before + `[^。!?\n]{0,6}` + orders)})
	}
	for _, stem := range []string{"無視", "忘れ"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(`(?:以前|これまで|上記|前)の[^。!?\n]{0,6}(?:指示|命令|プロンプト)[^。!?\n]{0,6}` + stem)})
	}
	for _, stem := range []string{"무시", "잊"} {
		out = append(out, cjkOrder{stem, lazyregexp.New(`(?:이전|위의|앞의)[^.\n]{0,8}(?:지시|명령|지침)[^.\n]{0,8}` + stem)})
	}
	return out
}()
