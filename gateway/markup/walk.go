package markup

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"hermesd/gateway/chat"
)

// A builder writes text and spans while it walks a parsed document.
type builder struct {
	src    []byte
	out    []byte
	spans  []chat.Span
	styles []chat.Style // of the open spans, outermost first

	pendingBreaks int    // line feeds to write before the next block
	afterMarker   bool   // a list marker was just written; the next block continues its line
	indent        string // prefix of each line of the current container
	listDepth     int    // number of lists around the current block
	urlBudget     int    // remaining bytes for link targets
}

// requestGap requires at least n line feeds before the next block.
func (b *builder) requestGap(n int) { b.pendingBreaks = max(b.pendingBreaks, n) }

// startBlock starts a block on a new line, or after a list marker on its line.
func (b *builder) startBlock() {
	if b.afterMarker {
		b.afterMarker = false
		return
	}
	b.writeGap()
	b.out = append(b.out, b.indent...)
}

// startBareBlock starts a block at the start of a line, without indentation, for styles
// that require it.
func (b *builder) startBareBlock() {
	if b.afterMarker {
		b.afterMarker = false
		b.out = append(bytes.TrimRight(b.out, " "), '\n')
		return
	}
	b.writeGap()
}

func (b *builder) writeGap() {
	if len(b.out) > 0 {
		b.out = append(b.out, "\n\n"[:min(b.pendingBreaks, 2)]...)
	}
	b.pendingBreaks = 0
}

// styled runs body and adds a span around its output, unless that is empty or has the
// style already. Text inside code is not styled.
func (b *builder) styled(style chat.Style, arg string, body func()) {
	if slices.Contains(b.styles, style) || slices.Contains(b.styles, chat.Code) {
		body()
		return
	}
	start, at := len(b.out), len(b.spans)
	b.spans = append(b.spans, chat.Span{Start: start, Style: style, Arg: arg})
	b.styles = append(b.styles, style)
	body()
	b.styles = b.styles[:len(b.styles)-1]
	if len(b.out) == start {
		b.spans = b.spans[:at]
		return
	}
	b.spans[at].End = len(b.out)
}

// withIndent runs body in a container whose lines begin with extra.
func (b *builder) withIndent(extra string, body func()) {
	old := b.indent
	if len(old)+len(extra) <= maxIndent {
		b.indent += extra
	}
	body()
	b.indent = old
}

// blocks writes the children of n, separated by a blank line where the source has one.
func (b *builder) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.separate(c)
		b.block(c)
	}
}

// separate requests the gap between n and the block before it, if there is one.
func (b *builder) separate(n ast.Node) {
	if n.PreviousSibling() == nil {
		return
	}
	b.requestGap(1)
	if b.blankBefore(n.Pos()) {
		b.requestGap(2)
	}
}

// blankBefore reports whether the line before that of pos is blank or contains only
// quote markers.
func (b *builder) blankBefore(pos int) bool {
	if pos < 0 || pos > len(b.src) {
		return false
	}
	start := bytes.LastIndexByte(b.src[:pos], '\n')
	if start < 0 {
		return false
	}
	line := b.src[bytes.LastIndexByte(b.src[:start], '\n')+1 : start]
	return len(bytes.Trim(line, "> \t")) == 0
}

func (b *builder) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		if n.HasChildren() {
			b.startBlock()
			b.styled(chat.Bold, "", func() { b.inlines(n) })
		}
	case *ast.Paragraph, *ast.TextBlock:
		if n.HasChildren() {
			b.startBlock()
			b.inlines(n)
		}
	case *ast.ThematicBreak:
		b.startBlock()
		b.text("———")
	case *ast.CodeBlock:
		b.code(n.Lines(), "")
	case *ast.FencedCodeBlock:
		b.code(n.Lines(), language(string(n.Language(b.src))))
	case *ast.HTMLBlock:
		b.html(n)
	case *ast.Blockquote:
		b.quote(n)
	case *ast.List:
		b.list(n)
	case *extast.Table:
		b.table(n)
	case *ast.LinkReferenceDefinition: // produces no text
	default:
		b.blocks(n)
	}
}

// code writes lines as a code block.
func (b *builder) code(lines *text.Segments, language string) {
	var s []byte
	for i := range lines.Len() {
		seg := lines.At(i)
		s = append(s, seg.Value(b.src)...)
	}
	s = bytes.TrimRight(s, "\n")
	if len(bytes.TrimSpace(s)) == 0 {
		return
	}
	b.startBareBlock()
	b.styled(chat.CodeBlock, language, func() { b.text(string(s)) })
}

// language returns the language name of a fence if it is valid in every platform's
// markup, else "".
func language(info string) string {
	const longest = 32
	name, _, _ := strings.Cut(info, "\t")
	name = strings.Trim(name, "{}.")
	other := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+-#._", r)
	}
	if len(name) > longest || strings.ContainsFunc(name, other) {
		return ""
	}
	return name
}

func (b *builder) html(n *ast.HTMLBlock) {
	var s []byte
	lines := n.Lines()
	for i := range lines.Len() {
		seg := lines.At(i)
		s = append(s, seg.Value(b.src)...)
	}
	if n.HasClosure() {
		s = append(s, n.ClosureLine.Value(b.src)...)
	}
	s = bytes.TrimRight(s, "\n")
	if len(s) > 0 {
		b.startBlock()
		b.text(string(s))
	}
}

// quote writes a block quote as a span. A nested one is written with "> " prefixes,
// because no platform nests block quotes.
func (b *builder) quote(n *ast.Blockquote) {
	if slices.Contains(b.styles, chat.BlockQuote) {
		b.withIndent("> ", func() { b.blocks(n) })
		return
	}
	if !n.HasChildren() {
		return
	}
	indent, lists := b.indent, b.listDepth
	b.startBareBlock()
	b.indent, b.listDepth = "", 0
	b.styled(chat.BlockQuote, "", func() { b.blocks(n) })
	b.indent, b.listDepth = indent, lists
	b.pendingBreaks, b.afterMarker = 0, false
}

// list writes a list with bullets or numbers, indented by its depth.
func (b *builder) list(n *ast.List) {
	bullet := [...]string{"• ", "◦ ", "▪ "}[min(b.listDepth, 2)]
	b.listDepth++
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.separate(c)
		mark, extra := bullet, "  "
		if n.IsOrdered() {
			mark, extra = strconv.Itoa(number)+". ", "   "
			number++
		}
		if done, ok := parseTask(c); ok {
			box := "☐ "
			if done {
				box = "☑ "
			}
			if n.IsOrdered() {
				mark += box
			} else {
				mark = box
			}
		}
		b.startBlock()
		b.text(mark)
		b.afterMarker = true
		b.withIndent(extra, func() { b.blocks(c) })
		b.afterMarker = false
	}
	b.listDepth--
}

// parseTask reports whether a list item begins with a check box (ok) that is checked
// (done).
func parseTask(item ast.Node) (done, ok bool) {
	if c := item.FirstChild(); c != nil {
		if box, is := c.FirstChild().(*extast.TaskCheckBox); is {
			return box.IsChecked, true
		}
	}
	return false, false
}

// text writes s without control characters.
func (b *builder) text(s string) { b.out = append(b.out, sanitize(s)...) }

// breakLine starts a new line inside a block.
func (b *builder) breakLine() {
	b.out = append(b.out, '\n')
	b.out = append(b.out, b.indent...)
}

// isBlank reports whether s contains only white space.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}
