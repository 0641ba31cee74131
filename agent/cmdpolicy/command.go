package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A call is a command, with its arguments by their meaning. The row is nil if the table does
// not know it.
type call struct {
	*row
	argv     []string
	args     []string // after the words of the row
	options  []string
	operands []string
	values   []string // of options, that may be names of files
	data     []string // operands and values that are no names of files
	outputs  []string // values of options that name what is written
	stdin    string   // text of a here-document
}

// option reports whether the command has one of the options.
func (c *call) option(names ...string) bool {
	return slices.ContainsFunc(c.options, func(o string) bool {
		o, _, _ = strings.Cut(o, "=")
		return slices.Contains(names, o) || len(o) > 1 && o[1] != '-' && slices.ContainsFunc(names, func(n string) bool {
			return len(n) == 2 && strings.Contains(c.cluster(o), n[1:])
		})
	})
}

func (c *call) program() string { return path.Base(c.argv[0]) }

// command examines a command. script is the text of its here-document.
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
	case e.functions[name] && e.table.rows[name] == nil, e.builtin(argv):
		return
	case strings.Contains(name, "/") && !e.table.asks(argv) && !e.table.in("project", path.Base(path.Dir(path.Dir(name)))+"/"+path.Base(path.Dir(name))):
		if !e.table.in("programs", e.resolve(path.Dir(name))) {
			e.file(&call{argv: argv, args: argv[1:]}, argv)
			return
		}
	}
	if t := e.table.sets["runners"]; slices.Contains(t, path.Base(name)) {
		argv = e.found(argv)
	}
	r, args, before := e.table.lookup(argv)
	c := &call{row: r, argv: argv, args: args, stdin: script}
	if (len(argv) == 2 && e.table.in("version", argv[1]) || len(argv) == 1 && e.table.in("bare", name)) && (r == nil || r.kind != "block") {
		return
	}
	for _, b := range before {
		e.use(c, reads, pathsIn(b)...)
	}
	switch {
	case r == nil && len(argv) > 1 && strings.HasPrefix(argv[1], "-") && len(e.table.rows[path.Base(name)]) > 0:
		e.find("unknown-option", title(argv, nil)+" "+argv[1], "")
	case r == nil:
		e.unknown(c, "unknown-program")
	case e.parse(c):
		e.permitted(c)
	case r.rule != "" && r.kind != "wrap":
		e.refused(c)
	case slices.ContainsFunc(args, r.forbids), r.is("net"): // without the network it would be of no use
		e.find("unknown-option", title(argv, r), "")
	default:
		e.unknown(c, "unknown-option")
	}
}

// parse sorts the arguments of a command. It returns false if the row does not permit them.
func (e *evaluator) parse(c *call) bool {
	if c.patterns["never"] != nil && slices.ContainsFunc(c.args, func(a string) bool { return c.matches("never", a) }) {
		return false
	}
	first := c.patterns["first"] != nil // the next operand is data
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		dash := len(a) > 1 && a[0] == '-' || strings.HasPrefix(a, hole) && len(a) > 1 && len(c.allowed)+len(c.refused) > 0
		switch {
		case a == "--" || a == "--args" || !dash && c.endsOptions(a):
			if !strings.HasPrefix(a, "--") {
				i--
			}
			c.operands = append(c.operands, c.args[i+1:]...)
			i = len(c.args)
		case !dash:
			c.operands = append(c.operands, a)
		case !c.permits(a) && !c.lists("code", a):
			return false
		default:
			c.options = append(c.options, a)
			name, value, n := c.valueOf(c.args[i:])
			i += n
			switch {
			case name == "":
				c.values = append(c.values, pathsIn(a)...)
			case c.lists("query", name) && !c.matches("value", value):
				return false
			case c.lists("text", name), c.lists("query", name):
				c.data = append(c.data, value)
			case e.table.in("outputs", name):
				c.outputs = append(c.outputs, value)
			case c.patterns["first"] != nil && e.table.in("data", name):
				if !c.matches("first", value) {
					return false
				}
				first, c.data = false, append(c.data, value)
			default:
				first = first && !slices.Contains([]string{"-f", "--file", "--from-file"}, name)
				c.values = append(c.values, value)
			}
		}
	}
	if first && len(c.operands) > 0 {
		if !c.matches("first", c.operands[0]) {
			return false
		}
		c.data, c.operands = append(c.data, c.operands[0]), c.operands[1:]
	}
	return !slices.ContainsFunc(c.operands, func(o string) bool { return !c.matches("args", o) })
}

