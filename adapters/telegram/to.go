package telegram

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// Size returns the length of r in UTF-16 units, in which Telegram's limits
// count; styles cost nothing.
func Size(r chat.Rich) int { return units(r.Text) }

func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// A rang is a range of bytes of a text.
type rang struct{ from, to int }

// render returns r as Telegram takes it: text, and entities with offsets in
// UTF-16 units. Telegram's rules of nesting hold for the result: nothing
// stands inside or around code, no link in a link, no quotation in a
// quotation; all other styles may overlap. Where two styles exclude each
// other, code gives way to a link and everything else to code.
func render(r chat.Rich) (string, []models.MessageEntity) {
	if !utf8.ValidString(r.Text) {
		return strings.ToValidUTF8(r.Text, "\uFFFD"), nil
	}
	spans := usable(r)
	coded := code(spans)
	left := coded // of which no entity has been made yet
	var out []models.MessageEntity
	at := newOffsets(r.Text)
	add := func(g rang, e models.MessageEntity) {
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
				add(g, models.MessageEntity{Type: models.MessageEntityTypeCode})
				left = drop(left, g)
			}
		case chat.Pre:
			if slices.Contains(left, g) {
				add(g, models.MessageEntity{Type: models.MessageEntityTypePre, Language: s.Arg})
				left = drop(left, g)
			}
		case chat.Link:
			if g.from >= links.to && !touches(coded, g) && linkable(s.Arg) {
				links = g
				add(g, models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: s.Arg})
			}
		case chat.Block:
			if g.from >= blocks.to && holds(g, append(linked(spans), coded...)) {
				blocks = g
				add(g, models.MessageEntity{Type: models.MessageEntityTypeBlockquote})
			}
		default:
			if t, ok := plainStyles(s.Style); ok {
				for _, piece := range around(g, coded) {
					add(piece, models.MessageEntity{Type: t})
				}
			}
		}
	}
	return r.Text, out
}

func plainStyles(s chat.Style) (models.MessageEntityType, bool) {
	switch s {
	case chat.Bold:
		return models.MessageEntityTypeBold, true
	case chat.Italic:
		return models.MessageEntityTypeItalic, true
	case chat.Strike:
		return models.MessageEntityTypeStrikethrough, true
	case chat.Spoiler:
		return models.MessageEntityTypeSpoiler, true
	}
	return "", false
}

// usable returns the spans that lie inside the text, outer before inner.
func usable(r chat.Rich) []chat.Span {
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
		case s.Style != chat.Code && s.Style != chat.Pre:
		case slices.ContainsFunc(links, func(l rang) bool { return l.from <= g.from && g.to <= l.to }):
		case len(out) > 0 && g.from < out[len(out)-1].to:
		default:
			out = append(out, g)
		}
	}
	return out
}

// linked returns the ranges of the links.
func linked(spans []chat.Span) []rang {
	var out []rang
	for _, s := range spans {
		if s.Style == chat.Link && linkable(s.Arg) {
			out = append(out, rang{s.Start, s.End})
		}
	}
	return out
}

// touches reports whether g overlaps one of the ranges.
func touches(in []rang, g rang) bool {
	for _, o := range in {
		if g.from < o.to && o.from < g.to {
			return true
		}
	}
	return false
}

// holds reports whether g contains each of the ranges that it touches.
func holds(g rang, in []rang) bool {
	return !slices.ContainsFunc(in, func(o rang) bool {
		return touches([]rang{o}, g) && (o.from < g.from || o.to > g.to)
	})
}

func drop(in []rang, g rang) []rang {
	return slices.DeleteFunc(slices.Clone(in), func(o rang) bool { return o == g })
}

// around returns what is left of g outside the ranges, which are in order.
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

// linkable reports whether Telegram's clients follow such a link.
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

// offsets turns byte offsets into UTF-16 ones, in any order.
type offsets struct {
	text  string
	bytes []int // at each wide rune boundary: sorted byte offsets
	units []int
}

func newOffsets(text string) *offsets {
	o := &offsets{text: text}
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

// A keyboard is the buttons under a message. The library's own type encodes an
// empty copy_text with every button, which makes each a button of two kinds.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons returns the keyboard for rows, nil if there is none.
func buttons(rows [][]chat.Button) models.ReplyMarkup {
	var k keyboard
	for _, row := range rows {
		var line []key
		for _, b := range row {
			line = append(line, key{Text: b.Label, Data: b.Data})
		}
		if len(line) > 0 {
			k.Rows = append(k.Rows, line)
		}
	}
	if k.Rows == nil {
		return nil
	}
	return k
}
