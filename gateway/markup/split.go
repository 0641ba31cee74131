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
