// Package entity converts styled text to the Bot API's text and entities. Its
// functions are pure.
package entity

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// An Entity is a styled range of a text, as the Bot API encodes it.
type Entity struct {
	Type     string `json:"type"`
	Offset   int    `json:"offset"` // in UTF-16 units
	Length   int    `json:"length"`
	URL      string `json:"url,omitempty"`
	Language string `json:"language,omitempty"`
}

// Units returns the length of s in UTF-16 units, which Telegram's limits use.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// Cut shortens s to at most n UTF-16 units, at a rune boundary.
func Cut(s string, n int) string {
	at := 0
	for i, r := range s {
		at += Units(string(r))
		if at > n {
			return s[:i]
		}
	}
	return s
}

// A rang is a range of byte offsets of a text.
type rang struct{ from, to int }

// Render converts r to text and entities with offsets in UTF-16 units. The
// result follows Telegram's nesting rules: no entity inside or around code, no
// link in a link, no block quotation in a block quotation; all other styles may
// overlap. If two styles exclude each other, a link takes precedence over code,
// and code over everything else.
func Render(r chat.RichText) (string, []Entity) {
	if !utf8.ValidString(r.Text) {
		return strings.ToValidUTF8(r.Text, "\uFFFD"), nil
	}
	spans := usable(r)
	coded := code(spans)
	whole := append(linked(spans), quoted(spans)...)
	left := coded // without an entity so far
	var out []Entity
	at := newOffsets(r.Text)
	add := func(g rang, e Entity) {
		e.Offset = at.of(g.from)
		if e.Length = at.of(g.to) - e.Offset; e.Length > 0 {
			out = append(out, e)
		}
	}
	links, blocks := rang{}, rang{}
	for _, s := range spans {
		g := rang{s.Start, s.End}
		switch s.Style {
		case chat.Code:
			if slices.Contains(left, g) {
				add(g, Entity{Type: "code"})
				left = drop(left, g)
			}
		case chat.CodeBlock:
			if slices.Contains(left, g) {
				add(g, Entity{Type: "pre", Language: s.Arg})
				left = drop(left, g)
			}
		case chat.Link:
			if g.from >= links.to && !touches(coded, g) && linkable(s.Arg) {
				links = g
				add(g, Entity{Type: "text_link", URL: s.Arg})
			}
		case chat.BlockQuote:
			if g.from >= blocks.to && holds(g, append(linked(spans), coded...)) {
				blocks = g
				add(g, Entity{Type: "blockquote"})
			}
		default:
			if t, ok := plainStyles(s.Style); ok {
				for _, piece := range within(around(g, coded), whole) {
					add(piece, Entity{Type: t})
				}
			}
		}
	}
	return r.Text, out
}

func plainStyles(s chat.Style) (string, bool) {
	switch s {
	case chat.Bold:
		return "bold", true
	case chat.Italic:
		return "italic", true
	case chat.Strike:
		return "strikethrough", true
	case chat.Spoiler:
		return "spoiler", true
	}
	return "", false
}

// usable returns the spans that are inside the text, outer before inner.
func usable(r chat.RichText) []chat.Span {
	var out []chat.Span
	for _, s := range r.Spans {
		if s.Start >= 0 && s.Start < s.End && s.End <= len(r.Text) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b chat.Span) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	return out
}

// code returns the ranges that become code: the outermost ones, outside links.
func code(spans []chat.Span) []rang {
	var out []rang
	links := linked(spans)
	for _, s := range spans {
		g := rang{s.Start, s.End}
		switch {
		case s.Style != chat.Code && s.Style != chat.CodeBlock:
		case slices.ContainsFunc(links, func(l rang) bool { return l.from <= g.from && g.to <= l.to }):
		case len(out) > 0 && g.from < out[len(out)-1].to:
		default:
			out = append(out, g)
		}
	}
	return out
}

func linked(spans []chat.Span) []rang {
	var out []rang
	for _, s := range spans {
		if s.Style == chat.Link && linkable(s.Arg) {
			out = append(out, rang{s.Start, s.End})
		}
	}
	return out
}

func touches(in []rang, g rang) bool {
	return slices.ContainsFunc(in, func(o rang) bool { return g.from < o.to && o.from < g.to })
}

// within splits ranges at the borders of others that they cross.
func within(in, others []rang) []rang {
	for _, o := range others {
		var next []rang
		for _, g := range in {
			switch {
			case g.from < o.from && o.from < g.to && g.to < o.to:
				next = append(next, rang{g.from, o.from}, rang{o.from, g.to})
			case o.from < g.from && g.from < o.to && o.to < g.to:
				next = append(next, rang{g.from, o.to}, rang{o.to, g.to})
			default:
				next = append(next, g)
			}
		}
		in = next
	}
	return in
}

func quoted(spans []chat.Span) []rang {
	var out []rang
	for _, s := range spans {
		if s.Style == chat.BlockQuote {
			out = append(out, rang{s.Start, s.End})
		}
	}
	return out
}

// holds reports whether g contains each range that it overlaps.
func holds(g rang, in []rang) bool {
	return !slices.ContainsFunc(in, func(o rang) bool {
		return touches([]rang{o}, g) && (o.from < g.from || o.to > g.to)
	})
}

func drop(in []rang, g rang) []rang {
	return slices.DeleteFunc(slices.Clone(in), func(o rang) bool { return o == g })
}

// around returns the parts of g outside the ranges, which are sorted.
func around(g rang, in []rang) []rang {
	var out []rang
	for _, o := range in {
		if o.to <= g.from || o.from >= g.to {
			continue
		}
		if o.from > g.from {
			out = append(out, rang{g.from, o.from})
		}
		g.from = o.to
	}
	if g.from < g.to {
		out = append(out, g)
	}
	return out
}

// linkable reports whether Telegram's clients follow the link s.
func linkable(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "tg", "mailto", "tel", "ton":
		return true
	}
	return false
}

// offsets converts byte offsets to UTF-16 offsets, in any order.
type offsets struct {
	bytes []int // sorted byte offsets of all rune boundaries
	units []int
}

func newOffsets(text string) *offsets {
	o := new(offsets)
	n := 0
	for i, r := range text {
		o.bytes, o.units = append(o.bytes, i), append(o.units, n)
		n++
		if r > 0xffff {
			n++
		}
	}
	o.bytes, o.units = append(o.bytes, len(text)), append(o.units, n)
	return o
}

func (o *offsets) of(b int) int {
	i, _ := slices.BinarySearch(o.bytes, b)
	return o.units[min(i, len(o.units)-1)]
}
