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

// A reading is what can be read on a page.
type reading struct {
	title string
	text  string // Markdown
	cut   bool   // the page has more
}

// minArticle is how many characters the article of a page must have; below
// that it is taken for a mistake, if the whole page has more.
const minArticle = 200

// Markdown returns what can be read in HTML that stands at a URL: the article of
// the page, or all of it if there is none. Links are absolute, tables are tables.
// What stands in the page's scripts and what it hides is left out. It never
// fails; a page without text is "".
func Markdown(raw []byte, page *url.URL) string { return read(raw, page).text }

func read(raw []byte, page *url.URL) reading {
	raw, fewer := calm(raw)
	doc, err := html.ParseWithOptions(bytes.NewReader(raw), html.ParseOptionEnableScripting(false))
	if err != nil { // it is nested too deep
		return reading{text: tidy(words(raw)), cut: fewer}
	}
	clean, cut := visible(doc, page)
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
		clean, _ = visible(doc, page) // the first one was changed
		r.text = write(clean)
	}
	return r
}

func write(n *html.Node) string {
	// Escaping takes time by the square, and says nothing to a model.
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

// plainLength is how many characters that are no space n holds.
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

// tidy returns text clean, without trailing spaces and rows of empty lines.
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

// oneLine returns text on one line, at most limit characters of it.
func oneLine(text string, limit int) string {
	text = tidy(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
