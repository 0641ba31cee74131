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
		var names []string
		for _, r := range cmdpolicy.Rules() {
			if (r.Decision == cmdpolicy.Block) == (i == 0) {
				names = append(names, "`"+r.Name+"`")
			}
		}
		fmt.Fprintf(&b, "- %s: %s\n", title, strings.Join(names, " "))
	}
	checkPage(t, "Page", b.String())
}
