package text

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// A ColorMode says how text with styles is shown.
type ColorMode int

// The looks.
const (
	Source ColorMode = iota // Markdown, without any escape sequence: for files and pipes
	Mono                    // bold, italic and underline, no colours
	Colour                  // with colours
)

// Render returns r for a terminal of width columns, or for a pipe. Text in it
// is cleaned. Source is not wrapped.
func Render(r chat.RichText, look ColorMode, width int) string {
	return strings.Join(blocks(r, look, max(width, 10)), "\n")
}

// blocks renders r piece by piece: quotations and code are pieces of their own,
// because their lines are set off and wrapped in their own way.
func blocks(r chat.RichText, look ColorMode, width int) []string {
	var out []string
	pos := 0
	flow := func(to int) {
		piece := markup.Slice(r, pos, to)
		if trimmed := strings.Trim(piece.Text, "\n"); trimmed != "" || to < len(r.Text) && pos > 0 {
			out = append(out, wrap(inline(trim(piece), look), look, width))
		}
	}
	for _, s := range r.Spans {
		if s.Start < pos || s.Style != chat.CodeBlock && s.Style != chat.BlockQuote {
			continue
		}
		if s.Start > pos {
			flow(s.Start)
		}
		inner := markup.Slice(r, s.Start, s.End)
		if s.Style == chat.CodeBlock {
			out = append(out, code(inner.Text, s.Arg, look, width))
		} else {
			out = append(out, quote(without(inner, s), look, width))
		}
		pos = s.End
	}
	if pos < len(r.Text) || len(out) == 0 {
		flow(len(r.Text))
	}
	return out
}

// trim takes one line feed off each end of a piece between blocks: the join of
// the pieces puts it back.
func trim(r chat.RichText) chat.RichText {
	from, to := 0, len(r.Text)
	if strings.HasPrefix(r.Text, "\n") {
		from++
	}
	if to > from && strings.HasSuffix(r.Text, "\n") {
		to--
	}
	return markup.Slice(r, from, to)
}

// without returns the inside of a block without the span of the block itself.
func without(r chat.RichText, s chat.Span) chat.RichText {
	for i, t := range r.Spans {
		if t.Style == s.Style && t.Start == 0 && t.End == len(r.Text) {
			r.Spans = append(append([]chat.Span{}, r.Spans[:i]...), r.Spans[i+1:]...)
			break
		}
	}
	return r
}

func wrap(s string, look ColorMode, width int) string {
	if look == Source {
		return s
	}
	lines := strings.Split(lipgloss.Wrap(s, width, " "), "\n")
	for i, l := range lines {
		if ansi.StringWidth(l) > width { // it breaks at hyphens, and may break too late
			lines[i] = ansi.Hardwrap(l, width, true)
		}
	}
	return strings.Join(lines, "\n")
}

func code(s, lang string, look ColorMode, width int) string {
	s = strings.TrimRight(Clean(s), "\n")
	if look == Source {
		fence := "```"
		for strings.Contains(s, fence) {
			fence += "`"
		}
		return fence + Line(lang) + "\n" + s + "\n" + fence
	}
	return bar("│ ", ansi.Hardwrap(s, max(width-2, 4), true), style(chat.CodeBlock, look), look)
}

func quote(r chat.RichText, look ColorMode, width int) string {
	inner := strings.Join(blocks(r, look, max(width-2, 4)), "\n")
	if look == Source {
		return bar("> ", inner, lipgloss.NewStyle(), look)
	}
	return bar("▎ ", inner, lipgloss.NewStyle(), look)
}

// bar puts mark ahead of each line of s, and paints the lines.
func bar(mark, s string, st lipgloss.Style, look ColorMode) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if look == Source {
			lines[i] = strings.TrimRight(mark+l, " ")
			continue
		}
		lines[i] = faint(look).Render(mark) + st.Render(l)
	}
	return strings.Join(lines, "\n")
}

func faint(look ColorMode) lipgloss.Style {
	if look == Colour {
		return lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	}
	return lipgloss.NewStyle().Faint(true)
}

// inline renders text without blocks.
func inline(r chat.RichText, look ColorMode) string {
	if look == Source {
		return source(r)
	}
	var b strings.Builder
	var open []chat.Span
	markup.Walk(r, markup.Visitor{
		Open: func(s chat.Span) { open = append(open, s) },
		Text: func(t string) {
			st := lipgloss.NewStyle()
			for _, s := range open {
				st = style(s.Style, look).Inherit(st)
			}
			for i, l := range strings.Split(Clean(t), "\n") {
				if i > 0 {
					b.WriteString("\n")
				}
				if l != "" {
					b.WriteString(st.Render(l))
				}
			}
		},
		Close: func(s chat.Span) {
			open = open[:len(open)-1]
			if s.Style == chat.Link && !shows(r.Text[s.Start:s.End], s.Arg) {
				b.WriteString(faint(look).Render(" (" + Line(s.Arg) + ")"))
			}
		},
	})
	return b.String()
}

// shows reports whether the text of a link says where it goes.
func shows(text, url string) bool {
	bare := func(s string) string {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
		return strings.TrimSuffix(strings.TrimPrefix(s, "mailto:"), "/")
	}
	return bare(text) == bare(url)
}

func style(s chat.Style, look ColorMode) lipgloss.Style {
	st := lipgloss.NewStyle()
	switch s {
	case chat.Bold:
		return st.Bold(true)
	case chat.Italic:
		return st.Italic(true)
	case chat.Strike:
		return st.Strikethrough(true)
	case chat.Link:
		return st.Underline(true)
	case chat.Spoiler:
		return st.Reverse(true)
	case chat.Code, chat.CodeBlock:
		if look == Colour {
			return st.Foreground(lipgloss.Cyan)
		}
	}
	return st
}

// source writes the inside of a block as Markdown.
func source(r chat.RichText) string {
	marks := map[chat.Style]string{chat.Bold: "**", chat.Italic: "*", chat.Strike: "~~", chat.Code: "`", chat.Spoiler: "||"}
	var b strings.Builder
	plain := func(s chat.Span) bool { return s.Style == chat.Link && shows(r.Text[s.Start:s.End], s.Arg) }
	markup.Walk(r, markup.Visitor{
		Open: func(s chat.Span) {
			b.WriteString(marks[s.Style])
			if s.Style == chat.Link && !plain(s) {
				b.WriteString("[")
			}
		},
		Text: func(t string) { b.WriteString(Clean(t)) },
		Close: func(s chat.Span) {
			b.WriteString(marks[s.Style])
			if s.Style == chat.Link && !plain(s) {
				b.WriteString("](" + Line(s.Arg) + ")")
			}
		},
	})
	return b.String()
}
