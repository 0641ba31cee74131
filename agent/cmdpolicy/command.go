package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// call examines a simple command. script is the text of its here-document.
func (e *evaluator) call(x *syntax.CallExpr, script string) {
	e.output = hole
	for i, argv := range e.arguments(x.Args) {
		if len(x.Args) == 0 || i > 0 && slices.Contains([]string{"cd", "pushd", "popd"}, argv[0]) {
			break
		}
		e.command(argv, script)
	}
}

// command examines a command with its arguments.
func (e *evaluator) command(argv []string, script string) {
	if e.count++; e.count > maxCommands {
		e.find("too-involved", "", "")
		return
	}
	e.record(argv)
	name := argv[0]
	switch {
	case strings.Contains(name, hole):
		e.find("unknown-command", name, "")
		return
	case e.functions[name] && e.table.rows[name] == nil:
		return
	case e.builtin(argv):
		return
	case strings.Contains(name, "/") && !slices.Contains(e.table.sets["project"], path.Base(path.Dir(path.Dir(name)))+"/"+path.Base(path.Dir(name))):
		if dirs := e.place.resolve(path.Dir(name), e.dirs); len(dirs) != 1 || !slices.Contains(e.table.sets["programs"], dirs[0]) {
			e.file(argv)
			return
		}
	}
	argv = e.usual(argv)
	r, args, before := e.table.lookup(argv)
	if only := len(argv) == 2 && slices.Contains(e.table.sets["version"], argv[1]) || len(argv) == 1 && slices.Contains(e.table.sets["bare"], name); only && (r == nil || r.kind != "block") {
		if slices.Contains([]string{"env", "printenv", "set", "export"}, name) {
			e.output = environment
		}
		return
	}
	switch {
	case r == nil && len(argv) > 1 && strings.HasPrefix(argv[1], "-") && len(e.table.rows[path.Base(name)]) > 0:
		e.find("unknown-option", title(argv, nil)+" "+argv[1], "")
		return
	case r == nil:
		e.unknown(argv, "unknown-program", script)
		return
	}
	for _, b := range before {
		e.readAll(argv, pathsIn(b))
	}
	c := &call{row: r, argv: argv, stdin: script}
	if e.parse(c, args) {
		e.known(c)
		return
	}
	switch {
	case r.rule != "" && r.kind != "wrap":
		e.refused(argv, r, args)
	case slices.ContainsFunc(args, r.forbids), r.has("net"): // without the network it would be of no use
		e.find("unknown-option", title(argv, r), "")
	default:
		e.unknown(argv, "unknown-option", script)
	}
}

// refused examines a command with an option that its row does not permit. An approval
// covers the same hosts and files.
func (e *evaluator) refused(argv []string, r *row, args []string) {
	covers := shape(argv, r)
	if r.rule == "unknown-option" {
		covers = "" // it may run another program
	}
	for _, a := range args {
		for _, p := range pathsIn(strings.TrimPrefix(a, "@")) {
			e.touch(argv, r, p)
		}
		if at, ok := e.address(a, true); ok && r.has("net") && !strings.HasPrefix(a, "-") {
			e.find("address", at.String(), withTarget(shape(argv, r), at.String()))
		} else if m := inURL.FindStringSubmatch(a); m != nil {
			covers = strings.TrimSuffix(covers, " *") + " " + m[2]
		} else if remote.MatchString(a) {
			covers = strings.TrimSuffix(covers, " *") + " " + a
		}
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(a, "-") && !r.permits(a) && !r.has("net") || strings.HasPrefix(a, "--") && r.kind != "write" && !r.permits(a) {
			covers = strings.Replace(covers, " *", " "+name+" *", 1)
		}
	}
	e.find(r.rule, title(argv, r), covers)
}

// usual returns a command in the form that the table knows: without what find runs, and
// with the options of tar in their usual form.
func (e *evaluator) usual(argv []string) []string {
	switch path.Base(argv[0]) {
	case "find", "fd", "fdfind":
		return e.found(argv)
	case "tar":
		if len(argv) > 1 && argv[1] != "" && argv[1][0] != '-' {
			return append([]string{argv[0], "-" + argv[1]}, argv[2:]...)
		}
	}
	return argv
}

