package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Limits of the picture.
const (
	maxColumns = 86 // of the longest line, an answer
	maxLines   = 24
)

// Sizes in pixels. A character of most monospace fonts is 0.6 times as wide as
// the font is high.
const (
	fontSize    = 15
	columnWidth = 9
	lineHeight  = 21
	margin      = 18
)

const (
	background = "#0d1117"
	foreground = "#e6edf3"
	faintColor = "#8b949e"
)

// colors are those of the demo, by their parameter in an SGR escape sequence.
var colors = map[string]string{
	"31": "#ff7b72", // red
	"32": "#3fb950", // green
	"93": "#e3b341", // bright yellow
	"95": "#d2a8ff", // bright magenta
	"96": "#76e3ea", // bright cyan
}

// A style is how text is shown.
type style struct {
	bold, faint bool
	color       string // "" for the default
}

// with returns the style after an SGR escape sequence with these parameters.
func (s style) with(params string) (style, error) {
	for p := range strings.SplitSeq(params, ";") {
		switch {
		case p == "" || p == "0":
			s = style{}
		case p == "1":
			s.bold = true
		case p == "2":
			s.faint = true
		case colors[p] != "":
			s.color = colors[p]
		default:
			return s, fmt.Errorf("unknown style %q", p)
		}
	}
	return s, nil
}

// attributes returns the attributes of a text element.
func (s style) attributes() string {
	fill := foreground
	switch {
	case s.color != "":
		fill = s.color
	case s.faint:
		fill = faintColor
	}
	if s.bold {
		return fmt.Sprintf(`fill="%s" font-weight="bold"`, fill)
	}
	return fmt.Sprintf(`fill="%s"`, fill)
}

// A span is text of one style that begins at a column. It has no two adjacent
// spaces, which XML would make one.
type span struct {
	style
	column int
	text   string
}

var (
	sgr   = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	words = regexp.MustCompile(`[^ ]+(?: [^ ]+)*`)
)

// spans returns the spans of a line with SGR escape sequences, and its width in columns.
func spans(line string) (all []span, column int, err error) {
	var st style
	add := func(text string) {
		for _, at := range words.FindAllStringIndex(text, -1) {
			all = append(all, span{st, column + ansi.StringWidth(text[:at[0]]), text[at[0]:at[1]]})
		}
		column += ansi.StringWidth(text)
	}
	start := 0
	for _, at := range sgr.FindAllStringSubmatchIndex(line, -1) {
		add(line[start:at[0]])
		if st, err = st.with(line[at[2]:at[3]]); err != nil {
			return nil, 0, err
		}
		start = at[1]
	}
	add(line[start:])
	for _, s := range all {
		if i := strings.IndexFunc(s.text, unicode.IsControl); i >= 0 {
			return nil, 0, fmt.Errorf("control character in %q", s.text)
		}
	}
	return all, column, nil
}

// render returns lines with SGR escape sequences as an SVG image. It needs no font
// but a monospace one: each span has its position and its length.
func render(lines []string) ([]byte, error) {
	if len(lines) > maxLines {
		return nil, fmt.Errorf("%d lines, more than %d", len(lines), maxLines)
	}
	width, height := 2*margin+maxColumns*columnWidth, 2*margin+len(lines)*lineHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-size="%d" `, width, height, width, height, fontSize)
	b.WriteString(`font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace">` + "\n")
	fmt.Fprintf(&b, "<title>Part of the output of %s</title>\n", escape(command))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="%s"/>`+"\n", width, height, background)
	for i, line := range lines {
		all, columns, err := spans(line)
		if err != nil {
			return nil, err
		}
		if columns > maxColumns {
			return nil, fmt.Errorf("%d columns, more than %d: %q", columns, maxColumns, ansi.Strip(line))
		}
		for _, s := range all {
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs" %s>%s</text>`+"\n", margin+s.column*columnWidth,
				margin+i*lineHeight+fontSize, ansi.StringWidth(s.text)*columnWidth, s.attributes(), escape(s.text))
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
