package web

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of the parts of a page that are read. The cost of readability and the Markdown
// writer grows with depth times size, in places with its square; within these limits the
// worst known pages take about a second.
const (
	maxNodes  = 30_000
	maxDepth  = 32 // nested elements
	maxFrames = 6  // nested lists, quotes and tables
	maxSpan   = 20 // columns or rows of one cell
	maxCells  = 3000
)

// droppedElements are the elements without readable text.
var droppedElements = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Iframe: true, atom.Object: true, atom.Embed: true,
	atom.Svg: true, atom.Math: true, atom.Canvas: true, atom.Link: true, atom.Select: true, atom.Textarea: true, atom.Input: true,
	atom.Button: true, atom.Audio: true, atom.Video: true, atom.Frameset: true, atom.Dialog: true,
}

// frameElements are the elements whose Markdown grows with their nesting depth.
var frameElements = map[atom.Atom]bool{atom.Ul: true, atom.Ol: true, atom.Blockquote: true, atom.Table: true, atom.Dl: true}

// A copier copies the visible part of a page.
type copier struct {
	base  *url.URL
	nodes int
	cells int
	cut   bool // something was left out because of a limit
}

// copyVisible returns a copy of doc without scripts, comments and hidden elements, within the
// limits, with absolute links. Elements nested too deeply are replaced by their content. It
// reports whether something was cut.
func copyVisible(doc *html.Node, base *url.URL) (*html.Node, bool) {
	c := &copier{base: baseOf(doc, base)}
	out := &html.Node{Type: html.DocumentNode}
	c.children(out, doc, 0, 0)
	return out, c.cut
}

func (c *copier) children(to, from *html.Node, depth, framed int) {
	for n := from.FirstChild; n != nil; n = n.NextSibling {
		if c.nodes >= maxNodes {
			c.cut = true
			return
		}
		switch n.Type {
		case html.TextNode:
			c.nodes++
			to.AppendChild(&html.Node{Type: html.TextNode, Data: n.Data})
		case html.ElementNode:
			c.element(to, n, depth, framed)
		}
	}
}

func (c *copier) element(to, n *html.Node, depth, framed int) {
	if droppedElements[n.DataAtom] || isHidden(n) {
		return
	}
	if n.DataAtom == atom.Td || n.DataAtom == atom.Th {
		if c.cells++; c.cells > maxCells {
			c.cut = true
			return
		}
	}
	inner := framed
	if frameElements[n.DataAtom] {
		inner++
	}
	if depth >= maxDepth || inner > maxFrames && (frameElements[n.DataAtom] || isFramePart(n.DataAtom)) {
		to.AppendChild(&html.Node{Type: html.TextNode, Data: " "})
		c.nodes++
		c.children(to, n, depth, framed)
		return
	}
	attributes := c.attributes(n)
	if n.DataAtom == atom.A && !slices.ContainsFunc(attributes, func(a html.Attribute) bool { return a.Key == "href" }) {
		c.children(to, n, depth, framed) // no usable link target
		return
	}
	c.nodes++
	e := &html.Node{Type: html.ElementNode, DataAtom: n.DataAtom, Data: n.Data, Namespace: n.Namespace, Attr: attributes}
	to.AppendChild(e)
	c.children(e, n, depth+1, inner)
}

func isFramePart(a atom.Atom) bool {
	switch a {
	case atom.Li, atom.Tr, atom.Td, atom.Th, atom.Tbody, atom.Thead, atom.Tfoot, atom.Caption, atom.Dt, atom.Dd:
		return true
	}
	return false
}

func (c *copier) attributes(n *html.Node) []html.Attribute {
	var out []html.Attribute
	for _, a := range n.Attr {
		switch a.Key {
		case "style":
			continue
		case "href", "src":
			a.Val = c.absolute(a.Val)
		case "colspan", "rowspan":
			if v, err := strconv.Atoi(a.Val); err != nil || v > maxSpan {
				continue
			}
		}
		if a.Val != "" {
			out = append(out, html.Attribute{Key: a.Key, Val: a.Val})
		}
	}
	return out
}

// absolute returns the absolute URL of a link; "" if its scheme is not supported.
func (c *copier) absolute(ref string) string {
	u, err := c.base.Parse(strings.TrimSpace(ref))
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "http", "https", "mailto", "tel":
		return u.String()
	}
	return ""
}

