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
		"A command may be shortened as long as it stays the only one that begins so. Those with * do not wait for the running turn. A second\n" +
		"[level](access.md#what-each-level-may-do) is that in a conversation of several users.\n\n" +
		"| command | does | level |\n|---|---|---|\n")
	for _, c := range specs {
		name := "`/" + c.Name
		if c.Args != "" {
			name += " " + strings.ReplaceAll(c.Args, "|", `\|`)
		}
		name += "`"
		for _, a := range c.Aliases {
			name += ", `/" + a + "`"
		}
		if c.Immediate {
			name += "*"
		}
		who := c.Level.String()
		if c.SharedLevel > c.Level {
			who += ", " + c.SharedLevel.String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, c.Help, who)
	}
	return b.String()
}
