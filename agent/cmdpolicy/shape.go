package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// remoteHelper matches a repository that git reads by another program.
var remoteHelper = regexp.MustCompile(`^\w+::[^\[]`)

var subcommand = regexp.MustCompile(`^[a-z][a-z0-9:_-]*$`)

// title returns the program and the subcommand of a command.
func title(argv []string, r *row) string {
	words := []string{path.Base(argv[0])}
	if strings.Contains(argv[0], "/") {
		words[0] = argv[0]
	}
	switch {
	case r != nil && (len(r.words) > 0 || r.kind != "ask"):
		words = append(words, r.words...)
	default:
		for i := 1; i < len(argv) && subcommand.MatchString(argv[i]) && (i == 1 || i == 2 && slices.Contains(builtIn().sets["two"], words[0])); i++ {
			words = append(words, argv[i])
		}
	}
	return strings.Join(words, " ")
}

// shape returns what an approval of a command covers: the same program and subcommand with
// any arguments. It is "" if the arguments may hold another program, a value that is not
// known, or something that separates commands.
func shape(argv []string, r *row) string {
	if r != nil && (r.kind == "shell" || r.kind == "block" || r.kind == "wrap" && r.rule == "") {
		return ""
	}
	t := builtIn()
	for i, a := range argv[1:] {
		name, _, _ := strings.Cut(a, "=")
		if strings.ContainsAny(a, hole+"\n;|&`$") || remoteHelper.MatchString(a) || strings.Contains(a, "://") && (r == nil || !r.has("net")) || i > 0 && r == nil && isAssignment(a) {
			return ""
		}
		if strings.HasPrefix(a, "-") && (slices.Contains(t.sets["runs"], name) || slices.Contains(t.sets["executes"], name) || r != nil && slices.Contains(r.code, name)) {
			return ""
		}
	}
	if slices.Contains(t.sets["interpreters"], path.Base(argv[0])) && (r == nil || len(r.words) == 0) {
		return ""
	}
	words := title(argv, r)
	if r != nil && r.kind == "wrap" { // sudo: the program that it runs is part of the shape
		for i, a := range argv[1:] {
			if !strings.HasPrefix(a, "-") && !isAssignment(a) && !slices.Contains(r.values, argv[i]) {
				if slices.Contains(t.sets["interpreters"], path.Base(a)) {
					return ""
				}
				words += " " + path.Base(a)
				break
			}
		}
	}
	return words + " *"
}

// withTarget returns a shape that covers only one file or address.
func withTarget(shape, target string) string {
	if shape == "" || strings.ContainsAny(target, "*?["+hole) {
		return ""
	}
	return strings.TrimSuffix(shape, "*") + target
}
