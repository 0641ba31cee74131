package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/text"

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
