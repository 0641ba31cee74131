package tui

import (
	"strings"

	"hermesd/cmd/internal/admin"
)

// matching returns the commands whose name or alias begins with the input. It
// returns none if the input is anything but the beginning of a command.
func matching(commands []admin.Command, input string) []admin.Command {
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

// complete returns the input after Tab: the only matching command, or the common
// prefix of all matching ones.
func complete(commands []admin.Command, input string) string {
	fit := matching(commands, input)
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
