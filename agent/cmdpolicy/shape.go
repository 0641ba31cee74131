package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/pattern"
)

var (
	// remoteHelper matches a repository that git reads by another program.
	remoteHelper = regexp.MustCompile(`^\w+::[^\[]`)
	subcommand   = regexp.MustCompile(`^[a-z][a-z0-9:_-]*$`)
	assignment   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_%]*=`)
)

// title returns the program and the subcommand of a command.
func title(argv []string, r *row) string {
	words := []string{path.Base(argv[0])}
	if strings.Contains(argv[0], "/") {
		words[0] = argv[0]
	}
	if r != nil && (len(r.words) > 0 || r.kind != "ask") {
		return strings.Join(append(words, r.words...), " ")
	}
	for i := 1; i < len(argv) && subcommand.MatchString(argv[i]) && (i == 1 || i == 2 && builtIn().in("two", words[0])); i++ {
		words = append(words, argv[i])
	}
	return strings.Join(words, " ")
}

// shape returns what an approval of a command covers: the same program and subcommand with
// any arguments. It is "" if the arguments may hold another program, a value that is not
// known, or something that separates commands.
func (c *call) shape() string {
	t, r := builtIn(), c.row
	if r != nil && (r.kind == "shell" || r.kind == "block" || r.kind == "wrap" && r.rule == "") || t.in("interpreters", c.program()) && (r == nil || len(r.words) == 0) {
		return ""
	}
	words := title(c.argv, r)
	inner := r == nil || r.kind != "wrap" // of sudo the program that it runs is part of the shape
	for i, a := range c.argv[1:] {
		name, _, _ := strings.Cut(a, "=")
		option, set := strings.HasPrefix(a, "-"), assignment.MatchString(a)
		if strings.ContainsAny(a, hole+"\n;|&`$") || remoteHelper.MatchString(a) || strings.Contains(a, "://") && !r.is("net") || i > 0 && r == nil && set ||
			option && (t.in("runs", name) || t.in("executes", name) || r != nil && r.lists("code", name)) || !inner && t.in("interpreters", path.Base(a)) {
			return ""
		}
		if !inner && !option && !set && !r.valued(c.argv[i]) {
			words, inner = words+" "+path.Base(a), true
		}
	}
	return words + " *"
}

// maxOperands is the number of operands in a narrow shape.
const maxOperands = 4

// narrowShape returns the shape for the rule of the row. For some rules it has all options and
// the first operands: the image of a container and its program, the key of a setting, the
// command for a server. Values of options count as operands, because the row may not know them.
func (c *call) narrowShape() string {
	words, ok := strings.CutSuffix(c.shape(), " *")
	if !ok || !builtIn().in("narrow", c.rule) {
		return c.shape()
	}
	subcommands, operands := strings.Fields(words)[1:], 0
	for _, a := range c.argv[1:] {
		name, _, _ := strings.Cut(a, "=")
		switch {
		case len(subcommands) > 0 && a == subcommands[0]:
			subcommands = subcommands[1:]
		case strings.HasPrefix(a, "-"):
			words += " " + name
		case operands < maxOperands:
			words += " " + name
			operands++
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

// maxRecorded limits the bytes of the commands that are recorded in one evaluation.
const maxRecorded = 256 << 10

// record notes a command for Denied: as it is called, and by its name without directories.
func (e *evaluator) record(argv []string) {
	line := strings.ReplaceAll(strings.TrimSpace(strings.Join(argv, " ")), measured, hole)
	for range 2 {
		if e.recorded += len(line); e.recorded <= maxRecorded && !e.seen[line] {
			e.seen[line] = true
			e.commands = append(e.commands, line)
		}
		name := path.Base(argv[0])
		if name == argv[0] || argv[0] == "" {
			break
		}
		line = name + strings.TrimPrefix(line, argv[0])
	}
}

// Denied returns the first of patterns that forbids command, whose result v is, or "". A
// pattern with *, ? and [...], in any case, is compared with the whole text and with each
// command that was found in it: after quotes and variables, in pipes, substitutions and
// shells, and behind programs such as sudo and env. What is not known of a command is
// taken for a text that matches.
func (v Result) Denied(command string, patterns []string) string {
	for _, p := range patterns {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		re := glob(p)
		if re.MatchString(strings.TrimSpace(command)) || slices.ContainsFunc(v.Commands, func(c string) bool { return re.MatchString(c) || mayMatch(c, p) }) {
			return p
		}
	}
	return ""
}

// mayMatch reports whether a command with unknown parts may be one that p forbids: they
// agree up to the first part that is not known.
func mayMatch(command, p string) bool {
	known, _, partly := strings.Cut(strings.ToLower(command), hole)
	fixed := strings.ToLower(p)
	if i := strings.IndexAny(p, "*?["); i >= 0 {
		fixed = fixed[:i]
	}
	return partly && known != "" && (strings.HasPrefix(fixed, known) || fixed != "" && strings.HasPrefix(known, fixed) && fixed != strings.ToLower(p))
}

var globs sync.Map // of compiled patterns, by their text

// glob returns the expression of a pattern.
func glob(p string) *regexp.Regexp {
	if re, ok := globs.Load(p); ok {
		return re.(*regexp.Regexp)
	}
	text, err := pattern.Regexp(p, pattern.EntireString|pattern.NoGlobCase)
	re, bad := regexp.Compile(text)
	if err != nil || bad != nil { // no pattern
		re = regexp.MustCompile(`(?is)^` + regexp.QuoteMeta(strings.ToValidUTF8(p, "")) + `$`)
	}
	globs.Store(p, re)
	return re
}