// endsOptions reports whether an operand and all after it are no options of the command.
func (c *call) endsOptions(operand string) bool {
	return c.kind == "script" || c.kind == "shell" || c.kind == "wrap" && len(c.operands) >= len(c.attrs["skip"]) && !assignment.MatchString(operand)
}

// valueOf returns the option that begins args and its value, and how many words the value is.
// The name is "" if the option has no value.
func (c *call) valueOf(args []string) (name, value string, n int) {
	a := args[0]
	if name, value, ok := strings.Cut(a, "="); ok {
		return name, value, 0
	}
	cluster := c.cluster(a)
	last := "-" + cluster[max(len(cluster)-1, 0):]
	switch {
	case c.valued(a):
		last = a
	case a[1] == '-' || !c.valued(last):
		return "", "", 0
	case len(cluster) < len(a)-1:
		return last, a[1+len(cluster):], 0
	}
	if len(args) == 1 {
		return "", "", 0
	}
	return last, args[1], 1
}

// permitted examines a command whose options are permitted.
func (e *evaluator) permitted(c *call) {
	if c.is("net") {
		e.connect(c)
	}
	if c.kind == "ask" || c.kind == "block" || c.kind == "wrap" && c.rule != "" {
		e.find(c.rule, title(c.argv, c.row), c.shape())
	}
	files := slices.Concat(c.operands, c.values)
	for _, f := range files {
		if c.is("root") && e.root(e.resolve(f)) {
			e.find(c.attrs["root"][0], f, "")
		}
		if a, ok := e.address(f, false); ok && !c.is("net") && (c.kind == "build" || !a.public && (c.kind == "read" || c.kind == "ask")) {
			e.find("address", a.String(), withTarget(c.shape(), a.String()))
		}
	}
	e.use(c, writes, c.outputs...)
	switch c.kind {
	case "list":
		if c.is("searches") {
			e.use(c, lists, files...)
		}
	case "read":
		if c.is("in-place") && c.option("-i", "--in-place", "-w", "--write") {
			e.use(c, writes, c.operands...)
		} else {
			e.use(c, reads, files...)
			e.here(c)
		}
	case "write":
		if n := len(c.operands); c.is("last") && n > 1 {
			e.use(c, reads, c.operands[:n-1]...)
			files = append(slices.Clip(c.values), c.operands[n-1])
		}
		e.use(c, writes, files...)
	case "ask":
		for _, f := range files {
			if e.use(c, touches, pathsIn(f)...); c.is("writes") {
				e.use(c, writes, strings.TrimPrefix(f, "of="))
			}
		}
	case "delete":
		e.remove(c)
	case "build":
		for _, f := range files {
			e.use(c, reads, pathsIn(f)...)
		}
		if c.rule == "run-code" && (slices.Contains(c.values, "-") || slices.Contains(c.values, "/dev/fd/63")) {
			e.find("run-piped", title(c.argv, c.row), "")
		}
		if e.here(c); !c.is("net") {
			e.own = append(e.own, finding{detail: title(c.argv, c.row), shape: c.shape()})
		}
	case "script":
		e.interpreter(c)
	case "shell":
		e.shell(c)
	case "wrap":
		e.wrapped(c)
	}
	if c.program() == "ln" && len(files) > 0 {
		e.written[e.resolve(files[len(files)-1])] = linked
	}
	e.output = e.outputOf(c)
}

// here examines that a command may read the directory in which it runs.
func (e *evaluator) here(c *call) {
	if len(c.operands) == 0 && (c.kind == "build" || c.is("recursive")) {
		e.use(c, reads, ".")
	}
}

