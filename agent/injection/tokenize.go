package injection

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A word is one word of the normalised text.
type word struct {
	text string
	at   int // byte offset
	// pos counts words, and stopGap more at each end of a sentence, so that the
	// distance of two words says whether a rule may join them.
	pos int
	// quote is the number of the quotation or code span the word stands in, 0
	// for none; para that of its paragraph; fence says that it is in a block of
	// code.
	quote, para int
	fence       bool
	begins      bool // a sentence begins here
	classes     *set
	from        int // the first word of the longest phrase that ends here
}

// stopGap is what the end of a sentence counts, in words. With the default gap
// of a rule it lets two key words be joined that stand on both sides of it, but
// no filler.
const stopGap = 8

// scan is one text that is being scanned.
type scan struct {
	text  string
	list  []word
	hits  map[string]string
	lex   *lexicon
	raise []span // where rules have found something
	chunk chunk
	buf   *buffer
}

// A buffer is memory that scans use one after the other.
type buffer struct {
	list   []word
	places []match
}

// done gives the buffer back, without the text in it.
func (s *scan) done() {
	clear(s.list)
	clear(s.buf.places)
	s.buf.list = s.list[:0]
	s.lex.buffers.Put(s.buf)
}

type span struct{ from, to int }

func newScan(text string) *scan {
	l := theLexicon()
	b, ok := l.buffers.Get().(*buffer)
	if !ok {
		b = &buffer{places: make([]match, l.slots)}
	}
	return &scan{text: text, lex: l, buf: b, list: b.list}
}

func (s *scan) found(id, excerpt string) {
	if s.hits == nil {
		s.hits = map[string]string{}
	}
	if _, ok := s.hits[id]; !ok {
		s.hits[id] = clip(strings.Join(strings.Fields(excerpt), " "), 120)
	}
}

func (s *scan) findings() []Finding {
	var out []Finding
	for _, id := range ids {
		if e, ok := s.hits[id]; ok {
			out = append(out, Finding{id, e})
		}
	}
	return out
}

func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// words cuts the text into words. It reports whether there are any.
func (s *scan) words() bool {
	s.text = normalise(s.text)
	c := cutter{begins: true, fence: strings.HasPrefix(s.text, "```")}
	t := s.text
	for i := 0; i < len(t); {
		if t[i] == ' ' {
			i++
			continue
		}
		size, letter := letterAt(t, i)
		if !letter {
			c.mark(t, i)
			i += size
			continue
		}
		start := i
		for i < len(t) {
			if c := t[i]; c-'a' < 26 || c-'0' < 10 {
				i++
				continue
			}
			size, letter := letterAt(t, i)
			if !letter && !(t[i] == '\'' && i+1 < len(t) && wordByte(t[i+1])) {
				break
			}
			i += size
		}
		c.pos++
		w := word{text: t[start:i], at: start, pos: c.pos, para: c.para, fence: c.fence, begins: c.begins, from: len(s.list)}
		if c.quoted {
			w.quote = c.quotes
		}
		c.begins = false
		s.list = append(s.list, w)
		s.classify(len(s.list) - 1)
	}
	return len(s.list) > 0
}

// letterAt says how long the character at i is and whether it belongs to a word.
func letterAt(t string, i int) (int, bool) {
	if c := t[i]; c < utf8.RuneSelf {
		return 1, wordByte(c)
	}
	r, size := utf8.DecodeRuneInString(t[i:])
	return size, unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// cutter is what lies between words: ends of sentences, quotes, code.
type cutter struct {
	pos, quotes, para     int
	quoted, fence, begins bool
	mark1                 byte // what ends the quotation
}

func (c *cutter) mark(t string, i int) {
	next := byte(' ')
	if i+1 < len(t) {
		next = t[i+1]
	}
	switch b := t[i]; b {
	case '.', '!', '?', ';', ':':
		space := next == ' ' || next == '\n' || next == '"' || next == '*' || next == '<' || next == ')'
		c.begins = c.begins || space
		switch {
		case space && b == ':':
			c.pos += stopGap / 2
		case space:
			c.pos += stopGap
		}
	case '\n':
		c.newline(t, i, next)
	case '`', '"':
		if b == '`' && strings.HasPrefix(t[i:], "```") {
			return
		}
		c.toggle(b)
	case '|', '>', '&', '$', '(':
		c.begins = true
	case '-':
		if c.begins = c.begins || i == 0; strings.HasPrefix(t[i:], "-->") {
			c.pos += stopGap
		}
	}
}

func (c *cutter) toggle(b byte) {
	switch {
	case !c.quoted:
		c.quoted, c.mark1, c.begins = true, b, true
		c.quotes++
	case c.mark1 == b:
		c.quoted = false
	}
}

func (c *cutter) newline(t string, i int, next byte) {
	rest := strings.TrimLeft(t[i+1:min(len(t), i+16)], " \t>")
	switch {
	case next == '\n' || i+1 == len(t):
		c.para++
		c.pos += stopGap
		c.begins, c.quoted = true, false
	case strings.HasPrefix(rest, "```") || strings.HasPrefix(rest, "~~~"):
		c.fence, c.begins, c.quoted = !c.fence, true, false
		c.pos += stopGap
	case len(rest) > 1 && strings.IndexByte("-*#+|", rest[0]) >= 0 && strings.IndexByte(" #", rest[1]) >= 0 || c.fence || rest != "" && rest[0] >= '0' && rest[0] <= '9':
		c.pos += stopGap
		c.begins, c.quoted = true, false
	}
	if c.mark1 == '`' {
		c.quoted = false
	}
	c.begins = c.begins || rest == ""
}
