package summary

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"hermesd/agent/llm/tokens"
	"hermesd/agent/tool"
)

var headings = [...]string{
	"## Goal", "## Constraints & Preferences", "## Progress", "### Done", "### In Progress", "### Blocked",
	"## Key Decisions", "## Relevant Files", "## Next Steps", "## Critical Context",
}

const (
	progress = 2 // index of the heading that has sub-headings instead of text
	goal     = 0
	// minHeadings is the number of headings that an answer needs to be a
	// summary.
	minHeadings  = 4
	emptySection = "(none)"
)

// sections holds the text below each heading.
type sections [len(headings)]string

var errNoSections = errors.New("the summary model did not answer in the sections it was asked for")

// parse parses an answer. Text before the first heading is dropped; unknown
// headings become plain lines.
func parse(text string) (sections, error) {
	var s sections
	at, seen := -1, map[int]bool{}
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimRight(line, " \t\r\n")
		if i := headingIndex(line); i >= 0 {
			at = i
			seen[i] = true
			continue
		}
		if at < 0 || strings.HasPrefix(strings.TrimSpace(line), "```") {
			continue
		}
		s[at] += stripMarkup(line) + "\n"
	}
	words := false
	for i := range s {
		s[i] = strings.TrimSpace(s[i])
		words = words || s[i] != "" && s[i] != emptySection
	}
	if !seen[goal] || len(seen) < minHeadings || !words {
		return s, errNoSections
	}
	return s, nil
}

func headingIndex(line string) int {
	bare := strings.ToLower(strings.Trim(line, "#*: \t"))
	for i, h := range headings {
		if line == h || strings.HasPrefix(line, "#") && bare == strings.ToLower(strings.TrimLeft(h, "# ")) {
			return i
		}
	}
	return -1
}

// stripMarkup removes from a line markup that could be mistaken for a heading
// or for the text that encloses a summary.
func stripMarkup(line string) string {
	for {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "#"):
			line = strings.TrimSpace(strings.TrimLeft(bare, "#"))
		case strings.HasPrefix(bare, "[CONTEXT COMPACTION]"), strings.HasPrefix(bare, "--- "),
			strings.HasPrefix(bare, "<conversation"), strings.HasPrefix(bare, "</"):
			return ""
		default:
			return line
		}
	}
}

// String returns the summary with all headings.
func (s sections) String() string {
	var b strings.Builder
	for i, h := range headings {
		b.WriteString(h)
		b.WriteByte('\n')
		switch {
		case s[i] != "":
			b.WriteString(s[i])
			b.WriteString("\n\n")
		case i != progress:
			b.WriteString(emptySection + "\n\n")
		}
	}
	return strings.TrimSpace(b.String())
}

// truncateTo shortens the longest sections, between lines, until all have at
// most budget tokens together.
func (s sections) truncateTo(budget int) sections {
	left := budget - tokens.Text(sections{}.String())
	sizes := make([]int, len(s))
	for i := range s {
		sizes[i] = tokens.Text(s[i])
	}
	share := tool.FairShare(sizes, max(left, 0))
	for i := range s {
		s[i] = Cut(s[i], share)
	}
	return s
}

// Cut returns the beginning of text with at most limit tokens, cut between
// lines or words where possible.
func Cut(text string, limit int) string {
	if tokens.Text(text) <= limit {
		return text
	}
	lo, hi := 0, len(text)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if tokens.Text(text[:mid]) <= limit {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	out := strings.ToValidUTF8(text[:lo], "")
	if i := strings.LastIndexByte(out, '\n'); i > len(out)/2 {
		out = out[:i]
	} else if i := strings.LastIndexByte(out, ' '); i > len(out)/2 {
		out = out[:i]
	}
	return strings.TrimSpace(out)
}

var scripts = []struct {
	name string
	is   *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Hangul", unicode.Hangul}, {"Han", unicode.Han}, {"Kana", unicode.Hiragana}, {"Kana", unicode.Katakana},
	{"Cyrillic", unicode.Cyrillic}, {"Arabic", unicode.Arabic}, {"Greek", unicode.Greek}, {"Hebrew", unicode.Hebrew},
	{"Thai", unicode.Thai}, {"Devanagari", unicode.Devanagari},
}

func countScripts(text string) (counts map[string]int, total int) {
	counts = map[string]int{}
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		total++
		for _, s := range scripts {
			if unicode.Is(s.is, r) {
				counts[s.name]++
				break
			}
		}
	}
	return counts, total
}

// minLetters is the number of letters needed to determine a script.
const minLetters = 20

// checkScript returns an error if a summary is not in the script of the user's
// text. It distinguishes scripts, not languages.
func checkScript(user string, s sections) error {
	counts, total := countScripts(user)
	have, n := countScripts(strings.Join(s[:], "\n"))
	if total < minLetters || n < minLetters {
		return nil
	}
	for name, c := range counts {
		least := n / 20 // names and code are Latin in every language
		if name == "Latin" {
			least = n / 2
		}
		if c*10 >= total*7 && have[name] < least {
			return fmt.Errorf("the summary model did not answer in the user's script (%s)", name)
		}
	}
	return nil
}
