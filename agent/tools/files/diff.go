package files

import (
	"fmt"
	"strings"
)

const (
	maxDiff      = 120       // lines of a diff shown
	maxTable     = 1_000_000 // pairs of lines compared for one diff
	contextLines = 2         // unchanged lines shown around changes
)

// An edit is one line of a diff: kept (' '), removed ('-') or added ('+').
type edit struct {
	op   byte
	line string
}

// diff returns the line-based difference of two texts, with context lines, cut to what a
// result holds.
func diff(before, after string) string { return difference(before, after, maxDiff, maxWidth) }

// difference returns the line-based difference of two texts: limit lines of at most width
// characters.
func difference(before, after string, limit, width int) string {
	a, b := split(before), split(after)
	lead := 0
	for lead < len(a) && lead < len(b) && a[lead] == b[lead] {
		lead++
	}
	tail := 0
	for tail < len(a)-lead && tail < len(b)-lead && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from := max(lead-contextLines, 0)
	var edits []edit
	for _, l := range a[from:lead] {
		edits = append(edits, edit{' ', l})
	}
	edits = append(edits, shortestEdits(a[lead:len(a)-tail], b[lead:len(b)-tail])...)
	for _, l := range a[len(a)-tail : len(a)-tail+min(tail, contextLines)] {
		edits = append(edits, edit{' ', l})
	}
	return hunks(edits, from+1, limit, width)
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// shortestEdits returns the shortest edits from a to b. If both are too long to compare, all of a
// is removed and all of b added.
func shortestEdits(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > maxTable {
		for _, l := range a {
			out = append(out, edit{'-', l})
		}
		for _, l := range b {
			out = append(out, edit{'+', l})
		}
		return out
	}
	common := make([][]int32, len(a)+1) // common[i][k]: length of the longest common subsequence of a[i:] and b[k:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if a[i] == b[k] {
				common[i][k] = common[i+1][k+1] + 1
			} else {
				common[i][k] = max(common[i+1][k], common[i][k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			out = append(out, edit{' ', a[i]})
			i++
			k++
		case k == len(b) || i < len(a) && common[i+1][k] >= common[i][k+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[k]})
			k++
		}
	}
	return out
}

// hunks formats edits, with the line number at which each hunk begins. first is the line
// number of the first edit. At most limit lines are formatted, cut to width characters.
func hunks(edits []edit, first, limit, width int) string {
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.op != ' ' {
			for k := max(i-contextLines, 0); k <= min(i+contextLines, len(edits)-1); k++ {
				near[k] = true
			}
		}
	}
	var b strings.Builder
	shown, left, line, open := 0, 0, first, false
	for i, e := range edits {
		switch {
		case !near[i]:
			open = false
		case shown >= limit:
			left++
		default:
			if !open {
				fmt.Fprintf(&b, "@@ line %d @@\n", line)
			}
			open = true
			fmt.Fprintf(&b, "%c%s\n", e.op, cut(strings.TrimRight(e.line, "\r"), width))
			shown++
		}
		if e.op != '+' {
			line++
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "[… lines of the diff that are left out: %d]\n", left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
