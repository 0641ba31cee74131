package repo_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"hermesd/gateway/access"
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
		"A command may be shortened as long as it stays the only one that begins so. Those with * do not wait for the running turn. A level in\n" +
		"parentheses is needed in a conversation of several users ([access.md](access.md#what-each-level-may-do)).\n")
	for _, level := range []access.Level{access.Guest, access.Member, access.Owner} {
		fmt.Fprintf(&b, "\n## Level %s\n\n", level)
		for _, c := range specs {
			if c.Level != level {
				continue
			}
			name := "/" + c.Name
			if c.Args != "" {
				name += " " + c.Args
			}
			name = "`" + name + "`"
			for _, a := range c.Aliases {
				name += ", `/" + a + "`"
			}
			if c.Immediate {
				name += "*"
			}
			shared := ""
			if c.SharedLevel > c.Level {
				shared = " (" + c.SharedLevel.String() + ")"
			}
			fmt.Fprintf(&b, "- %s: %s%s\n", name, c.Help, shared)
		}
	}
	return b.String()
}
