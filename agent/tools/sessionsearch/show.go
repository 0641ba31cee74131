package sessionsearch

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const timeFormat = "2006-01-02 15:04"

// headline describes a session in one line.
func headline(s Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session %s", s.ID)
	if s.Title != "" {
		fmt.Fprintf(&b, " %q", clip(s.Title, 100))
	}
	b.WriteString(" (" + s.Platform)
	if s.Place != "" {
		fmt.Fprintf(&b, ", %q", clip(s.Place, 60))
	}
	fmt.Fprintf(&b, ", from %s to %s UTC, rows: %d", s.Began.UTC().Format(timeFormat), s.Used.UTC().Format(timeFormat), s.Rows)
	if s.Archived > 0 {
		fmt.Fprintf(&b, ", %d archived", s.Archived)
	}
	return b.String() + ")\n"
}

// formatRow formats one message. Its further lines are indented, so that a message cannot pose
// as another.
func formatRow(mark string, p Passage, most int) string {
	text := strings.ReplaceAll(clip(strings.TrimSpace(p.Text), most), "\n", "\n      ")
	return fmt.Sprintf("%s[%d %s] %s\n", mark, p.Row, p.Role, text)
}

func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
