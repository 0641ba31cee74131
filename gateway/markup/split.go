package markup

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"hermesd/gateway/chat"
)

// Split cuts r into pieces whose size is at most limit. A style that spans a cut ends in
// one piece and starts again in the next, a code block with its language. Links, inline
// code and grapheme clusters are not cut if they fit into one piece.
//
// A cut is made at the last paragraph break in the second half of what fits, else at the
// last end of a line, a sentence or a word there, else between two grapheme clusters.
// Only the white space at a cut is dropped; no piece is blank. Styles that exceed the
// limit by themselves, such as a link whose target counts, are dropped from their text.
//
// size is the platform's measure (see chat.Capabilities); it should be monotone. A single
// rune without style is a piece even if its size exceeds limit.
func Split(r chat.RichText, limit int, size func(chat.RichText) int) []chat.RichText {
	if isBlank(r.Text) {
		return nil
	}
	if size(r) <= limit {
		return []chat.RichText{r}
	}
	s := splitter{text: r.Text, spans: slices.Clone(r.Spans), limit: limit, size: size, guess: max(limit, 1)}
	var pieces []chat.RichText
	for s.from < len(s.text) {
		hi := s.findLongestFit()
		if hi <= s.from {
			continue // a style was dropped
		}
		cut := s.chooseCut(hi)
		if p := s.piece(cut); !isBlank(p.Text) {
			pieces = append(pieces, p)
		}
		s.advance(cut)
	}
	return pieces
}

// A splitter is the state of Split: text before from is done, and spans that end before
// from are removed.
type splitter struct {
	text  string
	spans []chat.Span
	limit int
	size  func(chat.RichText) int
	from  int
	guess int // length of the last piece

	lastAtom chat.Span // the last link or inline code that was measured
	atomFits bool
}

// slice returns text[from:to] with its spans. Its cost depends on the piece only,
// because spans before from have been removed.
func (s *splitter) slice(to int) chat.RichText {
	n := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].Start >= to })
	return chat.RichText{Text: s.text[s.from:to], Spans: clip(nil, s.spans[:n], s.from, to)}
}

func (s *splitter) fits(to int) bool { return s.size(s.slice(to)) <= s.limit }

// piece returns the text before a cut, without trailing white space.
func (s *splitter) piece(cut int) chat.RichText {
	if cut == len(s.text) {
		return s.slice(cut)
	}
	end := s.from + len(strings.TrimRightFunc(s.text[s.from:cut], unicode.IsSpace))
	return s.slice(end)
}

// findLongestFit returns the end of the longest piece that fits, at a grapheme boundary
// if possible. If nothing fits it drops a style and returns from; without a style to drop
// it returns the end of one rune.
func (s *splitter) findLongestFit() int {
	lo, hi := s.from, 0
	for step := s.guess; ; step *= 2 {
		hi = s.runeBoundary(min(s.from+step, len(s.text)))
		if !s.fits(hi) {
			break
		}
		if lo = hi; hi == len(s.text) {
			return hi
		}
	}
	for { // lo fits, hi does not
		mid := s.runeBoundary(lo + (hi-lo)/2)
		if mid <= lo {
			mid = lo + runeLen(s.text[lo:])
		}
		if mid >= hi {
			break
		}
		if s.fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	end := s.graphemeBoundary(lo)
	if end > s.from {
		return end
	}
	if s.dropStyle() {
		return s.from
	}
	// One cluster is too long, or one rune.
	return max(lo, s.from+runeLen(s.text[s.from:]))
}

// dropStyle removes the most expensive span at from, a link before others and an outer
// one before an inner one. It reports whether there was one.
func (s *splitter) dropStyle() bool {
	worst := -1
	for i, sp := range s.spans {
		if sp.Start > s.from {
			break
		}
		if worst < 0 || len(sp.Arg) > len(s.spans[worst].Arg) {
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	s.spans = slices.Delete(s.spans, worst, worst+1)
	return true
}

// runeBoundary returns the last rune boundary at or before i.
func (s *splitter) runeBoundary(i int) int {
	for i > s.from && !isBoundary(s.text, i) {
		i--
	}
	return i
}

func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// graphemeBoundary returns the last grapheme cluster boundary at or before i, which must
// be a rune boundary.
func (s *splitter) graphemeBoundary(i int) int {
	if i >= len(s.text) || i <= s.from {
		return i
	}
	// Between two printable ASCII characters there is always a boundary.
	start := i
	for start > s.from && !(isASCII(s.text[start-1]) && isASCII(s.text[start])) {
		start--
	}
	// Whether i is a boundary depends on no text after the rune at i.
	rest := s.text[start : i+runeLen(s.text[i:])]
	for state := -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if start+len(cluster) > i {
			break
		}
		start += len(cluster)
	}
	return start
}

func isASCII(c byte) bool { return c >= ' ' && c < 0x7F }

// advance moves from to the text after a cut, skipping blank lines or spaces, and removes
// the spans that end before it.
func (s *splitter) advance(cut int) {
	s.guess = max(cut-s.from, 1)
	s.from = cut
	if cut == len(s.text) {
		return
	}
	rest := s.text[cut:]
	atLine := s.text[cut-1] == '\n' || rest[0] == '\n'
	trimmed := strings.TrimLeftFunc(rest, unicode.IsSpace)
	skip := len(rest) - len(trimmed)
	if atLine { // keep the indentation of the first line that is not blank
		skip = strings.LastIndexByte(rest[:skip], '\n') + 1
	}
	if trimmed == "" {
		skip = len(rest)
	}
	s.from += skip
	n := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].Start >= s.from })
	keep := n
	for i := n - 1; i >= 0; i-- {
		if s.spans[i].End > s.from {
			keep--
			s.spans[keep] = s.spans[i]
		}
	}
	s.spans = s.spans[keep:]
}

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
