package markup

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	gm "github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"hermesd/gateway/chat"
)

// Limits of the parser. They keep the time for hostile input linear in its length;
// markup beyond them stays literal text.
const (
	maxParsed  = 1 << 20  // bytes of Markdown; the rest is plain text
	maxChunk   = 64 << 10 // bytes parsed at a time, cut at a blank line
	maxDepth   = 16       // nesting of containers (quotes, lists)
	maxInline  = 1000     // delimiters of one kind in one paragraph, heading or cell
	maxColumns = 48       // columns of a table
	maxURL     = 1800     // bytes of a link's target
	maxIndent  = 24       // bytes of indentation
	wideTable  = 44       // columns of monospace text that fit on a phone
)

// Parse converts CommonMark with tables, strikethrough, task lists and bare links to text
// and spans. For any md the result is well formed (see Check), valid UTF-8, and without
// control characters except line feeds and tabs.
//
// Unfinished markup, as in a text that is still being streamed, stays literal; an open
// fence is code. HTML is literal text. Only web, mail, telephone and chat targets become
// links; other targets are written as text. Line breaks of md are kept.
func Parse(md string) chat.RichText {
	md = sanitize(md)
	tail := ""
	if len(md) > maxParsed {
		cut := maxParsed
		for !isBoundary(md, cut) {
			cut--
		}
		md, tail = md[:cut], md[cut:]
	}
	b := &builder{urlBudget: len(md) + maxChunk}
	for md != "" {
		n := chunk(md)
		b.src = []byte(md[:n])
		b.requestGap(2)
		b.blocks(parser().Parse(text.NewReader(b.src)))
		md = md[n:]
	}
	if tail != "" && len(b.out) > 0 {
		b.out = append(b.out, '\n')
	}
	b.out = append(b.out, tail...)
	return chat.RichText{Text: string(b.out), Spans: b.spans}
}

