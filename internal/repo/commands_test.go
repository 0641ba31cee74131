package repo_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"hermesd/gateway/command"
)

var update = flag.Bool("update", false, "write the generated pages")

func TestDocsCommandsPage(t *testing.T) {
	requirePage(t, "docs/commands.md", commandsPage(command.Specs()))
}

// commandsPage returns the documentation page of commands.
func commandsPage(specs []command.Spec) string {
	var b strings.Builder
	b.WriteString("# Commands in a chat\n\n" +
		"Printed from the code; a test holds them equal. A command may be shortened as long as it stays the only one that begins so.\n" +
		"*At once* means that it does not wait for the turn that runs. *Shared* names the level in a conversation that several people share.\n\n" +
		"| command | does | who | at once |\n|---|---|---|---|\n")
	for _, c := range specs {
		name := "/" + c.Name
		if c.Args != "" {
			name += " " + c.Args
		}
		also := ""
		if len(c.Aliases) > 0 {
			also = " (also `/" + strings.Join(c.Aliases, "`, `/") + "`)"
		}
		once := "no"
		if c.Immediate {
			once = "yes"
		}
		who := c.Level.String()
		if c.SharedLevel > c.Level {
			who += "; shared: " + c.SharedLevel.String()
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", name, also, c.Help, who, once)
	}
	return b.String()
}
