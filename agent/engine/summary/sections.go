package summary

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"hermesd/agent/llm/tokens"
	"hermesd/agent/tool"
)

// The headings of a summary, in order.
var headings = [...]string{
	"## Goal", "## Constraints & Preferences", "## Progress", "### Done", "### In Progress", "### Blocked",
	"## Key Decisions", "## Relevant Files", "## Next Steps", "## Critical Context",
}

// Headings returns the headings of a summary, in order.
func Headings() []string { return slices.Clone(headings[:]) }

const (
	progress = 2 // the heading that has parts instead of text
	goal     = 0
	// fewest is how many headings an answer must have to be a summary.
	fewest  = 4
	nothing = "(none)"
)

// sections is the text below each heading.
type sections [len(headings)]string

var errNoSections = errors.New("the summary model did not answer in the sections it was asked for")

// parse reads an answer. What stands before its first heading is dropped;
// headings it was not asked for become plain lines.
func parse(text string) (sections, error) {
	var s sections
	at, seen := -1, map[int]bool{}
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimRight(line, " \t\r\n")
		if i := heading(line); i >= 0 {
			at = i
			seen[i] = true
			continue
		}
		if at < 0 || strings.HasPrefix(strings.TrimSpace(line), "```") {
			continue
		}
		s[at] += clean(line) + "\n"
	}
	words := false
	for i := range s {
		s[i] = strings.TrimSpace(s[i])
		words = words || s[i] != "" && s[i] != nothing
	}
	if !seen[goal] || len(seen) < fewest || !words {
		return s, errNoSections
	}
	return s, nil
}

func heading(line string) int {
	bare := strings.ToLower(strings.Trim(line, "#*: \t"))
	for i, h := range headings {
		if line == h || strings.HasPrefix(line, "#") && bare == strings.ToLower(strings.TrimLeft(h, "# ")) {
			return i
		}
	}
	return -1
}

// clean takes from a line what could be taken for a heading or for the frame in
// which a summary is shown.
func clean(line string) string {
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

// String is the summary with all its headings.
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
			b.WriteString(nothing + "\n\n")
		}
	}
	return strings.TrimSpace(b.String())
}

// fit cuts the longest sections, between lines, until all have at most budget
// tokens together.
func (s sections) fit(budget int) sections {
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

// Cut returns the beginning of text that has at most limit tokens, cut between
// lines or words where there are any.
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

// scripts are those that are told apart.
var scripts = []struct {
	name string
	is   *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Hangul", unicode.Hangul}, {"Han", unicode.Han}, {"Kana", unicode.Hiragana}, {"Kana", unicode.Katakana},
	{"Cyrillic", unicode.Cyrillic}, {"Arabic", unicode.Arabic}, {"Greek", unicode.Greek}, {"Hebrew", unicode.Hebrew},
	{"Thai", unicode.Thai}, {"Devanagari", unicode.Devanagari},
}

// share counts the letters of text by script.
func share(text string) (counts map[string]int, total int) {
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

// fewLetters is how many letters it takes to know a script.
const fewLetters = 20

// sameScript reports why a summary is not in the script in which the user
// writes. It tells scripts apart, not languages.
func sameScript(user string, s sections) error {
	counts, total := share(user)
	have, n := share(strings.Join(s[:], "\n"))
	if total < fewLetters || n < fewLetters {
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