// sanitize returns s as valid UTF-8 with line feeds as line ends and without other
// control characters except tabs.
func sanitize(s string) string {
	ok := utf8.ValidString(s)
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		// 0xC2 begins the control characters beyond ASCII (and some others).
		ok = (c >= ' ' || c == '\n' || c == '\t') && c != 0x7F && c != 0xC2
	}
	if ok {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

// chunk returns the number of bytes of md to parse next: all if it is short, else up to
// the last blank line outside a fence, else up to the last line end, else up to a rune
// boundary.
func chunk(md string) int {
	if len(md) <= maxChunk {
		return len(md)
	}
	blank, line, fence := 0, 0, ""
	for pos := 0; pos < maxChunk; {
		end := strings.IndexByte(md[pos:], '\n')
		if end < 0 || pos+end+1 > maxChunk {
			break
		}
		s := strings.TrimLeft(md[pos:pos+end], " \t>")
		pos += end + 1
		line = pos
		switch {
		case fence == "" && (strings.HasPrefix(s, "```") || strings.HasPrefix(s, "~~~")):
			fence = s[:len(s)-len(strings.TrimLeft(s, s[:1]))]
		case fence != "" && strings.HasPrefix(s, fence) && strings.Trim(s, fence[:1]+" \t") == "":
			fence = ""
		case fence == "" && s == "":
			blank = pos
		}
	}
	if blank > 0 {
		return blank
	}
	if line > 0 {
		return line
	}
	n := maxChunk
	for !isBoundary(md, n) {
		n--
	}
	return n
}

// parser returns the Markdown parser, which is safe for concurrent use. It differs from
// CommonMark: nesting and the number of delimiters are limited; a heading underline needs
// at least three characters, because a shorter one is usually a list being streamed; and
// emphasis works next to East Asian text, which has no spaces around words.
var parser = sync.OnceValue(func() gm.Parser {
	return gm.NewParser(
		gm.WithBlockParsers(
			util.Prioritized(strictSetext{gm.NewSetextHeadingParser()}, 100),
			util.Prioritized(gm.NewThematicBreakParser(), 200),
			util.Prioritized(boundedBlock{gm.NewListParser()}, 300),
			util.Prioritized(gm.NewListItemParser(), 400),
			util.Prioritized(gm.NewCodeBlockParser(), 500),
			util.Prioritized(gm.NewATXHeadingParser(), 600),
			util.Prioritized(gm.NewFencedCodeBlockParser(), 700),
			util.Prioritized(boundedBlock{gm.NewBlockquoteParser()}, 800),
			util.Prioritized(gm.NewHTMLBlockParser(), 900),
			util.Prioritized(gm.NewParagraphParser(), 1000),
		),
		gm.WithInlineParsers(
			util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
			util.Prioritized(newCounter(gm.NewCodeSpanParser()), 100),
			util.Prioritized(countedCloser{newCounter(gm.NewLinkParser())}, 200),
			util.Prioritized(newCounter(gm.NewAutoLinkParser()), 300),
			util.Prioritized(newCounter(gm.NewRawHTMLParser()), 400),
			util.Prioritized(newCounter(eastAsian{gm.NewEmphasisParser()}), 500),
			util.Prioritized(newCounter(eastAsian{extension.NewStrikethroughParser()}), 500),
			util.Prioritized(extension.NewLinkifyParser(), 999),
		),
		gm.WithParagraphTransformers(
			util.Prioritized(gm.LinkReferenceParagraphTransformer, 100),
			util.Prioritized(boundedTable{extension.NewTableParagraphTransformer()}, 200),
		),
		gm.WithASTTransformers(
			util.Prioritized(extension.NewTableASTTransformer(), 0),
		),
	)
})

// boundedBlock opens no container nested more than maxDepth deep.
type boundedBlock struct{ gm.BlockParser }

func (p boundedBlock) Open(parent ast.Node, reader text.Reader, pc gm.Context) (ast.Node, gm.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		depth++
	}
	if depth > 2*maxDepth { // a list is two nodes
		return nil, gm.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

// strictSetext requires at least three characters under a heading.
type strictSetext struct{ gm.BlockParser }

func (p strictSetext) Open(parent ast.Node, reader text.Reader, pc gm.Context) (ast.Node, gm.State) {
	line, _ := reader.PeekLine()
	if len(bytes.TrimSpace(line)) < 3 {
		return nil, gm.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

// boundedTable converts only paragraphs with at most maxColumns columns to tables,
// because each row gets all columns of the header.
type boundedTable struct{ gm.ParagraphTransformer }

func (t boundedTable) Transform(node *ast.Paragraph, reader text.Reader, pc gm.Context) {
	lines := node.Lines()
	for i := range lines.Len() {
		seg := lines.At(i)
		if bytes.Count(seg.Value(reader.Source()), []byte{'|'}) > maxColumns {
			return
		}
	}
	t.ParagraphTransformer.Transform(node, reader, pc)
}

// newCounter limits p to maxInline calls in one block, because some parsers search the
// rest of the block, or all earlier delimiters, in each call.
func newCounter(p gm.InlineParser) counter {
	return counter{InlineParser: p, key: gm.NewContextKey()}
}

type counter struct {
	gm.InlineParser
	key gm.ContextKey
}

type tally struct {
	block ast.Node
	n     int
}

func (c counter) Parse(parent ast.Node, block text.Reader, pc gm.Context) ast.Node {
	t, ok := pc.Get(c.key).(*tally)
	if !ok {
		t = &tally{}
		pc.Set(c.key, t)
	}
	if t.block != parent {
		*t = tally{block: parent}
	}
	if t.n++; t.n > maxInline {
		return nil
	}
	return c.InlineParser.Parse(parent, block, pc)
}

// countedCloser is a counter that forwards CloseBlock, which the link parser needs.
type countedCloser struct{ counter }

func (c countedCloser) CloseBlock(parent ast.Node, block text.Reader, pc gm.Context) {
	c.InlineParser.(gm.CloseBlocker).CloseBlock(parent, block, pc)
}

// eastAsian lets emphasis open and close next to East Asian characters, where CommonMark
// requires a space next to punctuation.
type eastAsian struct{ gm.InlineParser }

func (p eastAsian) Parse(parent ast.Node, block text.Reader, pc gm.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, _ := block.PeekLine()
	node := p.InlineParser.Parse(parent, block, pc)
	d, ok := node.(*gm.Delimiter)
	if !ok || d.Char == '_' {
		return node
	}
	after := ' '
	if d.OriginalLength < len(line) {
		after = util.ToRune(line, d.OriginalLength)
	}
	if !isWide(before) && !isWide(after) {
		return node
	}
	d.CanOpen = !util.IsSpaceRune(after)
	d.CanClose = !util.IsSpaceRune(before)
	return node
}

// isWide reports whether r belongs to a script that is written without spaces.
func isWide(r rune) bool {
	return r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) ||
		r > 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF)
}

// Code returns text, which must be one line, as Markdown code, so that none of it is
// markup.
func Code(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if fence != "`" { // Markdown removes one space at both ends
		text = " " + text + " "
	}
	return fence + text + fence
}
