package injection

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/internal/shorten"
)

// A word is one word of the normalized text.
type word struct {
	text   string
	offset int // byte offset
	// pos counts words, plus stopGap at each end of a sentence, so that the distance of two
	// words determines whether a rule may connect them.
	pos int
	// quote is the number of the quotation or code span that contains the word, 0 for none;
	// para is the number of its paragraph; fence reports whether it is in a code block.
	quote, para    int
	fence          bool
	startsSentence bool // the word begins a sentence
	classes        *set
	from           int // index of the first word of the longest phrase that ends here
}

// stopGap is the weight of the end of a sentence, in words. With the default gap of a rule
// it allows two keywords directly on both sides of it to be connected, but no filler words.
const stopGap = 8

// scan is the scan of one text.
type scan struct {
	text    string
	list    []word
	hits    map[string]string
	lex     *lexicon
	matched []span // matches of rules
	chunk   chunk
	buf     *buffer
}

// A buffer is memory that is reused between scans.
type buffer struct {
	list   []word
	places []match
}

// release returns the buffer to the pool, without the text in it.
func (s *scan) release() {
	clear(s.list)
	clear(s.buf.places)
	s.buf.list = s.list[:0]
	s.lex.buffers.Put(s.buf)
}

type span struct{ from, to int }

func newScan(text string) *scan {
	l := loadLexicon()
	b, ok := l.buffers.Get().(*buffer)
	if !ok {
		b = &buffer{places: make([]match, l.slots)}
	}
	return &scan{text: text, lex: l, buf: b, list: b.list}
}

func (s *scan) addFinding(id, excerpt string) {
	if s.hits == nil {
		s.hits = map[string]string{}
	}
	if _, ok := s.hits[id]; !ok {
		s.hits[id] = shorten.Line(excerpt, 120)
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

// tokenize splits the text into words. It reports whether there are any.
func (s *scan) tokenize() bool {
	s.text = normalize(s.text)
	c := tokenizer{startsSentence: true, fence: strings.HasPrefix(s.text, "```")}
	t := s.text
	for i := 0; i < len(t); {
		if t[i] == ' ' {
			i++
			continue
		}
		size, letter := letterAt(t, i)
		if !letter {
			c.handleMark(t, i)
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
		w := word{text: t[start:i], offset: start, pos: c.pos, para: c.para, fence: c.fence, startsSentence: c.startsSentence, from: len(s.list)}
		if c.quoted {
			w.quote = c.quotes
		}
		c.startsSentence = false
		s.list = append(s.list, w)
		s.classify(len(s.list) - 1)
	}
	return len(s.list) > 0
}

// letterAt returns the size of the character at i and whether it can be part of a word.
func letterAt(t string, i int) (int, bool) {
	if c := t[i]; c < utf8.RuneSelf {
		return 1, wordByte(c)
	}
	r, size := utf8.DecodeRuneInString(t[i:])
	return size, unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// tokenizer tracks what is between words: ends of sentences, quotes, code.
type tokenizer struct {
	pos, quotes, para             int
	quoted, fence, startsSentence bool
	quoteEnd                      byte // character that ends the quotation
}

func (c *tokenizer) handleMark(t string, i int) {
	next := byte(' ')
	if i+1 < len(t) {
		next = t[i+1]
	}
	switch b := t[i]; b {
	case '.', '!', '?', ';', ':':
		space := next == ' ' || next == '\n' || next == '"' || next == '*' || next == '<' || next == ')'
		c.startsSentence = c.startsSentence || space
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
		c.startsSentence = true
	case '-':
		if c.startsSentence = c.startsSentence || i == 0; strings.HasPrefix(t[i:], "-->") {
			c.pos += stopGap
		}
	}
}

func (c *tokenizer) toggle(b byte) {
	switch {
	case !c.quoted:
		c.quoted, c.quoteEnd, c.startsSentence = true, b, true
		c.quotes++
	case c.quoteEnd == b:
		c.quoted = false
	}
}

func (c *tokenizer) newline(t string, i int, next byte) {
	rest := strings.TrimLeft(t[i+1:min(len(t), i+16)], " \t>")
	switch {
	case next == '\n' || i+1 == len(t):
		c.para++
		c.pos += stopGap
		c.startsSentence, c.quoted = true, false
	case strings.HasPrefix(rest, "```") || strings.HasPrefix(rest, "~~~"):
		c.fence, c.startsSentence, c.quoted = !c.fence, true, false
		c.pos += stopGap
	case len(rest) > 1 && strings.IndexByte("-*#+|", rest[0]) >= 0 && strings.IndexByte(" #", rest[1]) >= 0 || c.fence || rest != "" && rest[0] >= '0' && rest[0] <= '9':
		c.pos += stopGap
		c.startsSentence, c.quoted = true, false
	}
	if c.quoteEnd == '`' {
		c.quoted = false
	}
	c.startsSentence = c.startsSentence || rest == ""
}
