// Package markdown renders styled text as Discord's Markdown.
//
// Characters that would be read as Markdown are escaped. Web addresses, mentions
// and emojis are not changed: a backslash in them would break them.
package markdown

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/gateway/chat"
)

// Len returns the length of s in code points, which Discord's limits count.
func Len(s string) int { return utf8.RuneCountInString(s) }

// Cut shortens s to at most n code points.
func Cut(s string, n int) string {
	at := 0
	for i := range s {
		if at == n {
			return s[:i]
		}
		at++
	}
	return s
}

// Render returns r as Discord's Markdown.
func Render(r chat.RichText) string {
	if !utf8.ValidString(r.Text) {
		return escape(strings.ToValidUTF8(r.Text, "\uFFFD"), true)
	}
	w := writer{text: r.Text}
	w.write(0, len(r.Text), usable(r))
	return w.out.String()
}

// usable returns the spans that are inside the text and do not cross an outer
// one, outer before inner.
func usable(r chat.RichText) []chat.Span {
	all := slices.Clone(r.Spans)
	slices.SortStableFunc(all, func(a, b chat.Span) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	var out []chat.Span
	var open []int // ends of the open spans
	for _, s := range all {
		if s.Start < 0 || s.Start >= s.End || s.End > len(r.Text) || !boundary(r.Text, s.Start) || !boundary(r.Text, s.End) {
			continue
		}
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && s.End > open[len(open)-1] {
			continue
		}
		open = append(open, s.End)
		out = append(out, s)
	}
	return out
}

func boundary(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

type writer struct {
	text string
	out  strings.Builder
	open []chat.Style // open styles, so that none is opened twice
}

func (w *writer) write(from, to int, spans []chat.Span) {
	for len(spans) > 0 {
		s := spans[0]
		n := 1
		for n < len(spans) && spans[n].Start < s.End {
			n++
		}
		w.plain(from, s.Start)
		w.span(s, spans[1:n])
		from, spans = s.End, spans[n:]
	}
	w.plain(from, to)
}

func (w *writer) plain(from, to int) {
	if from < to {
		w.out.WriteString(escape(w.text[from:to], from == 0 || w.text[from-1] == '\n'))
	}
}

func (w *writer) span(s chat.Span, inner []chat.Span) {
	body := w.text[s.Start:s.End]
	switch {
	case s.Style == chat.Code:
		w.out.WriteString(code(body))
	case s.Style == chat.CodeBlock:
		w.line(s.Start)
		w.out.WriteString(fence(body, s.Arg))
		w.endLine(s.End)
	case s.Style == chat.BlockQuote:
		w.quote(s, inner)
	case s.Style == chat.Link:
		w.link(s, inner)
	default:
		w.marked(s, inner)
	}
}

var marks = map[chat.Style]string{chat.Bold: "**", chat.Italic: "*", chat.Strike: "~~", chat.Spoiler: "||"}

// marked writes a span between two markers. Discord does not accept white space
// next to a marker, so that is written outside.
func (w *writer) marked(s chat.Span, inner []chat.Span) {
	body := w.text[s.Start:s.End]
	mark := marks[s.Style]
	lead := len(body) - len(strings.TrimLeftFunc(body, unicode.IsSpace))
	tail := len(strings.TrimRightFunc(body, unicode.IsSpace))
	if mark == "" || slices.Contains(w.open, s.Style) || tail <= lead {
		w.write(s.Start, s.End, inner)
		return
	}
	from, to := s.Start+lead, s.Start+tail
	if s.Style == chat.Italic && strings.HasSuffix(w.out.String(), "*") {
		mark = "_" // after ** another * would be read as part of it
	}
	w.out.WriteString(body[:lead])
	w.out.WriteString(mark)
	w.open = append(w.open, s.Style)
	w.write(from, to, clip(inner, from, to))
	w.open = w.open[:len(w.open)-1]
	w.out.WriteString(mark)
	w.out.WriteString(body[tail:])
}

func clip(spans []chat.Span, from, to int) []chat.Span {
	var out []chat.Span
	for _, s := range spans {
		s.Start, s.End = max(s.Start, from), min(s.End, to)
		if s.Start < s.End {
			out = append(out, s)
		}
	}
	return out
}

// link writes a link, or its text and its address if Discord would show the
// Markdown itself.
func (w *writer) link(s chat.Span, inner []chat.Span) {
	body := w.text[s.Start:s.End]
	if !linkable(s.Arg) || slices.Contains(w.open, chat.Link) {
		w.write(s.Start, s.End, inner)
		return
	}
	switch {
	case body == s.Arg:
		w.out.WriteString(body)
		return
	case strings.Contains(body, "://") || strings.ContainsAny(body, "[]\n"):
		w.write(s.Start, s.End, inner) // Discord does not accept an address as the text of a link
		w.out.WriteString(" (<" + s.Arg + ">)")
		return
	}
	w.out.WriteString("[")
	w.open = append(w.open, chat.Link)
	w.write(s.Start, s.End, inner)
	w.open = w.open[:len(w.open)-1]
	w.out.WriteString("](<" + s.Arg + ">)")
}

// linkable reports whether Discord renders an address as a link.
func linkable(s string) bool {
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && !strings.ContainsAny(s, "<>) \n\t\\")
}

// quote writes a block quotation: a marker before each of its lines.
func (w *writer) quote(s chat.Span, inner []chat.Span) {
	if slices.Contains(w.open, chat.BlockQuote) {
		w.write(s.Start, s.End, inner)
		return
	}
	w.line(s.Start)
	q := writer{text: w.text, open: append(slices.Clone(w.open), chat.BlockQuote)}
	q.write(s.Start, s.End, inner)
	body := q.out.String()
	end := strings.HasSuffix(body, "\n")
	body = strings.TrimSuffix(body, "\n")
	w.out.WriteString("> " + strings.ReplaceAll(body, "\n", "\n> "))
	if end {
		w.out.WriteString("\n")
		return
	}
	w.endLine(s.End)
}

// line begins a new line unless the text is at the start of one.
func (w *writer) line(at int) {
	if at > 0 && w.text[at-1] != '\n' {
		w.out.WriteString("\n")
	}
}

// endLine ends the line unless the text does.
func (w *writer) endLine(at int) {
	if at < len(w.text) && w.text[at] != '\n' && w.text[at-1] != '\n' {
		w.out.WriteString("\n")
	}
}

// code writes text as inline code. Discord ends inline code at the first run of
// as many backticks as started it, and supports at most two.
func code(body string) string {
	if strings.Contains(body, "\n") {
		return fence(body, "")
	}
	if !strings.Contains(body, "`") {
		return "`" + body + "`"
	}
	if strings.Contains(body, "``") {
		body = strings.ReplaceAll(body, "``", "`\u200b`")
	}
	return "`` " + body + " ``"
}

// fence writes text as a block of code. Discord has no longer fences than of
// three backticks, so a fence inside is broken by a space of no width.
func fence(body, language string) string {
	body = strings.ReplaceAll(body, "```", "`\u200b``")
	if strings.HasSuffix(body, "`") {
		body += "\u200b"
	}
	if strings.ContainsFunc(language, func(r rune) bool {
		return r > 127 || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+-_#.", r)
	}) {
		language = ""
	}
	end := "\n```"
	if strings.HasSuffix(body, "\n") {
		end = "```"
	}
	return "```" + language + "\n" + body + end
}

// raw is what stays as it is: web addresses, mentions, emojis, times, commands.
var raw = regexp.MustCompile("https?://[^\\s<>|*`]+|<(?:@[!&]?\\d+|#\\d+|a?:\\w+:\\d+|t:-?\\d+(?::\\w)?|/[-\\w ]+:\\d+)>")

// head matches the start of a heading, a list item or a quotation.
var head = regexp.MustCompile(`^(\s*)(#{1,3} |-# |[-*+] |>{1,3} )`)

// escape escapes text so that Discord shows it literally. start is true at the
// start of a line.
func escape(s string, start bool) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		if i > 0 || start {
			line = lead(&b, line)
		}
		last := 0
		for _, m := range raw.FindAllStringIndex(line, -1) {
			escapeInto(&b, line[last:m[0]])
			b.WriteString(line[m[0]:m[1]])
			last = m[1]
		}
		escapeInto(&b, line[last:])
	}
	return b.String()
}

// lead writes the start of a line, and returns the rest. A dash is not escaped:
// users read it as a list either way.
func lead(b *strings.Builder, line string) string {
	m := head.FindStringSubmatch(line)
	if m == nil || m[2] == "- " {
		return line
	}
	b.WriteString(m[1] + `\` + m[2])
	return line[len(m[0]):]
}

func escapeInto(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if special(s, i) {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
}

// special reports whether the byte at i would be read as Markdown.
func special(s string, i int) bool {
	switch s[i] {
	case '*', '`', '\\':
		return true
	case '_':
		return !(word(s, i-1) && word(s, i+1))
	case '~', '|':
		return i+1 < len(s) && s[i+1] == s[i] || i > 0 && s[i-1] == s[i]
	case ']':
		return i+1 < len(s) && s[i+1] == '('
	}
	return false
}

func word(s string, i int) bool {
	if i < 0 || i >= len(s) {
		return false
	}
	c := s[i]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= utf8.RuneSelf
}