// known examines a command whose options are permitted.
func (e *evaluator) known(c *call) {
	if c.has("net") {
		e.connect(c)
	}
	if c.rule != "" && (c.kind == "ask" || c.kind == "block" || c.kind == "wrap") {
		e.find(c.rule, title(c.argv, c.row), shape(c.argv, c.row))
	}
	files := slices.Concat(c.operands, c.values)
	if n := len(c.operands); n > 0 && path.Base(c.argv[0]) == "ln" {
		for _, p := range e.place.resolve(c.operands[n-1], e.dirs) {
			e.links = append(e.links, p, p+"/"+path.Base(c.operands[0]))
		}
	}
	e.writeAll(c, c.outputs)
	switch c.kind {
	case "list":
		e.list(c)
	case "read":
		e.reads(c, files)
	case "write":
		e.writes(c, files)
	case "ask":
		e.asked(c)
	case "delete":
		e.remove(c)
	case "build":
		e.builds(c, files)
	case "archive":
		e.writeAll(c, c.values)
		if !c.option("-x", "--extract", "--get") {
			e.readAll(c.argv, c.operands)
		}
	case "script":
		e.interpreter(c)
	case "shell":
		e.shell(c)
	case "wrap":
		e.wrapped(c)
	}
	if e.output = e.outputOf(c); e.substitutions > 0 && c.option("-d", "-D", "--decode", "-r") && slices.Contains(e.table.sets["decoders"], path.Base(c.argv[0])) {
		e.find("unknown-command", title(c.argv, c.row), "")
	}
}

var secretWord = regexp.MustCompile(`(?i)key|token|secret|pass`)

func (e *evaluator) reads(c *call, files []string) {
	if c.has("in-place") && c.option("-i", "--in-place", "-w", "--write") {
		e.writeAll(c, c.operands)
		return
	}
	for _, o := range files {
		if a, ok := e.address(o, false); ok && !a.public && !c.has("net") {
			e.find("address", a.String(), withTarget(shape(c.argv, c.row), a.String()))
		}
	}
	if e.piped == environment && slices.ContainsFunc(c.data, secretWord.MatchString) {
		e.find("secrets", "env", "")
	}
	if len(c.operands) == 0 { // many read the current directory then
		files = append(files, ".")
	}
	if c.has("recursive") || len(c.operands) > 0 || len(c.values) > 0 {
		e.readAll(c.argv, files)
	}
}

func (e *evaluator) writes(c *call, files []string) {
	if slices.Contains(c.operands, "/dev/null") {
		e.find("destroy", title(c.argv, c.row), "")
	}
	if n := len(c.operands); c.has("last") && n > 1 {
		e.readAll(c.argv, c.operands[:n-1])
		files = append(slices.Clip(c.values), c.operands[n-1])
	}
	e.writeAll(c, files)
}

// asked finds what is worse in a command that needs an approval in any case.
func (e *evaluator) asked(c *call) {
	for _, o := range slices.Concat(c.operands, c.values) {
		for _, p := range pathsIn(o) {
			e.touch(c.argv, c.row, p)
		}
		if a, ok := e.address(o, false); ok && !a.public {
			e.find("address", a.String(), withTarget(shape(c.argv, c.row), a.String()))
		}
		if c.has("writes") {
			e.writeAll(c, pathsIn(strings.TrimPrefix(o, "of=")))
		}
		for _, p := range e.place.resolve(o, e.dirs) {
			if c.has("recursive") && c.option("-R", "--recursive") && e.root(p) {
				e.find("system-permissions", p, "")
			}
		}
	}
}

func (e *evaluator) builds(c *call, files []string) {
	for _, f := range files {
		e.readAll(c.argv, pathsIn(f))
		if a, ok := e.address(f, false); ok && !c.has("net") {
			rule := "unknown-network"
			if !a.public {
				rule = "address"
			}
			e.find(rule, a.String(), withTarget(shape(c.argv, c.row), a.String()))
		}
	}
	if !c.has("net") {
		e.own = append(e.own, finding{detail: title(c.argv, c.row), shape: shape(c.argv, c.row)})
	}
	if e.readAll(c.argv, []string{"."}); c.rule == "run-code" && (slices.Contains(c.values, "-") || slices.Contains(c.values, "/dev/fd/63")) {
		e.find("run-piped", title(c.argv, c.row), "")
	}
}