// baseOf returns the base URL of relative links in doc.
func baseOf(doc *html.Node, page *url.URL) *url.URL {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Base {
			continue
		}
		if u, err := page.Parse(attribute(n, "href")); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return u
		}
		break // only the first counts
	}
	return page
}

// isHidden reports whether n is invisible according to its own attributes. Style sheets are
// not evaluated.
func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if a.Val == "true" {
				return true
			}
		case "style":
			s := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			for _, trick := range []string{"display:none", "visibility:hidden", "opacity:0;", "font-size:0;", "font-size:0px"} {
				if strings.Contains(s+";", trick) {
					return true
				}
			}
		}
	}
	return false
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return oneLine(n.FirstChild.Data, maxTitle)
		}
	}
	return ""
}

// maxTags is the maximum number of start tags that are read.
const maxTags = 30_000

// keptAttributes are the attributes that matter to a reader.
var keptAttributes = []string{
	"alt", "aria-hidden", "class", "colspan", "content", "datetime", "dir", "hidden", "href", "id", "itemprop", "lang", "name", "property", "role", "rowspan", "src", "start", "style", "title",
}

// formattingElements are the formatting elements that a parser reopens in each paragraph until they are
// closed. With them a page of a megabyte can become a tree of gigabytes, so those with
// little meaning are removed, and the others have no attributes: then at most three of a
// kind are reopened.
var formattingElements = map[atom.Atom]bool{
	atom.B: true, atom.Strong: true, atom.I: true, atom.Em: true, atom.Code: true, atom.Tt: true,
	atom.Big: false, atom.Font: false, atom.Nobr: false, atom.S: false, atom.Small: false, atom.Strike: false, atom.U: false,
}

// sanitize returns HTML with the same meaning to a reader that cannot cause unbounded work in a
// parser: without scripts, styles, inline images and invisible attributes, with at most
// maxTags tags. It reports whether something was cut.
func sanitize(raw []byte) (out []byte, cut bool) {
	var b bytes.Buffer
	b.Grow(len(raw) / 2)
	z := html.NewTokenizer(bytes.NewReader(raw))
	languages := map[string]bool{}
	skip := false // the following text belongs to a script or style
	for tags := 0; ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return b.Bytes(), cut
		}
		if kind == html.TextToken && !skip {
			b.Write(z.Raw())
		}
		skip = false
		if kind != html.StartTagToken && kind != html.EndTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		name, more := z.TagName()
		a := atom.Lookup(name)
		keep, shape := formattingElements[a]
		switch {
		case a == atom.Script || a == atom.Style || a == atom.Iframe:
			skip = kind == html.StartTagToken
			continue
		case a == atom.Svg || a == atom.Math || a == atom.Plaintext || a == atom.Noscript || shape && !keep:
			continue
		case kind == html.EndTagToken:
			b.WriteString("</" + string(name) + ">")
			continue
		}
		if tags++; tags > maxTags {
			return b.Bytes(), true
		}
		b.WriteByte('<')
		b.Write(name)
		if !shape {
			writeAttributes(&b, z, more)
		} else if a == atom.Code {
			writeLanguage(&b, z, more, languages)
		}
		b.WriteByte('>')
	}
}

// maxLanguages is the maximum number of different code languages on a page.
const maxLanguages = 6

// writeLanguage writes the class attribute that names the language of code, unless there
// are too many different ones: up to three of each may be reopened.
func writeLanguage(b *bytes.Buffer, z *html.Tokenizer, more bool, known map[string]bool) {
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		class := string(value)
		if string(key) != "class" || len(class) > 40 || !strings.Contains(class, "lang") || !known[class] && len(known) >= maxLanguages {
			continue
		}
		known[class] = true
		b.WriteString(` class="` + html.EscapeString(class) + `"`)
		return
	}
}

func writeAttributes(b *bytes.Buffer, z *html.Tokenizer, more bool) {
	for n := 0; more && n < len(keptAttributes); {
		var key, value []byte
		key, value, more = z.TagAttr()
		if len(value) > maxURL || !slices.Contains(keptAttributes, string(key)) {
			continue
		}
		n++
		b.WriteByte(' ')
		b.Write(key)
		b.WriteString(`="` + html.EscapeString(string(value)) + `"`)
	}
}

// plainText returns the text of HTML that is nested too deeply to be parsed.
func plainText(raw []byte) string {
	var b bytes.Buffer
	z := html.NewTokenizer(bytes.NewReader(raw))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Text())
		case html.StartTagToken, html.EndTagToken:
			b.WriteByte(' ')
		}
	}
}
