package cmdpolicy

import (
	"fmt"
	"strings"
)

// Markdown returns the rules of the built-in table as they stand in docs/approvals.md.
func Markdown() string {
	var b strings.Builder
	for i, group := range []struct {
		title    string
		decision Decision
	}{{"Never run", Block}, {"Need an approval", Ask}} {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n| rule | what the user reads |\n|---|---|\n", group.title)
		for _, r := range builtIn().rules {
			if r.Decision == group.decision {
				fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, r.Description)
			}
		}
	}
	return b.String()
}
