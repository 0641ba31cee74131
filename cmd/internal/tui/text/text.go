// Package text renders untrusted text for a terminal. The result cannot move the cursor,
// change a color or a title, or contain direction marks.
package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"hermesd/gateway/chat"
	"hermesd/gateway/markup"
)

// A ColorMode selects how styled text is rendered.
type ColorMode int

// Color modes.
const (
	Source ColorMode = iota // Markdown, without any escape sequence: for files and pipes
	Mono                    // bold, italic and underline, no colors
	Colour                  // with colors
)

// Render renders r for a terminal of width columns, or for a pipe. The text is
// cleaned. In the mode Source it is not wrapped.
func Render(r chat.RichText, mode ColorMode, width int) string {
	return strings.Join(blocks(r, mode, max(width, 10)), "\n")
}

// blocks renders r in pieces: quotations and code blocks are separate pieces,
// because their lines are marked and wrapped differently.
func blocks(r chat.RichText, mode ColorMode, width int) []string {
	var out []string
	pos := 0
	flow := func(to int) {
		piece := markup.Slice(r, pos, to)
		if trimmed := strings.Trim(piece.Text, "\n"); trimmed != "" || to < len(r.Text) && pos > 0 {
			out = append(out, wrap(inline(trim(piece), mode), mode, width))
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
			out = append(out, code(inner.Text, s.Arg, mode, width))
		} else {
			out = append(out, quote(without(inner, s), mode, width))
		}
		pos = s.End
	}
	if pos < len(r.Text) || len(out) == 0 {
		flow(len(r.Text))
	}
	return out
}

// trim removes one line feed from each end of a piece between blocks: joining the
// pieces adds it again.
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

// without returns the content of a block without the span of the block.
func without(r chat.RichText, s chat.Span) chat.RichText {
	for i, t := range r.Spans {
		if t.Style == s.Style && t.Start == 0 && t.End == len(r.Text) {
			r.Spans = append(append([]chat.Span{}, r.Spans[:i]...), r.Spans[i+1:]...)
			break
		}
	}
	return r
}

func wrap(s string, mode ColorMode, width int) string {
	if mode == Source {
		return s
	}
	lines := strings.Split(lipgloss.Wrap(s, width, " "), "\n")
	for i, l := range lines {
		if ansi.StringWidth(l) > width { // Wrap breaks at hyphens, and may break too late
			lines[i] = ansi.Hardwrap(l, width, true)
		}
	}
	return strings.Join(lines, "\n")
}

func code(s, lang string, mode ColorMode, width int) string {
	s = strings.TrimRight(Clean(s), "\n")
	if mode == Source {
		fence := "```"
		for strings.Contains(s, fence) {
			fence += "`"
		}
		return fence + Line(lang) + "\n" + s + "\n" + fence
	}
	return prefixLines("│ ", ansi.Hardwrap(s, max(width-2, 4), true), style(chat.CodeBlock, mode), mode)
}

func quote(r chat.RichText, mode ColorMode, width int) string {
	inner := strings.Join(blocks(r, mode, max(width-2, 4)), "\n")
	if mode == Source {
		return prefixLines("> ", inner, lipgloss.NewStyle(), mode)
	}
	return prefixLines("▎ ", inner, lipgloss.NewStyle(), mode)
}

func prefixLines(mark, s string, st lipgloss.Style, mode ColorMode) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if mode == Source {
			lines[i] = strings.TrimRight(mark+l, " ")
			continue
		}
		lines[i] = faint(mode).Render(mark) + st.Render(l)
	}
	return strings.Join(lines, "\n")
}

func faint(mode ColorMode) lipgloss.Style {
	if mode == Colour {
		return lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	}
	return lipgloss.NewStyle().Faint(true)
}

func inline(r chat.RichText, mode ColorMode) string {
	if mode == Source {
		return source(r)
	}
	var b strings.Builder
	var open []chat.Span
	markup.Walk(r, markup.Visitor{
		Open: func(s chat.Span) { open = append(open, s) },
		Text: func(t string) {
			st := lipgloss.NewStyle()
			for _, s := range open {
				st = style(s.Style, mode).Inherit(st)
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
			if s.Style == chat.Link && !isLinkURL(r.Text[s.Start:s.End], s.Arg) {
				b.WriteString(faint(mode).Render(" (" + Line(s.Arg) + ")"))
			}
		},
	})
	return b.String()
}

func isLinkURL(text, url string) bool {
	bare := func(s string) string {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
		return strings.TrimSuffix(strings.TrimPrefix(s, "mailto:"), "/")
	}
	return bare(text) == bare(url)
}

func style(s chat.Style, mode ColorMode) lipgloss.Style {
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
		if mode == Colour {
			return st.Foreground(lipgloss.Cyan)
		}
	}
	return st
}

// source renders the content of a block as Markdown.
func source(r chat.RichText) string {
	marks := map[chat.Style]string{chat.Bold: "**", chat.Italic: "*", chat.Strike: "~~", chat.Code: "`", chat.Spoiler: "||"}
	var b strings.Builder
	plain := func(s chat.Span) bool { return s.Style == chat.Link && isLinkURL(r.Text[s.Start:s.End], s.Arg) }
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

// sequences matches complete terminal escape sequences. The rest of an incomplete
// one is harmless without its first byte.
var sequences = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` + // CSI
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}\x{9e}\x{9f}])[^\x07\x1b\n\x{9c}]*(?:\x07|\x1b\\|\x{9c})` + // OSC, DCS, SOS, PM, APC
	`|\x1b[ -/]*[0-Z\\^-~]`)

const tab = "    "

// Clean returns s without terminal controls: escape sequences, control characters
// except line feeds, and direction marks. Tabs become spaces. The result is valid
// UTF-8.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = sequences.ReplaceAllString(s, "")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n", "\t", tab).Replace(s)
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || isDirectionMark(r)) {
			return -1
		}
		return r
	}, s)
}

// plain reports whether s is ASCII that needs no cleaning.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f) })
}

// isDirectionMark reports whether r changes the direction of the surrounding text.
func isDirectionMark(r rune) bool {
	return r == '\u200e' || r == '\u200f' || r == '\u061c' || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069'
}

// Line returns s cleaned and on one line.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// Cut returns s cleaned, on one line of at most width columns.
func Cut(s string, width int) string { return ansi.Truncate(Line(s), width, "…") }

// Width returns the width of the widest line of s in columns.
func Width(s string) int {
	w := 0
	for l := range strings.SplitSeq(s, "\n") {
		w = max(w, ansi.StringWidth(l))
	}
	return w
}

// Table formats rows under a head with aligned columns. Cells are cleaned. Without
// rows the result is empty.
func Table(head []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	all := append([][]string{head}, rows...)
	width := make([]int, len(head))
	for i, row := range all {
		clean := make([]string, len(head))
		for j := range head {
			if j < len(row) {
				clean[j] = Line(row[j])
			}
			width[j] = max(width[j], Width(clean[j]))
		}
		all[i] = clean
	}
	var b strings.Builder
	for _, row := range all {
		var l strings.Builder
		for j, cell := range row {
			l.WriteString(cell + strings.Repeat(" ", width[j]-Width(cell)+2))
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// Ago formats how long before now t was.
func Ago(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case t.After(now):
		return "in " + Span(t.Sub(now))
	case now.Sub(t) < time.Second:
		return "now"
	}
	return Span(now.Sub(t)) + " ago"
}

// Span formats d in its largest unit.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Count returns n and the noun, with an s unless n is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Form returns one if n is 1, else many.
func Form(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Bytes formats a number of bytes.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, " KMGTP"[unit])
}