// refused examines a command with an option that its row does not permit. An approval
// covers the same option, hosts and files.
func (e *evaluator) refused(c *call) {
	covers := strings.TrimSuffix(c.shape(), " *")
	for _, a := range c.args {
		e.use(c, touches, pathsIn(strings.TrimPrefix(a, "@"))...)
		name, _, _ := strings.Cut(a, "=")
		if at, local := e.address(a, true); local && c.is("net") && !strings.HasPrefix(a, "-") {
			e.find("address", at.String(), withTarget(c.shape(), at.String()))
		} else if host := inURL.FindStringSubmatch(a); host != nil {
			covers += " " + host[2]
		} else if remote.MatchString(a) {
			covers += " " + a
		} else if strings.HasPrefix(a, "-") && !c.permits(name) && (!c.is("net") || strings.HasPrefix(a, "--")) {
			covers += " " + name
		}
	}
	if covers += " *"; c.rule == "unknown-option" || c.shape() == "" {
		covers = "" // it may run another program
	}
	e.find(c.rule, title(c.argv, c.row), covers)
}

// outputOf returns what a command prints, as far as the evaluator uses it.
func (e *evaluator) outputOf(c *call) string {
	names := c.attrs["names"]
	inside := !slices.ContainsFunc(c.operands, func(o string) bool {
		return strings.HasPrefix(o, "/") || strings.HasPrefix(o, "~") || strings.Contains(o, "..") || strings.Contains(o, hole)
	})
	switch {
	case c.argv[0] == "echo" && len(c.argv) == 2 && !strings.ContainsAny(c.argv[1], " \t\n\\"):
		return c.argv[1]
	case c.program() == "cat" && len(c.argv) == 1 && c.stdin != "":
		return c.stdin
	case c.argv[0] == "echo" && len(c.argv) == 1:
		return ""
	case c.is("prints"):
		return map[string]string{"word": measured, "number": listed, "temporary": "/tmp/" + listed, "job": "%0"}[c.attrs["prints"][0]]
	case len(names) == 0:
	case !inside && names[0] == "*" && strings.HasPrefix(e.resolve(c.operands[0]), "/"):
		return e.resolve(c.operands[0]) + "/" + listed
	case names[0] == "absolute" && inside && len(c.operands) == 0:
		return e.dir
	case names[0] == "absolute" && inside:
		return e.dir + "/" + listed
	case inside && (names[0] == "*" || c.option(names...)):
		return "./" + listed
	case len(c.operands) == 0 && c.kind == "read":
		return e.piped
	}
	return hole
}

// builtin examines commands of the shell that change what later ones mean. It returns false
// for others.
func (e *evaluator) builtin(argv []string) bool {
	args := argv[1:]
	switch argv[0] {
	case "cd", "pushd":
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
		from := e.dir
		e.dir, e.doubt = e.resolve(append(args, "~")[0]), max(e.doubt, dotDot)
		if e.written[e.dir] == linked {
			e.dir = hole
		} else if !under(from, e.place.workspace) && under(e.dir, e.place.workspace) {
			e.doubt = anyName
		}
	case "alias", "trap":
		for _, a := range args[:min(1, len(args))] {
			if _, value, ok := strings.Cut(a, "="); ok && argv[0] == "alias" {
				e.text(value)
			} else if argv[0] == "trap" && !strings.HasPrefix(a, "-") {
				e.text(a)
			}
		}
	case "eval":
		e.find("eval", "", "")
	case ".", "source":
		if len(args) == 0 || strings.HasPrefix(args[0], "/dev/") {
			e.find("run-piped", argv[0], "")
		} else if c := (&call{argv: argv, args: args[1:]}); path.Base(args[0]) == "activate" {
			e.use(c, reads, args[0])
		} else {
			e.file(c, args)
		}
	case "read", "mapfile", "readarray", "getopts", "printf", "unset":
		if argv[0] == "printf" && (len(args) == 0 || args[0] != "-v") {
			return false
		}
		for _, a := range args {
			value := hole
			if argv[0] == "read" {
				value = e.piped
			}
			if strings.Contains(a, "[") || a == "-C" {
				e.find("unknown-command", argv[0], "")
			} else if !strings.HasPrefix(a, "-") {
				e.set(a, value)
			}
		}
	default:
		return false
	}
	return true
}

