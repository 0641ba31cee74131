package tool

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Truncate returns text with at most limit characters, and a note where its middle
// was. Two thirds of what stays is its beginning and the rest its end, cut
// between lines where a line ends near enough. Text that fits is returned as it
// is; of a tiny limit nothing but the beginning is left.
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
		return text[:offset(text, max(limit, 0))]
	}
	keep := limit - room
	head := text[:offset(text, keep*2/3)]
	tail := text[offset(text, total-(keep-keep*2/3)):]
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	left := total - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return fmt.Sprintf("%s\n\n[… %d of %d characters left out here …]\n\n%s", head, left, total, tail)
}

// offset returns the byte offset of character n of s.
func offset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// FairShare returns the greatest limit with which texts of these sizes, each
// cut to it, have at most total characters together.
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
