package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of what is read of a page. What readability and the Markdown writer
// need grows with depth times size, and with its square in places; within these
// limits the worst pages we know of take about a second.
const (
	maxNodes  = 30_000
	maxDepth  = 32 // elements in each other
	maxFrames = 6  // lists, quotes and tables in each other
	maxSpan   = 20 // columns or rows of one cell
	maxCells  = 3000
)

// dropped are the elements that hold nothing to read.
var dropped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Template: true, atom.Iframe: true, atom.Object: true, atom.Embed: true,
	atom.Svg: true, atom.Math: true, atom.Canvas: true, atom.Link: true, atom.Select: true, atom.Textarea: true, atom.Input: true,
	atom.Button: true, atom.Audio: true, atom.Video: true, atom.Frameset: true, atom.Dialog: true,
}

// frames are the elements whose Markdown grows with how deep they stand.
var frames = map[atom.Atom]bool{atom.Ul: true, atom.Ol: true, atom.Blockquote: true, atom.Table: true, atom.Dl: true}

// A copier copies the part of a page that a reader sees.
type copier struct {
	base  *url.URL
	nodes int
	cells int
	cut   bool // something was left out for its size
}

// visible returns a copy of doc without scripts, comments and what is hidden,
// not deeper or larger than the limits, all links absolute. What stands too deep
// is kept without its frame. It reports whether something was cut.
func visible(doc *html.Node, base *url.URL) (*html.Node, bool) {
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
	if dropped[n.DataAtom] || hidden(n) {
		return
	}
	if n.DataAtom == atom.Td || n.DataAtom == atom.Th {
		if c.cells++; c.cells > maxCells {
			c.cut = true
			return
		}
	}
	inner := framed
	if frames[n.DataAtom] {
		inner++
	}
	if depth >= maxDepth || inner > maxFrames && (frames[n.DataAtom] || part(n.DataAtom)) {
		to.AppendChild(&html.Node{Type: html.TextNode, Data: " "})
		c.nodes++
		c.children(to, n, depth, framed)
		return
	}
	attributes := c.attributes(n)
	if n.DataAtom == atom.A && !slices.ContainsFunc(attributes, func(a html.Attribute) bool { return a.Key == "href" }) {
		c.children(to, n, depth, framed) // it leads nowhere
		return
	}
	c.nodes++
	e := &html.Node{Type: html.ElementNode, DataAtom: n.DataAtom, Data: n.Data, Namespace: n.Namespace, Attr: attributes}
	to.AppendChild(e)
	c.children(e, n, depth+1, inner)
}

// part reports whether an element is a part of a frame.
func part(a atom.Atom) bool {
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

// absolute returns where a link leads; "" if that is nowhere on the web.
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

// baseOf returns the URL to which links of doc are relative.
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

// hidden reports whether a reader does not see n. It knows what the element
// itself says, not what style sheets do.
func hidden(n *html.Node) bool {
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

// titleOf returns the title of a page, on one line.
func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return oneLine(n.FirstChild.Data, maxTitle)
		}
	}
	return ""
}