// filler matches what parallel replaces by an argument.
var filler = regexp.MustCompile(`\{[^}\s]?\}`)

// wrapped examines the command that another program runs.
func (e *evaluator) wrapped(c *call) {
	if c.is("as") {
		e.command(append(slices.Clone(c.attrs["as"]), c.args...), c.stdin)
		return
	}
	rest := c.operands
	if i := slices.Index(rest, ":::"); i >= 0 && c.program() == "parallel" {
		for _, a := range rest[i+1:][:min(len(rest)-i-1, maxValues)] {
			script := strings.Join(rest[:i], " ")
			if filled := filler.ReplaceAllLiteralString(script, a); filled != script {
				e.text(filled)
			} else {
				e.text(script + " " + a)
			}
		}
		return
	}
	for len(rest) > 0 && assignment.MatchString(rest[0]) {
		name, value, _ := strings.Cut(rest[0], "=")
		e.variable(name, value)
		rest = rest[1:]
	}
	if rest = slices.Clone(rest[min(len(c.attrs["skip"]), len(rest)):]); len(rest) == 0 {
		return
	}
	if c.program() == "xargs" {
		mark := "{}"
		for i, o := range c.args {
			if o == "-I" && i+1 < len(c.args) {
				mark = c.args[i+1]
			} else if strings.HasPrefix(o, "-I") {
				mark = o[2:]
			}
		}
		for i := range rest {
			rest[i] = strings.ReplaceAll(rest[i], mark, e.piped)
		}
		if !c.option("-I") {
			rest = append(rest, e.piped)
		}
	}
	if c.is("script") && slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, " ") }) {
		for _, w := range rest {
			e.text(w)
		}
		return
	}
	e.command(rest, c.stdin)
}

// found examines the commands that find runs for each file, and returns its other words.
func (e *evaluator) found(argv []string) (rest []string) {
	file, named := "./"+listed, false
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		if !e.table.in("found", a) {
			if rest = append(rest, a); i == 1 && a != "" && a[0] != '-' {
				file = a + "/" + listed
			}
			if strings.HasSuffix(a, "name") && i+1 < len(argv) {
				file, named = path.Dir(file)+"/"+argv[i+1], true
			}
			named = named || a == "-path" || a == "-regex" || strings.HasPrefix(a, "-e") || path.Base(argv[0]) != "find"
			continue
		}
		end := slices.IndexFunc(argv[i+1:], func(w string) bool { return w == ";" || w == "+" })
		if end < 0 {
			end = len(argv) - i - 1
		}
		inner := slices.Clone(argv[i+1 : i+1+end])
		i += end + 1
		if len(inner) == 0 {
			continue
		}
		if !named && e.table.in("contents", inner[0]) {
			e.find("secrets", path.Base(argv[0]), "") // all files, also those with secrets
		}
		for k := range inner {
			inner[k] = strings.ReplaceAll(inner[k], "{}", file)
		}
		e.command(append(inner, file), "")
	}
	if i := slices.Index(rest, "-delete"); i > 0 && e.disposable("./"+path.Base(file)) {
		rest = slices.Delete(rest, i, i+1)
	}
	return rest
}

// unknown examines a command that the table does not know, or not with these options.
func (e *evaluator) unknown(c *call, rule string) {
	n := len(e.findings)
	e.confine(c, c.argv[1:])
	if c.stdin != "" {
		e.code(c, c.stdin)
	}
	if e.place.Sandbox != Full && len(e.findings) == n {
		e.find(rule, title(c.argv, c.row), c.shape())
	}
}

