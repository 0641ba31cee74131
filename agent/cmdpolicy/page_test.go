package cmdpolicy_test

import (
	"fmt"
	"strings"
	"testing"

	"hermesd/agent/cmdpolicy"
)

// TestPage: docs/approvals.md has the rules of the table.
func TestPage(t *testing.T) {
	var b strings.Builder
	for i, title := range []string{"Never run", "Need an approval"} {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n| rule | what the user reads |\n|---|---|\n", title)
		for _, r := range cmdpolicy.Rules() {
			if (r.Decision == cmdpolicy.Block) == (i == 0) {
				fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, r.Description)
			}
		}
	}
	checkPage(t, "Page", b.String())
}
