// Package markup parses Markdown into chat.RichText and splits it into pieces that fit a
// platform's limit without breaking a code fence or a link.
//
// A text passes through Parse, then Split with the platform's limit and measure, then
// the adapter's renderer, which is not part of this package and converts spans to
// entities or markup. All functions are pure and may be called from any goroutine.
package markup

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// Check reports the first way in which r is not well formed: text that is not
// UTF-8, or spans that are empty, out of range, out of order, off the
// boundaries of runes, or crossing. Everything this package returns for well
// formed input is well formed.
func Check(r chat.RichText) error {
	if !utf8.ValidString(r.Text) {
		return fmt.Errorf("markup: text is not UTF-8")
	}
	var open []int // ends of the spans that enclose the current one
	last := chat.Span{}
	for i, s := range r.Spans {
		if s.Start < 0 || s.End > len(r.Text) || s.Start >= s.End {
			return fmt.Errorf("markup: span %d [%d,%d) is empty or out of range", i, s.Start, s.End)
		}
		if !isBoundary(r.Text, s.Start) || !isBoundary(r.Text, s.End) {
			return fmt.Errorf("markup: span %d [%d,%d) cuts a rune", i, s.Start, s.End)
		}
		if i > 0 && (s.Start < last.Start || s.Start == last.Start && s.End > last.End) {
			return fmt.Errorf("markup: span %d [%d,%d) is out of order", i, s.Start, s.End)
		}
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1] < s.End {
			return fmt.Errorf("markup: span %d [%d,%d) crosses another", i, s.Start, s.End)
		}
		open = append(open, s.End)
		last = s
	}
	return nil
}

// Slice returns r.Text[from:to] with its spans, clipped to the range. Offsets out of
// range are clamped; offsets inside a rune are moved so that the range shrinks.
func Slice(r chat.RichText, from, to int) chat.RichText {
	from, to = max(from, 0), min(to, len(r.Text))
	for from < to && !isBoundary(r.Text, from) {
		from++
	}
	for to > from && !isBoundary(r.Text, to) {
		to--
	}
	if from >= to {
		return chat.RichText{}
	}
	return chat.RichText{Text: r.Text[from:to], Spans: clip(nil, r.Spans, from, to)}
}

// clip appends to dst the parts of spans in [from, to), relative to from.
func clip(dst, spans []chat.Span, from, to int) []chat.Span {
	for _, s := range spans {
		if s.Start >= to {
			break
		}
		s.Start, s.End = max(s.Start, from)-from, min(s.End, to)-from
		if s.Start < s.End {
			dst = append(dst, s)
		}
	}
	return dst
}

// Concat returns the parts one after another, each with its own spans.
func Concat(parts ...chat.RichText) chat.RichText {
	var text strings.Builder
	var spans []chat.Span
	for _, p := range parts {
		base := text.Len()
		text.WriteString(p.Text)
		for _, s := range p.Spans {
			s.Start, s.End = s.Start+base, s.End+base
			spans = append(spans, s)
		}
	}
	return chat.RichText{Text: text.String(), Spans: spans}
}

// A Visitor holds the functions called by Walk; any of them may be nil.
type Visitor struct {
	Open  func(s chat.Span)
	Text  func(s string) // never empty
	Close func(s chat.Span)
}

// Walk calls v for the spans and the text of r from left to right, so that Open and
// Close calls nest, as a renderer of tagged markup needs.
func Walk(r chat.RichText, v Visitor) {
	pos := 0
	text := func(to int) {
		if to > pos && v.Text != nil {
			v.Text(r.Text[pos:to])
		}
		pos = max(pos, to)
	}
	var open []chat.Span
	closeUntil := func(at int) {
		for len(open) > 0 && open[len(open)-1].End <= at {
			s := open[len(open)-1]
			text(s.End)
			if v.Close != nil {
				v.Close(s)
			}
			open = open[:len(open)-1]
		}
	}
	for _, s := range r.Spans {
		closeUntil(s.Start)
		text(s.Start)
		if v.Open != nil {
			v.Open(s)
		}
		open = append(open, s)
	}
	closeUntil(len(r.Text))
	text(len(r.Text))
}

// PlainText returns r without styles. A link is written as "text (url)" unless its text
// already shows the URL.
func PlainText(r chat.RichText) string {
	var b strings.Builder
	Walk(r, Visitor{
		Text: func(s string) { b.WriteString(s) },
		Close: func(s chat.Span) {
			if s.Style == chat.Link && !sameTarget(r.Text[s.Start:s.End], s.Arg) {
				b.WriteString(" (" + s.Arg + ")")
			}
		},
	})
	return b.String()
}

// sameTarget reports whether a link's text already shows its URL.
func sameTarget(text, url string) bool {
	if text == url {
		return true
	}
	for _, scheme := range []string{"http://", "https://", "mailto:", "tel:"} {
		if rest, ok := strings.CutPrefix(url, scheme); ok {
			return text == rest || text+"/" == rest
		}
	}
	return false
}

// isBoundary reports whether a rune begins at text[i] or i is the end.
func isBoundary(text string, i int) bool {
	return i == len(text) || i == 0 || utf8.RuneStart(text[i])
}

// Runes returns the length of r's text in code points, the unit of Discord.
func Runes(r chat.RichText) int { return utf8.RuneCountInString(r.Text) }

// UTF16 returns the length of r's text in UTF-16 code units, the unit of Telegram.
func UTF16(r chat.RichText) int { return utf16Len(r.Text) }

func utf16Len(s string) int {
	n := 0
	for _, c := range []byte(s) {
		// One unit for each rune, a second one for those of four bytes.
		if c&0xC0 != 0x80 {
			n++
		}
		if c >= 0xF0 {
			n++
		}
	}
	return n
}

// UTF16Offsets returns the spans of r with Start and End counted in UTF-16 code
// units, in the same order.
func UTF16Offsets(r chat.RichText) []chat.Span {
	if len(r.Spans) == 0 {
		return nil
	}
	offsets := make([]int, 0, 2*len(r.Spans))
	for _, s := range r.Spans {
		offsets = append(offsets, s.Start, s.End)
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets)
	units := make([]int, len(offsets))
	pos, n := 0, 0
	for i, o := range offsets {
		o = min(max(o, 0), len(r.Text))
		n += utf16Len(r.Text[pos:o])
		pos, units[i] = o, n
	}
	at := func(o int) int {
		i, _ := slices.BinarySearch(offsets, o)
		return units[i]
	}
	spans := slices.Clone(r.Spans)
	for i := range spans {
		spans[i].Start, spans[i].End = at(spans[i].Start), at(spans[i].End)
	}
	return spans
}
