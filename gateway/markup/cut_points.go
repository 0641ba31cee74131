package markup

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"hermesd/gateway/chat"
)

// The kinds of cut points, the best first.
const (
	paragraphCut = iota // between two blocks
	blankCut            // a blank line in code
	lineCut             // the end of a line
	sentenceCut         // the end of a sentence
	wordCut             // a space
	noCut               // not a cut point
)

// chooseCut returns the cut point for a piece that may extend to hi.
func (s *splitter) chooseCut(hi int) int {
	if hi == len(s.text) {
		return hi
	}
	best, at := noCut, 0
	half := s.from + (hi-s.from)/2
	for i := hi; i > half && best > paragraphCut; {
		r, n := utf8.DecodeLastRuneInString(s.text[:i])
		if kind := s.cutAt(i, r); kind < best {
			// A link or inline code is not cut.
			if atom, ok := s.findAtom(i); ok {
				i = atom.Start
				continue
			}
			best, at = kind, i
		}
		i -= n
	}
	if best < noCut && s.cutFits(at) {
		return at
	}
	if atom, ok := s.findAtom(hi); ok && s.cutFits(atom.Start) {
		return atom.Start
	}
	return s.shrinkToFit(hi)
}

// cutFits reports whether a cut at i results in a piece that fits. This has to
// be checked because the measure need not be monotone.
func (s *splitter) cutFits(i int) bool {
	return i > s.from && s.size(s.piece(i)) <= s.limit
}

// shrinkToFit returns the end of a piece that fits, at or before hi, for any measure.
// The piece has at least one rune, even if that does not fit.
func (s *splitter) shrinkToFit(hi int) int {
	for minEnd := s.from + runeLen(s.text[s.from:]); hi > minEnd && !s.cutFits(hi); {
		hi = s.runeBoundary(s.from + (hi-s.from)*7/8)
		if g := s.graphemeBoundary(hi); g > s.from {
			hi = g
		}
		hi = max(hi, minEnd)
	}
	return hi
}

// cutAt returns the kind of cut point at i, after the rune r. At the end of a line the
// best cut is after the line feed, because white space before a cut is dropped.
func (s *splitter) cutAt(i int, r rune) int {
	next := s.text[i]
	switch {
	case r == '\n':
		if s.isNextToCode(i) {
			return paragraphCut
		}
		if strings.HasSuffix(s.text[:i-1], "\n") || next == '\n' {
			if s.isInCode(i) {
				return blankCut
			}
			return paragraphCut
		}
		return lineCut
	case next == '\n':
		return lineCut
	case unicode.IsSpace(r):
		if !s.isOwnCluster(i, r) {
			return noCut
		}
		before, _ := utf8.DecodeLastRuneInString(s.text[:i-utf8.RuneLen(r)])
		if strings.ContainsRune(".!?…:;", before) {
			return sentenceCut
		}
		return wordCut
	case strings.ContainsRune("。！？；", r):
		if s.graphemeBoundary(i) == i {
			return sentenceCut
		}
	}
	return noCut
}

// isOwnCluster reports whether the space r before i is a grapheme cluster by itself.
func (s *splitter) isOwnCluster(i int, r rune) bool {
	start := i - utf8.RuneLen(r)
	end := i + runeLen(s.text[i:])
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(s.text[start:end], -1)
	return len(cluster) == i-start
}

// isNextToCode reports whether a code block begins at i or ends with the line before.
func (s *splitter) isNextToCode(i int) bool {
	n := sort.Search(len(s.spans), func(k int) bool { return s.spans[k].Start > i })
	for k := range n {
		if sp := s.spans[k]; sp.Style == chat.CodeBlock && (sp.Start == i || sp.End == i-1) {
			return true
		}
	}
	return false
}

// isInCode reports whether i is inside a code block.
func (s *splitter) isInCode(i int) bool {
	_, ok := s.findEnclosing(i, chat.CodeBlock, chat.CodeBlock)
	return ok
}

// findAtom returns the link or inline code around i. ok is true if it fits into one
// piece and therefore must not be cut.
func (s *splitter) findAtom(i int) (chat.Span, bool) {
	sp, ok := s.findEnclosing(i, chat.Link, chat.Code)
	if !ok {
		return sp, false
	}
	if s.lastAtom != sp {
		whole := chat.RichText{Text: s.text[sp.Start:sp.End], Spans: clip(nil, s.spans, sp.Start, sp.End)}
		s.lastAtom, s.atomFits = sp, s.size(whole) <= s.limit
	}
	return sp, s.atomFits
}

// findEnclosing returns the outermost span of one of two styles with i strictly inside.
func (s *splitter) findEnclosing(i int, a, b chat.Style) (chat.Span, bool) {
	n := sort.Search(len(s.spans), func(k int) bool { return s.spans[k].Start >= i })
	for k := range n {
		if sp := s.spans[k]; sp.End > i && (sp.Style == a || sp.Style == b) {
			return sp, true
		}
	}
	return chat.Span{}, false
}
