// Package markup parses Markdown into chat.RichText and splits it into pieces that fit a
// platform's limit without breaking a code fence or a link.
//
// A text passes through Parse, then Split with the platform's limit and measure, then
// the adapter's renderer, which is not part of this package and converts spans to
// entities or markup. All functions are pure and may be called from any goroutine.
package markup

import (
	"strings"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

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
