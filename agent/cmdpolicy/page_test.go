package cmdpolicy_test

import (
	"testing"

	"hermesd/agent/cmdpolicy"
)

// TestPage: docs/approvals.md has the rules of the table.
func TestPage(t *testing.T) { checkPage(t, "Page", cmdpolicy.Markdown()) }