// outputOf returns what a command prints, as far as the evaluator uses it.
func (e *evaluator) outputOf(c *call) string {
	inside := func() bool {
		return !slices.ContainsFunc(c.operands, func(o string) bool {
			return strings.HasPrefix(o, "/") || strings.HasPrefix(o, "~") || strings.Contains(o, "..") || strings.Contains(o, hole)
		})
	}
	switch {
	case c.has("plain") && c.kind == "list":
		return measured
	case c.has("plain"):
		return "0"
	case c.argv[0] == "echo", c.argv[0] == "printf":
		return printed(c.argv)
	case path.Base(c.argv[0]) == "mktemp":
		return "/tmp/" + listed
	case slices.Contains([]string{"pwd", "realpath", "readlink"}, path.Base(c.argv[0])) && inside(): // absolute: what is left of it may be outside
		if len(c.operands) == 0 {
			return "~+"
		}
		return "~+/" + listed
	case c.names != nil && (c.names[0] == "*" || c.option(c.names...)) && inside():
		return "./0"
	case c.names != nil && len(c.operands) == 0 && c.kind == "read":
		return e.piped
	}
	return hole
}

// printed returns what echo or printf prints, if it is one word.
func printed(argv []string) string {
	words := argv[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") && argv[0] == "echo" && !strings.Contains(words[0], "e") {
		words = words[1:]
	}
	text := strings.Join(words, " ")
	if argv[0] == "printf" && len(words) > 0 {
		if s, n, err := expand.Format(nil, words[0], words[1:]); err == nil && n == len(words)-1 {
			text = s
		} else {
			return hole
		}
	}
	text = strings.TrimSuffix(text, "\n")
	if text == "" || strings.ContainsAny(text, " \t\n\\"+hole) {
		return hole
	}
	return text
}

// changeDir examines a change of the directory.
func (e *evaluator) changeDir(args []string) {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-P" || a == "-L" || a == "--" })
	to := "~"
	if len(args) > 0 {
		to = args[0]
	}
	if to == "-" {
		to = "."
	}
	e.changed = e.place.resolve(to, e.dirs)
	for i, d := range e.changed {
		if underAny(d, e.links) {
			e.changed[i] = hole
		}
	}
	for _, d := range e.changed {
		e.dirs, e.loopDirs = addTo(e.dirs, d), addTo(e.loopDirs, d)
	}
}

// builtin examines commands of the shell that change what later ones mean. It returns false
// for others.
func (e *evaluator) builtin(argv []string) bool {
	args := argv[1:]
	switch argv[0] {
	case "cd", "pushd":
		e.changeDir(args)
	case "popd", "dirs":
	case "alias":
		for _, a := range args {
			if _, value, ok := strings.Cut(a, "="); ok {
				e.text(value)
			}
		}
	case "eval":
		e.find("eval", "", "")
	case "trap":
		if len(args) > 0 && args[0] != "-" && args[0] != "" && args[0] != "-l" && args[0] != "-p" {
			e.text(args[0])
		}
	case ".", "source":
		switch {
		case len(args) == 0 || strings.HasPrefix(args[0], "/dev/"):
			e.find("run-piped", argv[0], "")
		case slices.Contains(e.table.sets["activate"], path.Base(args[0])):
			e.readAll(argv, args[:1])
		default:
			e.file(args)
		}
	case "read", "mapfile", "readarray", "getopts", "printf", "unset", "select":
		if argv[0] == "printf" && (len(args) == 0 || args[0] != "-v") {
			return false
		}
		for _, a := range args {
			if strings.Contains(a, "[") || a == "-C" {
				e.find("unknown-command", argv[0], "")
			}
			if name.MatchString(a) {
				value := hole
				if argv[0] == "read" {
					value = e.piped
				}
				e.set(a, value)
			}
		}
	default:
		return false
	}
	return true
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// wrapped examines the command that another program runs.
func (e *evaluator) wrapped(c *call) {
	rest := c.operands
	for len(rest) > 0 && isAssignment(rest[0]) {
		name, value, _ := strings.Cut(rest[0], "=")
		e.variable(name, value)
		rest = rest[1:]
	}
	if len(rest) <= c.skip {
		return
	}
	rest = slices.Clone(rest[c.skip:])
	switch path.Base(c.argv[0]) {
	case "xargs":
		if placeholder := c.placeholder(); placeholder != "" {
			for i := range rest {
				rest[i] = strings.ReplaceAll(rest[i], placeholder, e.piped)
			}
		} else {
			rest = append(rest, e.piped)
		}
	}
	if c.has("script") && slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, " ") }) {
		for _, w := range rest {
			e.text(w)
		}
		return
	}
	e.command(rest, c.stdin)
}

