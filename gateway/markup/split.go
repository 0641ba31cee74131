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

// Split cuts r into pieces whose size is at most limit, in order. Styles that
// reach over a cut end in one piece and begin again in the next, a code block
// with its language. A link, inline code and a grapheme cluster stay whole if
// they fit into a piece at all.
//
// A cut is made at the last paragraph break of the second half of what fits,
// else at the last end of a line, of a sentence or of a word in it, else
// between two grapheme clusters. The white space at a cut is dropped, and
// nothing else; no piece is blank. Styles that alone exceed the limit, such as
// a link whose target counts, are dropped from the text they cover.
//
// size is the platform's measure (see chat.Features); it should not shrink as
// text grows. If not even one rune without style has size limit, that rune is a
// piece nevertheless.
func Split(r chat.RichText, limit int, size func(chat.RichText) int) []chat.RichText {
	if blank(r.Text) {
		return nil
	}
	if size(r) <= limit {
		return []chat.RichText{r}
	}
	s := splitter{text: r.Text, spans: slices.Clone(r.Spans), limit: limit, size: size, guess: max(limit, 1)}
	var pieces []chat.RichText
	for s.from < len(s.text) {
		hi := s.reach()
		if hi <= s.from {
			continue // a style was dropped
		}
		cut := s.choose(hi)
		if p := s.piece(cut); !blank(p.Text) {
			pieces = append(pieces, p)
		}
		s.advance(cut)
	}
	return pieces
}

// A splitter is at from in text. Spans that end there are gone from spans.
type splitter struct {
	text  string
	spans []chat.Span
	limit int
	size  func(chat.RichText) int
	from  int
	guess int // length of the last piece

	atomAt   chat.Span // the last link or inline code that was measured
	atomFits bool
}

// slice returns text[from:to] with its spans. Spans before from have been
// removed, so the work is that of the piece.
func (s *splitter) slice(to int) chat.RichText {
	n := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].Start >= to })
	return chat.RichText{Text: s.text[s.from:to], Spans: clip(nil, s.spans[:n], s.from, to)}
}

func (s *splitter) fits(to int) bool { return s.size(s.slice(to)) <= s.limit }

// piece returns what a cut leaves on its left, without the white space there.
func (s *splitter) piece(cut int) chat.RichText {
	if cut == len(s.text) {
		return s.slice(cut)
	}
	end := s.from + len(strings.TrimRightFunc(s.text[s.from:cut], unicode.IsSpace))
	return s.slice(end)
}

// reach returns the end of the longest piece that fits, at a boundary of
// graphemes if there is one. If nothing fits it drops a style and returns from,
// and if there is none, returns the end of one rune.
func (s *splitter) reach() int {
	lo, hi := s.from, 0
	for step := s.guess; ; step *= 2 {
		hi = s.rune(min(s.from+step, len(s.text)))
		if !s.fits(hi) {
			break
		}
		if lo = hi; hi == len(s.text) {
			return hi
		}
	}
	for { // lo fits, hi does not
		mid := s.rune(lo + (hi-lo)/2)
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
	end := s.grapheme(lo)
	if end > s.from {
		return end
	}
	if s.dropStyle() {
		return s.from
	}
	// One cluster is too long, or one rune.
	return max(lo, s.from+runeLen(s.text[s.from:]))
}

// dropStyle removes the span at from that costs most: a link before others, an
// outer one before an inner one.
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

// rune returns the boundary of runes at or before i.
func (s *splitter) rune(i int) int {
	for i > s.from && !boundary(s.text, i) {
		i--
	}
	return i
}

func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// grapheme returns the boundary of grapheme clusters at or before i, which is a
// boundary of runes.
func (s *splitter) grapheme(i int) int {
	if i >= len(s.text) || i <= s.from {
		return i
	}
	// Between two printable ASCII characters there is always a boundary.
	start := i
	for start > s.from && !(ascii(s.text[start-1]) && ascii(s.text[start])) {
		start--
	}
	// Whether i is a boundary depends on the rune behind it, and on no more.
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

func ascii(c byte) bool { return c >= ' ' && c < 0x7F }

// advance moves to the text behind a cut, without the blank lines or the spaces
// there, and forgets the spans that end before it.
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
