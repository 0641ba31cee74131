package repo_test

import (
	"flag"
	"testing"

	"hermesd/gateway/command"
)

var update = flag.Bool("update", false, "write the generated pages")

func TestDocsCommandsPage(t *testing.T) {
	requirePage(t, "docs/commands.md", command.Markdown(command.Specs()))
}
