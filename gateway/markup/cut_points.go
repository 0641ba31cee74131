package markup

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"hermesd/gateway/chat"
)

// The places at which text may be cut, the best first.
const (
	paragraphCut = iota // between two blocks
	blankCut            // a blank line in code
	lineCut
	sentenceCut
	wordCut
	noCut
)

// choose returns where to cut a piece that may reach up to hi.
func (s *splitter) choose(hi int) int {
	if hi == len(s.text) {
		return hi
	}
	best, at := noCut, 0
	half := s.from + (hi-s.from)/2
	for i := hi; i > half && best > paragraphCut; {
		r, n := utf8.DecodeLastRuneInString(s.text[:i])
		if kind := s.cutAt(i, r); kind < best {
			// Inside a link there is no cut, however good.
			if atom, ok := s.atom(i); ok {
				i = atom.Start
				continue
			}
			best, at = kind, i
		}
		i -= n
	}
	if best < noCut && s.sizeAfter(at) {
		return at
	}
	if atom, ok := s.atom(hi); ok && s.sizeAfter(atom.Start) {
		return atom.Start
	}
	return s.shrink(hi)
}

// sizeAfter says that a cut at i makes a piece that fits, which is certain only
// for measures that grow with the text.
func (s *splitter) sizeAfter(i int) bool {
	return i > s.from && s.size(s.piece(i)) <= s.limit
}

// shrink returns the end of a piece that fits, at or before hi, whatever the
// measure; at least one rune.
func (s *splitter) shrink(hi int) int {
	for least := s.from + runeLen(s.text[s.from:]); hi > least && !s.sizeAfter(hi); {
		hi = s.rune(s.from + (hi-s.from)*7/8)
		if g := s.grapheme(hi); g > s.from {
			hi = g
		}
		hi = max(hi, least)
	}
	return hi
}

// cutAt says what kind of cut lies at i, behind the rune r. The best cut at a
// line's end is behind its line feed: the white space before it goes.
func (s *splitter) cutAt(i int, r rune) int {
	next := s.text[i]
	switch {
	case r == '\n':
		if s.besideCode(i) {
			return paragraphCut
		}
		if strings.HasSuffix(s.text[:i-1], "\n") || next == '\n' {
			if s.inCode(i) {
				return blankCut
			}
			return paragraphCut
		}
		return lineCut
	case next == '\n':
		return lineCut
	case unicode.IsSpace(r):
		if !s.ownCluster(i, r) {
			return noCut
		}
		before, _ := utf8.DecodeLastRuneInString(s.text[:i-utf8.RuneLen(r)])
		if strings.ContainsRune(".!?…:;", before) {
			return sentenceCut
		}
		return wordCut
	case strings.ContainsRune("。！？；", r):
		if s.grapheme(i) == i {
			return sentenceCut
		}
	}
	return noCut
}

// ownCluster says that the space before i is a cluster of its own.
func (s *splitter) ownCluster(i int, r rune) bool {
	start := i - utf8.RuneLen(r)
	end := i + runeLen(s.text[i:])
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(s.text[start:end], -1)
	return len(cluster) == i-start
}

// besideCode says that a code block begins at i, or has ended with the line
// before it.
func (s *splitter) besideCode(i int) bool {
	n := sort.Search(len(s.spans), func(k int) bool { return s.spans[k].Start > i })
	for k := range n {
		if sp := s.spans[k]; sp.Style == chat.CodeBlock && (sp.Start == i || sp.End == i-1) {
			return true
		}
	}
	return false
}

// inCode says that i lies inside a code block.
func (s *splitter) inCode(i int) bool {
	_, ok := s.around(i, chat.CodeBlock, chat.CodeBlock)
	return ok
}

// atom returns the link or the inline code that i lies inside of, if it fits
// into one piece and so must not be cut.
func (s *splitter) atom(i int) (chat.Span, bool) {
	sp, ok := s.around(i, chat.Link, chat.Code)
	if !ok {
		return sp, false
	}
	if s.atomAt != sp {
		whole := chat.RichText{Text: s.text[sp.Start:sp.End], Spans: clip(nil, s.spans, sp.Start, sp.End)}
		s.atomAt, s.atomFits = sp, s.size(whole) <= s.limit
	}
	return sp, s.atomFits
}

// around returns the outermost span of one of two styles that i lies strictly
// inside of.
func (s *splitter) around(i int, a, b chat.Style) (chat.Span, bool) {
	n := sort.Search(len(s.spans), func(k int) bool { return s.spans[k].Start >= i })
	for k := range n {
		if sp := s.spans[k]; sp.End > i && (sp.Style == a || sp.Style == b) {
			return sp, true
		}
	}
	return chat.Span{}, false
}
