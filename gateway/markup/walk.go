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

	need   int    // line feeds to write before the next block
	marker bool   // a list marker was just written; the next block stands beside it
	indent string // what each line of the present container begins with
	lists  int    // how many lists lie around the present block
	budget int    // bytes that targets of links may still take
}

// gap asks for at least n line feeds before the next block.
func (b *builder) gap(n int) { b.need = max(b.need, n) }

// line begins a block on a line of its own, or beside a list marker.
func (b *builder) line() {
	if b.marker {
		b.marker = false
		return
	}
	b.flush()
	b.out = append(b.out, b.indent...)
}

// bare begins a block at the very start of a line, for styles that must.
func (b *builder) bare() {
	if b.marker {
		b.marker = false
		b.out = append(bytes.TrimRight(b.out, " "), '\n')
		return
	}
	b.flush()
}

func (b *builder) flush() {
	if len(b.out) > 0 {
		b.out = append(b.out, "\n\n"[:min(b.need, 2)]...)
	}
	b.need = 0
}

// styled runs body and puts a span around what it writes, unless that is
// nothing or has the style already. Nothing can be styled inside code.
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

// within runs body in a container whose lines begin with extra.
func (b *builder) within(extra string, body func()) {
	old := b.indent
	if len(old)+len(extra) <= maxIndent {
		b.indent += extra
	}
	body()
	b.indent = old
}

// blocks writes the children of n, each apart from the one before as in the
// source: by a blank line or by none.
func (b *builder) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.after(c)
		b.block(c)
	}
}

// after asks for the gap between n and the block before it, if there is one.
func (b *builder) after(n ast.Node) {
	if n.PreviousSibling() == nil {
		return
	}
	b.gap(1)
	if b.blankBefore(n.Pos()) {
		b.gap(2)
	}
}

// blankBefore says that the line before that of pos is blank, or has only the
// marks of quotations.
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
			b.line()
			b.styled(chat.Bold, "", func() { b.inlines(n) })
		}
	case *ast.Paragraph, *ast.TextBlock:
		if n.HasChildren() {
			b.line()
			b.inlines(n)
		}
	case *ast.ThematicBreak:
		b.line()
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
	case *ast.LinkReferenceDefinition: // says nothing by itself
	default:
		b.blocks(n)
	}
}

// code writes lines as they are.
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
	b.bare()
	b.styled(chat.CodeBlock, language, func() { b.text(string(s)) })
}

// language returns the name of a fence's language if it is one that any
// platform's markup can carry, else nothing.
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
		b.line()
		b.text(string(s))
	}
}

// quote writes a quotation as a span; one inside another is marked by hand,
// because no platform nests them.
func (b *builder) quote(n *ast.Blockquote) {
	if slices.Contains(b.styles, chat.BlockQuote) {
		b.within("> ", func() { b.blocks(n) })
		return
	}
	if !n.HasChildren() {
		return
	}
	indent, lists := b.indent, b.lists
	b.bare()
	b.indent, b.lists = "", 0
	b.styled(chat.BlockQuote, "", func() { b.blocks(n) })
	b.indent, b.lists = indent, lists
	b.need, b.marker = 0, false
}

// list writes a list with bullets or numbers, indented by its depth.
func (b *builder) list(n *ast.List) {
	bullet := [...]string{"• ", "◦ ", "▪ "}[min(b.lists, 2)]
	b.lists++
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.after(c)
		mark, extra := bullet, "  "
		if n.IsOrdered() {
			mark, extra = strconv.Itoa(number)+". ", "   "
			number++
		}
		if done, ok := task(c); ok {
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
		b.line()
		b.text(mark)
		b.marker = true
		b.within(extra, func() { b.blocks(c) })
		b.marker = false
	}
	b.lists--
}

// task says whether a list item begins with a check box, and which.
func task(item ast.Node) (done, ok bool) {
	if c := item.FirstChild(); c != nil {
		if box, is := c.FirstChild().(*extast.TaskCheckBox); is {
			return box.IsChecked, true
		}
	}
	return false, false
}

// text writes s without control characters.
func (b *builder) text(s string) { b.out = append(b.out, clean(s)...) }

// breakLine begins a new line inside a block.
func (b *builder) breakLine() {
	b.out = append(b.out, '\n')
	b.out = append(b.out, b.indent...)
}

// blank says that s has nothing to show.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}
