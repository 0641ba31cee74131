// Package mrkdwn renders styled text as mrkdwn, Slack's markup, and parses
// messages of users to plain text. Its functions are pure.
package mrkdwn

import (
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// gap is invisible. Slack recognizes a marker only at a word boundary; a gap
// makes a boundary where there is none.
const gap = "\u200b"

// fence encloses preformatted text.
const fence = "```"

// Escape returns s so that Slack shows it as it is.
func Escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// Render returns r as mrkdwn. Styles that Slack lacks fall away and leave their
// text; a span that is not inside the text or crosses another is none.
func Render(r chat.RichText) string {
	t := newText(r)
	var b strings.Builder
	for pos := 0; pos < len(t.s); {
		if p, ok := t.preAt(pos); ok {
			t.pre(&b, p)
			pos = p.End
			continue
		}
		end := t.lineEnd(pos)
		if t.quoted(pos) {
			b.WriteString("> ")
		}
		line := strings.TrimSuffix(t.s[pos:end], "\n")
		t.inline(&b, pos, pos+len(line), t.spans)
		b.WriteString(t.s[pos+len(line) : end])
		pos = end
	}
	return b.String()
}

// Size returns the length of r as it is sent, in UTF-16 units: never less than
// what Slack counts.
func Size(r chat.RichText) int { return units(Render(r)) }

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

// A text is styled text with spans that can be relied on.
type text struct {
	s      string
	spans  []chat.Span // of lines, outer before inner, none crossing
	pres   []chat.Span
	quotes []chat.Span
}

func newText(r chat.RichText) text {
	t := text{s: strings.ToValidUTF8(r.Text, "\uFFFD")}
	if t.s != r.Text {
		return t
	}
	spans := slices.Clone(r.Spans)
	slices.SortStableFunc(spans, func(a, b chat.Span) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	var open []int // ends of the spans around
	for _, s := range spans {
		if s.Start < 0 || s.Start >= s.End || s.End > len(t.s) || !edge(t.s, s.Start) || !edge(t.s, s.End) {
			continue
		}
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && open[len(open)-1] < s.End {
			continue // crosses
		}
		open = append(open, s.End)
		switch s.Style {
		case chat.CodeBlock:
			if n := len(t.pres); n == 0 || t.pres[n-1].End <= s.Start {
				t.pres = append(t.pres, s)
			}
		case chat.BlockQuote:
			t.quotes = append(t.quotes, s)
		case chat.Spoiler: // Slack has none
		default:
			t.spans = append(t.spans, s)
		}
	}
	return t
}

func edge(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

// lineEnd returns where the line at pos ends, its line feed included, or where
// preformatted text begins in it.
func (t text) lineEnd(pos int) int {
	end := len(t.s)
	if i := strings.IndexByte(t.s[pos:], '\n'); i >= 0 {
		end = pos + i + 1
	}
	for _, p := range t.pres {
		if p.Start > pos && p.Start < end {
			return p.Start
		}
	}
	return end
}

func (t text) preAt(pos int) (chat.Span, bool) {
	for _, p := range t.pres {
		if p.Start == pos {
			return p, true
		}
	}
	return chat.Span{}, false
}

func (t text) quoted(pos int) bool {
	return slices.ContainsFunc(t.quotes, func(q chat.Span) bool { return q.Start <= pos && pos < q.End })
}

// pre writes preformatted text on lines of its own.
func (t text) pre(b *strings.Builder, p chat.Span) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	body := strings.TrimSuffix(t.s[p.Start:p.End], "\n")
	b.WriteString(fence + "\n" + Escape(strings.ReplaceAll(body, fence, "``"+gap+"`")) + "\n" + fence)
	if p.End < len(t.s) && (t.s[p.End-1] == '\n' || t.s[p.End] != '\n') {
		b.WriteByte('\n')
	}
}

// inline writes t.s[from:to], which is in one line, with the styles of spans.
func (t text) inline(b *strings.Builder, from, to int, spans []chat.Span) {
	pos := from
	for i, s := range spans {
		s.Start, s.End = t.trim(max(s.Start, pos), min(s.End, to))
		if s.Start >= s.End {
			continue
		}
		b.WriteString(Escape(t.s[pos:s.Start]))
		t.styled(b, s, spans[i+1:])
		pos = s.End
	}
	if pos < to {
		b.WriteString(Escape(t.s[pos:to]))
	}
}

// trim excludes spaces at the ends of a range: a marker must be adjacent to a
// word.
func (t text) trim(from, to int) (start, end int) {
	if from >= to {
		return from, from
	}
	part := t.s[from:to]
	from += len(part) - len(strings.TrimLeftFunc(part, unicode.IsSpace))
	to -= len(part) - len(strings.TrimRightFunc(part, unicode.IsSpace))
	return from, max(from, to)
}

func (t text) styled(b *strings.Builder, s chat.Span, inner []chat.Span) {
	part := t.s[s.Start:s.End]
	mark := ""
	switch s.Style {
	case chat.Link:
		b.WriteString(link(s.Arg, part))
		return
	case chat.Code:
		if strings.Contains(part, "`") {
			b.WriteString(Escape(part)) // cannot be written as code
			return
		}
		mark = "`"
	case chat.Bold:
		mark = "*"
	case chat.Italic:
		mark = "_"
	case chat.Strike:
		mark = "~"
	}
	before, _ := utf8.DecodeLastRuneInString(t.s[:s.Start])
	after, _ := utf8.DecodeRuneInString(t.s[s.End:])
	if mark != "" && inWord(before) {
		b.WriteString(gap)
	}
	b.WriteString(mark)
	if s.Style == chat.Code {
		b.WriteString(Escape(part))
	} else {
		same := func(x chat.Span) bool { return x.Style == s.Style && x.Start < s.End }
		t.inline(b, s.Start, s.End, slices.DeleteFunc(slices.Clone(inner), same))
	}
	b.WriteString(mark)
	if mark != "" && inWord(after) {
		b.WriteString(gap)
	}
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// link returns a link, or its text and address if Slack would misread the link.
func link(address, label string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" || strings.ContainsFunc(address, unicode.IsSpace) {
		if label == address || address == "" {
			return Escape(label)
		}
		return Escape(label + " (" + address + ")")
	}
	target := strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C").Replace(address)
	if label == address {
		return "<" + target + ">"
	}
	return "<" + target + "|" + strings.ReplaceAll(Escape(label), "|", "¦") + ">"
}

// A Reference is an entity in Slack's message format, such as <@U1> or
// <https://example.com|here>.
type Reference struct {
	// Mark is '@' for a user, '#' for a channel, '!' for a group or a date, 0 for
	// a link.
	Mark  byte
	ID    string // of the user or the channel; the address of a link
	Label string // as Slack writes it; may be empty
}

// Read returns a user's message as plain text. name returns the text of a
// reference; "" means the reference's default text.
func Read(s string, name func(Reference) string) string {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '<')
		if open < 0 {
			break
		}
		end := strings.IndexByte(s[open:], '>')
		if end < 0 {
			break
		}
		b.WriteString(Unescape(s[:open]))
		b.WriteString(read(s[open+1:open+end], name))
		s = s[open+end+1:]
	}
	b.WriteString(Unescape(s))
	return b.String()
}

