package web

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxTags is how many opening tags of a page are read.
const maxTags = 30_000

// kept are the attributes that say something to a reader.
var kept = []string{
	"alt", "aria-hidden", "class", "colspan", "content", "datetime", "dir", "hidden", "href", "id", "itemprop", "lang", "name", "property", "role", "rowspan", "src", "start", "style", "title",
}

// shapes are the elements that a parser opens again in each paragraph until they
// are closed. A page of a megabyte can make of them a tree of gigabytes, so those
// that say little are left out, and the others have no attributes: then at most
// three of a kind are opened again.
var shapes = map[atom.Atom]bool{
	atom.B: true, atom.Strong: true, atom.I: true, atom.Em: true, atom.Code: true, atom.Tt: true,
	atom.Big: false, atom.Font: false, atom.Nobr: false, atom.S: false, atom.Small: false, atom.Strike: false, atom.U: false,
}

// calm returns HTML that means the same to a reader and cannot make a parser
// work without end: without scripts, styles, pictures in markup and attributes
// that no reader sees, with at most mostTags tags. It reports whether something
// was cut.
func calm(raw []byte) (out []byte, cut bool) {
	var b bytes.Buffer
	b.Grow(len(raw) / 2)
	z := html.NewTokenizer(bytes.NewReader(raw))
	languages := map[string]bool{}
	skip := false // the text that follows belongs to a script or a style
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
		keep, shape := shapes[a]
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

// maxLanguages is how many languages of code a page may name.
const maxLanguages = 6

// writeLanguage writes the class of code that names its language, if it is one
// of few: three of each may be opened again.
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
	for n := 0; more && n < len(kept); {
		var key, value []byte
		key, value, more = z.TagAttr()
		if len(value) > maxURL || !slices.Contains(kept, string(key)) {
			continue
		}
		n++
		b.WriteByte(' ')
		b.Write(key)
		b.WriteString(`="` + html.EscapeString(string(value)) + `"`)
	}
}

// words returns the text of HTML that is nested too deep to be a tree.
func words(raw []byte) string {
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
