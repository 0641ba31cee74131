package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Table formats rows under a head with aligned columns. Cells are cleaned. Without
// rows the result is empty.
func Table(head []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	all := append([][]string{head}, rows...)
	width := make([]int, len(head))
	for i, row := range all {
		clean := make([]string, len(head))
		for j := range head {
			if j < len(row) {
				clean[j] = Line(row[j])
			}
			width[j] = max(width[j], Width(clean[j]))
		}
		all[i] = clean
	}
	var b strings.Builder
	for _, row := range all {
		var l strings.Builder
		for j, cell := range row {
			l.WriteString(cell + strings.Repeat(" ", width[j]-Width(cell)+2))
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return b.String()
}

// Ago formats how long before now t was.
func Ago(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case t.After(now):
		return "in " + Span(t.Sub(now))
	case now.Sub(t) < time.Second:
		return "now"
	}
	return Span(now.Sub(t)) + " ago"
}

// Span formats d in its largest unit.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Count returns n and the noun, with an s unless n is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Form returns one if n is 1, else many.
func Form(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Bytes formats a number of bytes.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, " KMGTP"[unit])
}
