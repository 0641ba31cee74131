package files

import (
	"fmt"
	"strings"
)

const (
	maxDiff  = 120       // lines of a diff that are shown
	maxTable = 1_000_000 // pairs of lines that are compared for one
	around   = 2         // unchanged lines that are shown around changes
)

// An edit is one line of a diff: kept (' '), taken out ('-') or put in ('+').
type edit struct {
	op   byte
	line string
}

// diff shows what has changed between two texts, line by line, with unchanged
// lines around it.
func diff(before, after string) string {
	a, b := split(before), split(after)
	lead := 0
	for lead < len(a) && lead < len(b) && a[lead] == b[lead] {
		lead++
	}
	tail := 0
	for tail < len(a)-lead && tail < len(b)-lead && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from := max(lead-around, 0)
	var edits []edit
	for _, l := range a[from:lead] {
		edits = append(edits, edit{' ', l})
	}
	edits = append(edits, between(a[lead:len(a)-tail], b[lead:len(b)-tail])...)
	for _, l := range a[len(a)-tail : len(a)-tail+min(tail, around)] {
		edits = append(edits, edit{' ', l})
	}
	return hunks(edits, from+1)
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// between returns the shortest edits from a to b; of what is too long to compare,
// that all of a is taken out and all of b put in.
func between(a, b []string) []edit {
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
	common := make([][]int32, len(a)+1) // common[i][k]: lines that a[i:] and b[k:] have in common, in order
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

// hunks writes edits with the numbers of the lines where each hunk begins. first
// is the line of the first edit.
func hunks(edits []edit, first int) string {
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.op != ' ' {
			for k := max(i-around, 0); k <= min(i+around, len(edits)-1); k++ {
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
		case shown == maxDiff:
			left++
		default:
			if !open {
				fmt.Fprintf(&b, "@@ line %d @@\n", line)
			}
			open = true
			fmt.Fprintf(&b, "%c%s\n", e.op, cut(strings.TrimRight(e.line, "\r"), maxWidth))
			shown++
		}
		if e.op != '+' {
			line++
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "[… %d more lines of the diff]\n", left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