// found examines the commands that find runs for each file, and returns its other words.
func (e *evaluator) found(argv []string) []string {
	var rest []string
	file := "./" + listed
	if i := slices.Index(argv, "-name"); i > 0 && i+1 < len(argv) && e.disposable("./"+argv[i+1]) {
		argv = slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return a == "-delete" })
	}
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		if !slices.Contains(e.table.sets["found"], a) {
			if rest = append(rest, a); i == 1 && a != "" && a[0] != '-' {
				file = a + "/0"
			}
			if a == "-name" && i+1 < len(argv) {
				file = path.Dir(file) + "/" + argv[i+1]
			}
			continue
		}
		end := slices.IndexFunc(argv[i+1:], func(w string) bool { return w == ";" || w == "+" })
		if end < 0 {
			end = len(argv) - i - 1
		}
		inner := slices.Clone(argv[i+1 : i+1+end])
		if len(inner) > 0 && slices.Contains(e.table.sets["contents"], inner[0]) && !slices.ContainsFunc(argv, func(w string) bool {
			return strings.Contains(w, "name") || strings.HasPrefix(w, "-e") && w != "-exec" || w == "-path" || w == "-regex"
		}) {
			e.find("secrets", path.Base(argv[0]), "") // all files, also those with secrets
		}
		for k := range inner {
			inner[k] = strings.ReplaceAll(inner[k], "{}", file)
		}
		if a[1] != 'o' && path.Base(argv[0]) != "find" && !slices.ContainsFunc(argv[i:], func(w string) bool { return strings.Contains(w, "{") }) {
			inner = append(inner, file)
		}
		if i += end + 1; len(inner) > 0 {
			e.command(inner, "")
		}
	}
	return rest
}

// placeholder returns the text that xargs replaces, "" if it appends.
func (c *call) placeholder() string {
	for i, o := range c.argv[1:] {
		switch {
		case o == "-I" && i+2 < len(c.argv):
			return c.argv[i+2]
		case strings.HasPrefix(o, "-I"):
			return o[2:]
		case !strings.HasPrefix(o, "-"):
			return ""
		}
	}
	return ""
}

// unknown examines a command that the table does not know, or not with these options.
func (e *evaluator) unknown(argv []string, rule, script string) {
	n := len(e.findings)
	e.confine(argv, argv[1:])
	if script != "" {
		e.code(argv, script)
	}
	if e.place.Sandbox != Full && len(e.findings) == n {
		r, _, _ := e.table.lookup(argv)
		e.find(rule, title(argv, r), shape(argv, r))
	}
}

// confine examines the words of a program of which only the sandbox knows what it does: they
// must not name anything outside the workspace.
func (e *evaluator) confine(argv, words []string) {
	r, _, _ := e.table.lookup(argv)
	asks := false
	for i, w := range words {
		if name, _, _ := strings.Cut(w, "="); len(name) > 2 && slices.Contains(e.table.sets["executes"], name) {
			e.find("unknown-option", title(argv, r)+" "+name, "")
		}
		for _, p := range pathsIn(w) {
			e.touch(argv, r, p)
		}
		if a, ok := e.address(w, false); ok && !(a.loopback && (e.place.Sandbox == Full || i > 0 && slices.Contains(e.table.sets["listens"], words[i-1]))) {
			e.find("address", a.String(), withTarget(shape(argv, r), a.String()))
			asks = true // this approval is about the network
		}
	}
	if !asks {
		e.unconfined = append(e.unconfined, finding{detail: title(argv, r), shape: shape(argv, r), late: e.downloads})
	}
}
