package web

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

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