// Unescape undoes Escape.
func Unescape(s string) string {
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(s)
}

func read(inner string, name func(Reference) string) string {
	id, label, _ := strings.Cut(inner, "|")
	r := Reference{ID: id, Label: Unescape(label)}
	if id != "" && strings.IndexByte("@#!", id[0]) >= 0 {
		r.Mark, r.ID = id[0], id[1:]
	}
	if s := name(r); s != "" {
		return s
	}
	switch r.Mark {
	case '@', '#':
		if r.Label != "" {
			return string(r.Mark) + strings.TrimLeft(r.Label, "@#")
		}
		return string(r.Mark) + r.ID
	case '!':
		if r.Label != "" {
			return r.Label
		}
		word, _, _ := strings.Cut(r.ID, "^")
		return "@" + word
	}
	return Link(Unescape(r.ID), r.Label)
}

// Link returns a link as plain text: its label and its address, unless the label
// is the address.
func Link(address, label string) string {
	_, bare, _ := strings.Cut(address, ":")
	bare = strings.TrimPrefix(bare, "//")
	switch label {
	case "", address, bare, strings.TrimSuffix(bare, "/"):
		return address
	}
	return label + " (" + address + ")"
}

// Sections returns r as mrkdwn in pieces of at most limit UTF-16 units each, cut
// at line ends where possible. A style, a link or preformatted text that is cut
// is complete in each piece.
func Sections(r chat.RichText, limit int) []string {
	r.Text = strings.ToValidUTF8(r.Text, "\uFFFD")
	var out []string
	for from := 0; from < len(r.Text); {
		to := next(r, from, limit)
		if piece := strings.Trim(Render(part(r, from, to)), "\n"); strings.TrimSpace(piece) != "" {
			out = append(out, piece)
		}
		from = to
	}
	return out
}

// next returns the end of the piece that starts at from.
func next(r chat.RichText, from, limit int) int {
	fits := func(to int) bool { return Size(part(r, from, to)) <= limit }
	if fits(len(r.Text)) {
		return len(r.Text)
	}
	// Rendering never shortens a text: what is beyond end cannot fit.
	end := min(len(r.Text), from+4*limit)
	if to := last(ends(r.Text, from, end, "\n"), fits); to > from {
		return to
	}
	if to := last(ends(r.Text, from, end, " "), fits); to > from {
		return to
	}
	if to := last(ends(r.Text, from, end, ""), fits); to > from {
		return to
	}
	for to := from + 1; ; to++ { // a single character whose styles alone are too long
		if edge(r.Text, to) {
			return to
		}
	}
}

// ends returns the positions in s[from:end] after each sep; after each rune if
// sep is empty.
func ends(s string, from, end int, sep string) []int {
	var out []int
	for i := from + 1; i <= end; i++ {
		if edge(s, i) && (sep == "" || s[i-1:i] == sep) {
			out = append(out, i)
		}
	}
	return out
}

// last returns the last position that fits, 0 if none does.
func last(places []int, fits func(int) bool) int {
	n := sort.Search(len(places), func(i int) bool { return !fits(places[i]) })
	if n == 0 {
		return 0
	}
	return places[n-1]
}

func part(r chat.RichText, from, to int) chat.RichText {
	out := chat.RichText{Text: r.Text[from:to]}
	for _, s := range r.Spans {
		s.Start, s.End = max(s.Start, from)-from, min(s.End, to)-from
		if s.Start < s.End {
			out.Spans = append(out.Spans, s)
		}
	}
	return out
}
