package markup

import (
	"strings"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"hermesd/gateway/chat"
)

// A grid is a table with rendered cells; row 0 is the header.
type grid struct {
	rows   [][]chat.RichText
	align  []extast.Alignment
	widths []int // width of each column in columns of monospace text
	linked bool  // a cell has a link whose text does not show its URL
}

// table writes a small table as aligned monospace text. A table that is too wide for
// that, or that would lose its links, is written as a list of its rows.
func (b *builder) table(n *extast.Table) {
	g := b.grid(n)
	total := 3 * (len(g.widths) - 1)
	for _, w := range g.widths {
		total += w
	}
	if total <= wideTable && !g.linked {
		b.startBareBlock()
		b.styled(chat.CodeBlock, "", func() { b.text(g.aligned()) })
		return
	}
	b.records(g)
}

func (b *builder) grid(n *extast.Table) grid {
	g := grid{align: n.Alignments, widths: make([]int, len(n.Alignments))}
	for r := n.FirstChild(); r != nil; r = r.NextSibling() {
		row := make([]chat.RichText, 0, len(g.widths))
		for c := r.FirstChild(); c != nil && len(row) < len(g.widths); c = c.NextSibling() {
			cell := b.cell(c)
			g.widths[len(row)] = max(g.widths[len(row)], uniseg.StringWidth(cell.Text))
			for _, s := range cell.Spans {
				g.linked = g.linked || s.Style == chat.Link && !sameTarget(cell.Text[s.Start:s.End], s.Arg)
			}
			row = append(row, cell)
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// cell renders one cell as a single line.
func (b *builder) cell(n ast.Node) chat.RichText {
	sub := &builder{src: b.src, styles: b.styles[:len(b.styles):len(b.styles)], urlBudget: b.urlBudget}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if html, ok := c.(*ast.RawHTML); ok && isLineBreak(html, b.src) {
			sub.text(" ") // line break in a cell
			continue
		}
		sub.inline(c)
	}
	b.urlBudget = sub.urlBudget
	line := strings.Map(func(r rune) rune { // keeps the length, so that the spans stay valid
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, string(sub.out))
	return chat.RichText{Text: line, Spans: sub.spans}
}

func isLineBreak(n *ast.RawHTML, src []byte) bool {
	if n.Segments.Len() != 1 {
		return false
	}
	seg := n.Segments.At(0)
	switch strings.ToLower(strings.ReplaceAll(string(seg.Value(src)), " ", "")) {
	case "<br>", "<br/>":
		return true
	}
	return false
}

// aligned returns the table as lines of monospace text.
func (g grid) aligned() string {
	var lines []string
	for i, row := range g.rows {
		cells := make([]string, len(g.widths))
		for j := range cells {
			if j < len(row) {
				cells[j] = row[j].Text
			}
			cells[j] = pad(cells[j], g.widths[j], g.align[j])
		}
		lines = append(lines, strings.TrimRight(strings.Join(cells, " | "), " "))
		if i == 0 {
			for j, w := range g.widths {
				cells[j] = strings.Repeat("-", w)
			}
			lines = append(lines, strings.Join(cells, "-|-"))
		}
	}
	return strings.Join(lines, "\n")
}

func pad(s string, width int, align extast.Alignment) string {
	free := max(width-uniseg.StringWidth(s), 0)
	left := 0
	switch align {
	case extast.AlignRight:
		left = free
	case extast.AlignCenter:
		left = free / 2
	}
	return strings.Repeat(" ", left) + s + strings.Repeat(" ", free-left)
}

// records writes each row as its first cell in bold and a bullet for each other cell,
// labeled with its header. A header that is too long to be repeated becomes a row.
func (b *builder) records(g grid) {
	const longLabel = 48
	header, rows := g.rows[0], g.rows[1:]
	for _, h := range header {
		if len(h.Text) > longLabel || len(rows) == 0 {
			header, rows = nil, g.rows
			break
		}
	}
	for i, row := range rows {
		if i > 0 {
			b.requestGap(2)
		}
		b.record(header, row)
	}
}

func (b *builder) record(header, row []chat.RichText) {
	for j, cell := range row {
		if isBlank(cell.Text) {
			continue
		}
		b.startBlock()
		if j == 0 {
			b.styled(chat.Bold, "", func() { b.appendRich(cell) })
		} else {
			b.text("• ")
			if j < len(header) && !isBlank(header[j].Text) {
				b.text(header[j].Text + ": ")
			}
			b.appendRich(cell)
		}
		b.requestGap(1)
	}
}

// appendRich writes r, without spans of the innermost open style.
func (b *builder) appendRich(r chat.RichText) {
	base := len(b.out)
	b.out = append(b.out, r.Text...)
	for _, s := range r.Spans {
		if len(b.styles) > 0 && b.styles[len(b.styles)-1] == s.Style {
			continue
		}
		s.Start, s.End = s.Start+base, s.End+base
		b.spans = append(b.spans, s)
	}
}
