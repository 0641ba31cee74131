// Package markup parses Markdown once and cuts it into pieces a platform can
// carry without breaking a fence or a link.
//
// The road of a text is Parse, then Split with the platform's own limit and
// measure, then the adapter's renderer, which turns spans into entities or
// markup. All functions are pure and may be called from any goroutine.
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
	var open []int // ends of the spans around the present one
	last := chat.Span{}
	for i, s := range r.Spans {
		if s.Start < 0 || s.End > len(r.Text) || s.Start >= s.End {
			return fmt.Errorf("markup: span %d [%d,%d) is empty or out of range", i, s.Start, s.End)
		}
		if !boundary(r.Text, s.Start) || !boundary(r.Text, s.End) {
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

// Slice returns r.Text[from:to] with the spans that lie in it, cut to it.
// Offsets out of range are moved into it, offsets inside a rune to the inner
// side.
func Slice(r chat.RichText, from, to int) chat.RichText {
	from, to = max(from, 0), min(to, len(r.Text))
	for from < to && !boundary(r.Text, from) {
		from++
	}
	for to > from && !boundary(r.Text, to) {
		to--
	}
	if from >= to {
		return chat.RichText{}
	}
	return chat.RichText{Text: r.Text[from:to], Spans: clip(nil, r.Spans, from, to)}
}

// clip appends to dst what of spans lies in [from, to), relative to from.
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

// A Visitor takes a Rich apart in order; any of its functions may be nil.
type Visitor struct {
	Open  func(s chat.Span)
	Text  func(s string) // never empty
	Close func(s chat.Span)
}

// Walk calls v for the spans and the text of r from left to right, so that
// opens and closes nest: what a renderer for tagged markup needs.
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

// PlainText returns r without styles, for platforms and places that have none:
// a link is written as "text (url)" unless its text says the same already, code
// stands as it is.
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

// sameTarget says that a link's text already shows where it leads.
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

// boundary says that a rune begins at text[i] or that i is the end.
func boundary(text string, i int) bool {
	return i == len(text) || i == 0 || utf8.RuneStart(text[i])
}

// Runes measures r in code points of its text, as Discord does.
func Runes(r chat.RichText) int { return utf8.RuneCountInString(r.Text) }

// UTF16 measures r in UTF-16 code units of its text, as Telegram does.
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
