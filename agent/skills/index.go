package skills

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

//go:embed index.md
var indexText string

// MaxIndex is the desired maximum of characters in an index, unless the filter
// sets one. In a longer one descriptions are shortened, and finally omitted.
const MaxIndex = 24_000

// widths returns the maximum lengths of a description in an index, tried in
// order.
func widths() []int { return []int{240, 60, 0} }

// Index returns the text that lists the offered skills for a model, "" if there
// are none. Equal catalogs and filters give equal bytes.
func (c *Catalog) Index(f Filter) string {
	key := fmt.Sprintf("%q", []any{f.OS, f.Tools == nil, f.Tools, f.Toolsets == nil, f.Toolsets, f.Disabled, f.MaxIndex})
	if last := c.index.Load(); last != nil && last.key == key {
		return last.text
	}
	text := c.render(f)
	c.index.Store(&renderedIndex{key, text})
	return text
}

// renderedIndex is the most recent index, and the key of its filter.
type renderedIndex struct{ key, text string }

func (c *Catalog) render(f Filter) string {
	skills := c.Visible(f)
	if len(skills) == 0 {
		return ""
	}
	most := cmp.Or(f.MaxIndex, MaxIndex)
	var text string
	for _, w := range widths() {
		if text = index(skills, w); len(text) <= most || utf8.RuneCountInString(text) <= most {
			break
		}
	}
	return text
}

func index(skills []Skill, width int) string {
	return "## Skills (mandatory)\n" + strings.TrimSpace(indexText) + "\n<available_skills>\n" + Lines(skills, width) + "</available_skills>"
}

// Lines returns a line for each category and one for each skill, with at most
// width characters of its description. Skills of a category must be adjacent.
func Lines(skills []Skill, width int) string {
	var b strings.Builder
	b.Grow(len(skills) * (width + 40))
	category := ""
	for _, s := range skills {
		if s.Category != category {
			category = s.Category
			b.WriteString(escapeFrame(category) + ":\n")
		}
		b.WriteString("- " + escapeFrame(s.Name))
		if d := truncate(escapeFrame(s.Description), width); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var framePattern = regexp.MustCompile(`(?i)<(\s*/?\s*available_skills)`)

// escapeFrame prevents a text from ending the list that contains it.
func escapeFrame(s string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	return framePattern.ReplaceAllString(s, "&lt;$1")
}

// truncate returns at most n characters of s.
func truncate(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	if n == 0 {
		return ""
	}
	for i := range s {
		if n--; n == 0 {
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}