// confine examines the words of a program of which only the sandbox knows what it does: they
// must not name anything outside the workspace.
func (e *evaluator) confine(c *call, words []string) {
	asks := false
	for i, w := range words {
		if name, _, _ := strings.Cut(w, "="); len(name) > 2 && e.table.in("executes", name) && (c.row == nil || !c.lists("code", name)) {
			e.find("unknown-option", title(c.argv, c.row)+" "+name, "")
		}
		e.use(c, touches, pathsIn(w)...)
		if a, ok := e.address(w, false); ok && !(a.loopback && (e.place.Sandbox == Full || i > 0 && e.table.in("listens", words[i-1]))) {
			e.find("address", a.String(), withTarget(c.shape(), a.String()))
			asks = true // this approval is about the network
		}
	}
	if !asks {
		e.unconfined = append(e.unconfined, finding{detail: title(c.argv, c.row), shape: c.shape(), late: e.downloads})
	}
}

// shell examines a shell: a script in an argument, in a file, or from a pipe.
func (e *evaluator) shell(c *call) {
	switch {
	case c.option("-c") && len(c.operands) > 0:
		e.text(c.operands[0])
	case len(c.operands) > 0 && !strings.HasPrefix(c.operands[0], "/dev/") && !c.option("-s"):
		e.file(c, c.operands)
	case c.stdin != "":
		e.text(c.stdin)
	default:
		e.find("run-piped", c.argv[0], "")
	}
}

// interpreter examines a program that runs programs in another language.
func (e *evaluator) interpreter(c *call) {
	for i, a := range c.args {
		for _, o := range c.attrs["code"] {
			if value, ok := strings.CutPrefix(a, o); ok && (len(o) == 2 && o[1] != '-' || value == "" || value[0] == '=') ||
				len(a) > 2 && a[0] == '-' && a[1] != '-' && len(o) == 2 && strings.HasSuffix(a, o[1:]) { // -uc, -ne
				if o == "-m" && value == "" && i+1 < len(c.args) { // a module that is a program
					e.command(c.args[i+1:], "")
					return
				}
				e.code(c, strings.TrimPrefix(value, "=")+" "+strings.Join(c.args[i+1:], " "))
				return
			}
		}
		if a == "" || a[0] != '-' {
			break
		}
	}
	switch {
	case len(c.operands) > 0 && c.operands[0] != "-" && !strings.HasPrefix(c.operands[0], "/dev/"):
		e.file(c, c.operands)
	case c.stdin != "":
		e.code(c, c.stdin)
	case strings.Contains(e.piped, "\n"): // a here-document of cat
		e.code(c, e.piped)
	default:
		e.find("run-piped", c.argv[0], "")
	}
}

// code examines a program in another language that stands in the command itself. It runs
// unless it names a file outside, or something that connects, starts programs, or hides what
// it does.
func (e *evaluator) code(c *call, text string) {
	bare := strings.Join(strings.Fields(strings.ToLower(text)), "")
	if strings.Contains(text, hole) || e.table.patterns["hides"].MatchString(text) ||
		slices.ContainsFunc(e.table.sets["code"], func(w string) bool { return strings.Contains(bare, w) }) {
		e.find("run-code", c.program(), "")
		return
	}
	n := len(e.unconfined)
	e.confine(c, append(c.argv[1:len(c.argv):len(c.argv)], " "+text))
	e.own = append(e.own, e.unconfined[n:]...)
	e.unconfined = e.unconfined[:n]
}

// file examines a program or a script that is named by its file, with its arguments.
func (e *evaluator) file(c *call, words []string) {
	if e.use(c, reads, words[0]); len(words) == 2 && e.table.in("version", words[1]) {
		return
	}
	e.confine(c, words[1:])
	if strings.Contains(words[0], hole) {
		e.find("unknown-command", words[0], "")
	}
	p := e.resolve(words[0])
	text, ok := e.written[p] // what this command line has written there
	switch ext := path.Ext(p); {
	case !ok:
	case ext == "" || ext == ".sh" || ext == ".bash":
		e.text(text)
	default:
		e.code(c, text)
	}
}
