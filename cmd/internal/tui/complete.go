package tui

import (
	"strings"

	"hermesd/cmd/internal/admin"
)

// fitting returns the commands whose name or alias begins as the input does.
// The input must be the beginning of a command and nothing else.
func fitting(commands []admin.Command, input string) []admin.Command {
	word, ok := strings.CutPrefix(input, "/")
	if !ok || strings.ContainsAny(word, " \n\t/") {
		return nil
	}
	word = strings.ToLower(word)
	var fit []admin.Command
	for _, c := range commands {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if strings.HasPrefix(n, word) {
				fit = append(fit, c)
				break
			}
		}
	}
	return fit
}

// complete returns what Tab makes of the input: the one command that fits, or
// as much as all that fit begin with.
func complete(commands []admin.Command, input string) string {
	fit := fitting(commands, input)
	if len(fit) == 0 {
		return input
	}
	if len(fit) == 1 {
		return "/" + fit[0].Name + " "
	}
	common := fit[0].Name
	for _, c := range fit[1:] {
		for !strings.HasPrefix(c.Name, common) {
			common = common[:len(common)-1]
		}
	}
	if grown := "/" + common; len(grown) > len(input) && strings.HasPrefix(grown, strings.ToLower(input)) {
		return grown
	}
	return input
}
