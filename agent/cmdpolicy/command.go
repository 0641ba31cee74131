package cmdpolicy

import (
	"cmp"
	"path"
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

// skip returns how many operands precede the command of a wrapper.
func (c *call) skip() int { return len(strings.Join(c.attrs["skip"], "")) }

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
	if e.table.in("runners", path.Base(name)) {
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
	case slices.ContainsFunc(args, r.forbids), r.kind == "shell", r.is("net"): // without the network it would be of no use
		e.find("unknown-option", title(argv, r), "")
	default:
		e.unknown(c, "unknown-option")
	}
}

// parse sorts the arguments of a command. It returns false if the row does not permit them.
func (e *evaluator) parse(c *call) bool {
	if !c.together() {
		return false
	}
	if c.is("bundled") && len(c.args) > 0 && subcommand.MatchString(strings.ToLower(c.args[0])) {
		c.args = append([]string{"-" + c.args[0]}, c.args[1:]...)
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
		case !c.permits(a) && !c.lists("code", a), e.executes(c, a):
			return false
		default:
			c.options = append(c.options, a)
			name, value, n := c.valueOf(c.args[i:])
			i += n
			switch {
			case name == "":
				c.values = append(c.values, pathsIn(a)...)
			case c.takes[name] == "query" && !c.matches("value", value):
				return false
			case c.takes[name] == "query" && !c.is("net"):
				c.values = append(c.values, pathsIn(value)...)
			case c.takes[name] == "text", c.takes[name] == "query":
				if c.data = append(c.data, value); n == 1 && !strings.ContainsAny(value, "*?[") && e.secret(e.resolve(value)) {
					c.values = append(c.values, value) // perhaps an operand
				}
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
	return e.operands(c, first)
}

// operands sorts the operands of a command. With first, the first one is no file.
func (e *evaluator) operands(c *call, first bool) bool {
	if first && len(c.operands) > 0 {
		if !c.matches("first", c.operands[0]) {
			return false
		}
		c.data, c.operands = append(c.data, c.operands[0]), c.operands[1:]
	}
	if slices.ContainsFunc(c.operands, func(o string) bool { return !c.matches("args", o) }) {
		return false
	}
	if c.is("assigned") {
		e.assigned(c)
	}
	return true
}

// together reports whether the row permits the arguments as a whole.
func (c *call) together() bool {
	never := c.patterns["never"]
	return (never == nil || !slices.ContainsFunc(c.args, never.MatchString)) && (c.patterns["all"] == nil || c.matches("all", strings.Join(c.args, " ")))
}

// assigned examines the operands of dd.
func (e *evaluator) assigned(c *call) {
	for _, o := range c.operands {
		name, value, _ := strings.Cut(o, "=")
		if name == "of" {
			c.outputs = append(c.outputs, value)
		} else if name == "if" && value != "/dev/zero" {
			e.use(c, reads, value)
		}
	}
	c.operands = nil
}

// executes reports whether an option runs another program in most programs that have it.
func (e *evaluator) executes(c *call, option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return len(name) > 4 && name[0] == '-' && e.table.in("executes", name) && (c.row == nil || !c.lists("code", name) && c.takes[name] != "query" && !slices.Contains(c.allowed, name))
}

// endsOptions reports whether an operand and all after it are no options of the command.
func (c *call) endsOptions(operand string) bool {
	return c.kind == "script" || c.kind == "shell" || c.kind == "wrap" && len(c.operands) >= c.skip() && !assignment.MatchString(operand)
}

// valueOf returns the option that begins args and its value, and how many words the value is.
// The name is "" if the option has no value.
func (c *call) valueOf(args []string) (name, value string, n int) {
	a := args[0]
	if name, value, ok := strings.Cut(a, "="); ok {
		return name, value, 0
	}
	cluster, last := c.cluster(a), a
	if len(a) > 2 {
		last = "-" + cluster[max(len(cluster)-1, 0):]
	}
	switch {
	case c.valued(a):
		last = a
	case a[1] == '-' || !c.valued(last):
		return "", "", 0
	case len(cluster) < len(a)-1:
		return last, a[1+len(cluster):], 0
	}
	if len(args) == 1 {
		if c.takes[last] == "query" {
			return last, "", 0
		}
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
		e.find(c.rule, title(c.argv, c.row), c.narrowShape())
	}
	files := append(slices.Clip(c.operands), c.values...)
	for _, f := range files {
		if c.is("root") && e.root(e.resolve(f)) {
			e.find(c.attrs["root"][0], f, "")
		}
		if a, ok := e.address(f, false); ok && !c.is("net") && (c.kind == "build" && !a.loopback || !a.public && (c.kind == "read" || c.kind == "ask")) {
			e.find("address", a.String(), withTarget(c.shape(), a.String()))
		}
	}
	e.statements(c)
	e.use(c, makes, c.outputs...)
	e.outputs(c)
	e.uses(c, files)
	if p := c.program(); (p == "ln" || p == "mv") && len(files) > 0 {
		e.written[e.resolve(files[len(files)-1])] = map[string]string{"ln": linked, "mv": moved}[p]
	}
	if c.kind != "wrap" {
		e.output = e.outputOf(c)
	}
}

// statements examines the statements that a client of a database reads from its input.
func (e *evaluator) statements(c *call) {
	text := cmp.Or(c.stdin, e.piped)
	if !c.is("statements") || text == hole || text == "" || slices.ContainsFunc(c.options, func(o string) bool { return c.takes[o] == "query" }) {
		return
	}
	if strings.Contains(text, hole) || c.matches("never", text) || !c.matches("value", strings.TrimSpace(text)) {
		e.find(c.rule, title(c.argv, c.row), c.narrowShape())
	}
}

// uses examines what a command does with its operands and the values of its options.
func (e *evaluator) uses(c *call, files []string) {
	switch c.kind {
	case "print":
		e.use(c, reads, c.values...)
	case "list":
		if c.is("searches") {
			e.use(c, lists, files...)
		}
	case "read":
		if c.is("in-place") && c.option("-i", "--in-place", "-w", "--write") {
			if e.use(c, writes, c.operands...); slices.ContainsFunc(c.data, e.table.patterns["written"].MatchString) {
				e.find("run-code", title(c.argv, c.row), "")
			}
			if c.program() == "sed" && c.option("-n") || slices.ContainsFunc(c.data, e.table.patterns["empties"].MatchString) {
				e.find("overwrite", title(c.argv, c.row), "")
			}
		} else {
			e.use(c, reads, files...)
			e.here(c)
		}
	case "write":
		if e.table.in("extracts", c.program()) {
			e.use(c, makes, ".")
		}
		if len(c.operands) > 1 && (c.program() == "mv" || c.program() == "cp") {
			e.replaces(c)
		}
		if c.is("last") && len(c.operands) > 1 {
			e.copies(c)
			files = c.values
		}
		access := writes
		if c.patterns["first"] != nil { // chmod
			access = makes
		}
		e.tees(c, files)
		e.use(c, access, files...)
	case "ask":
		for _, f := range files {
			if e.use(c, touches, pathsIn(f)...); c.is("writes") {
				e.use(c, writes, strings.TrimPrefix(f, "of="))
			}
		}
	case "delete":
		e.remove(c)
	case "build":
		e.builds(c, files)
	case "script":
		e.interpreter(c)
	case "shell":
		e.shell(c)
	case "wrap":
		e.wrapped(c)
	}
}

// copies examines a command that makes its last operand of the others.
func (e *evaluator) copies(c *call) {
	n := len(c.operands) - 1
	for _, o := range c.operands[:n] {
		if c.program() == "ln" && c.option("-s", "--symbolic") && !absolute(o) {
			o = path.Dir(c.operands[n]) + "/" + o
		}
		e.use(c, reads, o)
	}
	e.use(c, makes, c.operands[n])
}

// builds examines a command that runs programs of the project.
func (e *evaluator) builds(c *call, files []string) {
	for _, f := range files {
		e.use(c, reads, pathsIn(f)...)
	}
	e.loaded(c)
	for _, text := range e.loads {
		e.code(c, text)
	}
	e.loads = nil
	if c.rule == "container" && e.table.patterns["written"].MatchString(c.stdin) {
		e.find("run-code", title(c.argv, c.row), "")
	}
	if c.rule == "run-code" && (slices.ContainsFunc(c.values, func(v string) bool { return v == "-" || v == "/dev/stdin" || strings.HasPrefix(v, "/dev/fd/") })) {
		e.find("run-piped", title(c.argv, c.row), "")
	}
	if e.here(c); e.downloads && (c.is("net") || c.rule == "run-code") {
		e.unconfined = append(e.unconfined, pending{c, true})
	} else if !c.is("net") {
		e.own = append(e.own, pending{call: c})
	}
}

// loaded examines options of a command that may name what it runs: plug-ins and settings.
// What others name is made by the command.
func (e *evaluator) loaded(c *call) {
	var made []string
	for i, a := range c.args {
		option, value, ok := strings.Cut(a, "=")
		if !ok && i > 0 {
			option, value = c.args[i-1], a
		}
		switch {
		case !strings.HasPrefix(option, "-") || option == "--" || slices.Contains(c.data, value):
		case e.table.patterns["output-option"].MatchString(option) && (c.row == nil || c.rule != "run-code" || !c.valued(option)):
			made = append(made, e.resolve(value))
		case e.foreign(value):
			e.find("outside", value, withTarget(c.shape(), value))
		}
	}
	e.made = append(e.made, made...)
}

// refused examines a command with an option that its row does not permit. An approval
// covers the same option, hosts and files.
func (e *evaluator) refused(c *call) {
	access := touches
	if c.kind == "write" && !c.is("net") {
		access = writes
	}
	for _, a := range c.args {
		e.use(c, access, pathsIn(strings.TrimPrefix(a, "@"))...)
	}
	n, covers, own, other := len(e.findings), strings.TrimSuffix(c.shape(), " *"), false, false
	for _, a := range c.args {
		name, _, _ := strings.Cut(a, "=")
		if at, local := e.address(a, true); local && c.is("net") && !strings.HasPrefix(a, "-") {
			e.find("address", at.String(), withTarget(c.shape(), at.String()))
			own, other = own || at.loopback, other || !at.loopback
		} else if host := inURL.FindStringSubmatch(a); host != nil {
			covers, other = covers+" "+host[2], true
		} else if remote.MatchString(a) {
			covers, other = covers+" "+a, true
		} else if strings.HasPrefix(a, "-") && !c.permits(name) && (!c.is("net") || strings.HasPrefix(a, "--")) {
			covers += " " + name
		}
	}
	if covers += " *"; c.rule == "unknown-option" || c.shape() == "" || c.rule == "upload" && !own && !other {
		covers = "" // it may run another program, or send to any host
	}
	if e.find(c.rule, title(c.argv, c.row), covers); own && !other && c.rule == "upload" {
		e.later(n)
	}
}

// outputOf returns what a command prints, as far as the evaluator uses it.
func (e *evaluator) outputOf(c *call) string {
	switch {
	case c.argv[0] == "echo" && len(c.argv) == 2 && !strings.ContainsAny(c.argv[1], " \t\n\\"):
		return c.argv[1]
	case c.program() == "cat" && len(c.argv) == 1 && c.stdin != "":
		return c.stdin
	case c.program() == "cat" && len(c.argv) == 2 && strings.HasSuffix(c.argv[1], "pid") && e.ruleOf(e.resolve(c.argv[1]), writes) == "":
		return "%0"
	case c.argv[0] == "echo" && len(c.argv) == 1, c.argv[0] == "true", slices.Equal(c.argv, []string{"cat", "/dev/null"}):
		return ""
	case c.is("prints"):
		return printed[c.attrs["prints"][0]]
	case !c.is("names"):
		return hole
	}
	names := c.attrs["names"]
	var outside []string
	for _, o := range c.operands {
		if absolute(o) || strings.Contains(o, "../") || o == ".." || strings.Contains(o, hole) {
			outside = append(outside, o)
		}
	}
	inside := len(outside) == 0
	switch {
	case len(outside) == 1 && (c.is("searches") || c.program() == "ls") && strings.HasPrefix(e.resolve(outside[0]), "/"):
		return e.resolve(outside[0]) + "/" + listed
	case names[0] == "absolute" && inside && len(c.operands) == 0:
		return e.dir
	case names[0] == "absolute" && inside:
		return e.dir + "/" + listed
	case inside && (names[0] == "*" || c.option(names...)):
		if i := slices.Index(c.args, "-name"); i >= 0 && i+1 < len(c.args) && e.disposable("./"+c.args[i+1]) && !slices.ContainsFunc(c.args, func(a string) bool { return e.table.in("or", a) }) {
			return "./" + c.args[i+1]
		}
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
		to := append(args, "~")[0]
		outside := e.doubt == anyName || !under(e.dir, e.place.workspace) // it may fail and stay there
		if e.dir = e.resolve(to); e.doubt < dotDot || absolute(to) {
			e.doubt = dotDot
		}
		if e.written[e.dir] == linked {
			e.dir = hole
		} else if outside && under(e.dir, e.place.workspace) {
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
