package web

import (
	"bytes"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	readability "codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// A reading is the readable text of a page.
type reading struct {
	title string
	text  string // Markdown
	cut   bool   // the page has more text
}

// minArticle is the minimum length, in characters, of the article of a page; a shorter one
// is ignored if the whole page has more.
const minArticle = 200

// read returns the readable text of the HTML page at a URL: its article, or the whole
// page if there is none. Links are absolute, tables stay tables. Scripts and hidden
// elements are left out. It never fails; the text of a page without text is "".
func read(raw []byte, page *url.URL) reading {
	raw, fewer := sanitize(raw)
	doc, err := html.ParseWithOptions(bytes.NewReader(raw), html.ParseOptionEnableScripting(false))
	if err != nil { // nested too deeply
		return reading{text: tidy(plainText(raw)), cut: fewer}
	}
	clean, cut := copyVisible(doc, page)
	r := reading{title: titleOf(clean), cut: cut || fewer}
	whole := plainLength(clean)
	parser := readability.NewParser()
	parser.DisableJSONLD, parser.KeepClasses = true, true // classes name the language of code
	article, err := parser.ParseAndMutate(clean, page)
	if err == nil && article.Node != nil {
		r.title = oneLine(article.Title(), maxTitle)
		if n := plainLength(article.Node); n >= minArticle || n*2 >= whole {
			r.text = write(article.Node)
		}
	}
	if r.text == "" {
		clean, _ = copyVisible(doc, page) // the first copy was modified
		r.text = write(clean)
	}
	return r
}

func write(n *html.Node) string {
	// Escaping takes quadratic time and is of no use to a model.
	c := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true), table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	out, err := c.ConvertNode(n)
	if err != nil {
		return ""
	}
	return tidy(string(out))
}

// plainLength returns the number of non-space characters in n.
func plainLength(n *html.Node) int {
	total := 0
	for d := range n.Descendants() {
		if d.Type != html.TextNode || d.Parent != nil && d.Parent.Data == "title" {
			continue
		}
		for _, r := range d.Data {
			if !unicode.IsSpace(r) {
				total++
			}
		}
	}
	return total
}

// tidy returns clean text without trailing spaces and repeated empty lines.
func tidy(text string) string {
	var b strings.Builder
	empty := 0
	for line := range strings.Lines(clean(text)) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "" {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
			if empty > 0 {
				b.WriteByte('\n')
			}
		}
		empty = 0
		b.WriteString(line)
	}
	return b.String()
}

// oneLine returns text on one line, truncated to limit characters.
func oneLine(text string, limit int) string {
	text = tidy(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
