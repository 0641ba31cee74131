package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hermesd/internal/shorten"
)

// Truncate returns text with at most limit characters, with a note in place of its middle.
// Two thirds of what is kept come from the beginning and the rest from the end, cut between
// lines where a line end is near enough. Text that fits is returned unchanged. For a limit
// too small for the note, only the beginning is returned.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	total := utf8.RuneCountInString(text)
	if total <= limit {
		return text
	}
	const room = 80 // for the note
	if limit <= 2*room {
		return text[:shorten.Offset(text, max(limit, 0))]
	}
	keep := limit - room
	head := text[:shorten.Offset(text, keep*2/3)]
	tail := text[shorten.Offset(text, total-(keep-keep*2/3)):]
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	left := total - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return fmt.Sprintf("%s\n\n[… %d of %d characters left out here …]\n\n%s", head, left, total, tail)
}

// FairShare returns the largest limit for which texts of these sizes, each truncated to it,
// have at most total characters together.
func FairShare(sizes []int, total int) int {
	sorted := slices.Sorted(slices.Values(sizes))
	for i, n := range sorted {
		rest := len(sorted) - i
		if n*rest > total {
			return total / rest
		}
		total -= n
	}
	if len(sorted) == 0 {
		return total
	}
	return sorted[len(sorted)-1]
}

// maxSummary is the maximum length of an InputSummary in characters, without the quotes.
const maxSummary = 60

// InputSummary returns a short description of a call for people: the first informative
// string of its input, shortened, as Markdown code. It is "" if there is none.
func InputSummary(input json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(input, &m) != nil {
		return ""
	}
	for _, key := range []string{"path", "query", "pattern", "command", "url", "name"} {
		s, ok := m[key].(string)
		if !ok || s == "" {
			continue
		}
		return "`" + shorten.Line(strings.ReplaceAll(s, "`", "'"), maxSummary) + "`"
	}
	return ""
}
