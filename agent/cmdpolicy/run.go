package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// parallel examines the command that parallel runs for each argument.
func (e *evaluator) parallel(words []string) {
	args := []string{e.piped}
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, ":::") }); i >= 0 {
		if args = words[i+1:]; words[i] != ":::" || len(args) > maxValues {
			args = []string{hole}
		}
		words = words[:i]
	}
	script := strings.Join(words, " ")
	for _, a := range args {
		if filled := filler.ReplaceAllLiteralString(script, a); filled != script {
			e.text(filled)
		} else {
			e.text(script + " " + a)
		}
	}
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
	if e.use(c, reads, c.values...); c.program() == "parallel" {
		e.parallel(rest)
		return
	}
	for len(rest) > 0 && assignment.MatchString(rest[0]) {
		name, value, _ := strings.Cut(rest[0], "=")
		e.exports = true
		e.variable(name, value)
		rest = rest[1:]
	}
	if rest = slices.Clone(rest[min(c.skip(), len(rest)):]); len(rest) == 0 {
		return
	}
	if c.program() == "xargs" {
		if c.option("-a", "--arg-file") {
			e.piped = hole
		}
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
	file, named, all := "./"+listed, false, false
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		if !e.table.in("found", a) {
			if rest = append(rest, a); i == 1 && a != "" && a[0] != '-' {
				file = a + "/" + listed
			}
			all = all || e.table.in("or", a)
			if strings.HasSuffix(a, "name") && i+1 < len(argv) && !all {
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
	if i := slices.Index(rest, "-delete"); i > 0 && (e.disposable(e.place.shown(e.resolve(file))) || slices.Contains(rest, "-empty")) {
		rest = slices.Delete(rest, i, i+1)
	}
	return rest
}

// unknown examines a command that the table does not know, or not with these options.
func (e *evaluator) unknown(c *call, rule string) {
	n := len(e.findings)
	e.loaded(c)
	e.confine(c, c.argv[1:], &e.unconfined)
	if c.stdin != "" {
		e.code(c, c.stdin)
	}
	if e.place.Sandbox != Full && len(e.findings) == n {
		e.find(rule, title(c.argv, c.row), c.shape())
	}
}

// confine examines the words of a program of which only the sandbox knows what it does: they
// must not name anything outside the workspace. The program is added to list.
func (e *evaluator) confine(c *call, words []string, list *[]pending) {
	asks := false
	for i, w := range words {
		if e.executes(c, w) {
			e.find("unknown-option", title(c.argv, c.row)+" "+w, "")
		}
		e.use(c, touches, pathsIn(w)...)
		if a, ok := e.address(w, false); ok && !(a.loopback && (e.place.Sandbox == Full || i > 0 && e.table.in("listens", words[i-1]))) {
			e.find("address", a.String(), withTarget(c.shape(), a.String()))
			asks = true // this approval is about the network
		}
	}
	if !asks {
		*list = append(*list, pending{c, e.downloads})
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
	e.oneLiner(c)
	for i, a := range c.args {
		for _, o := range c.attrs["code"] {
			if value, ok := strings.CutPrefix(a, o); ok && (len(o) == 2 && o[1] != '-' || value == "" || value[0] == '=') ||
				len(a) > 2 && a[0] == '-' && a[1] != '-' && len(o) == 2 && strings.HasSuffix(a, o[1:]) { // -uc, -ne
				if o == "-m" && value == "" && i+1 < len(c.args) { // a module that is a program
					e.command(c.args[i+1:], "")
					return
				}
				e.code(c, strings.Join(append(slices.Clone(c.args[:i]), strings.TrimPrefix(value, "="), strings.Join(c.args[i+1:], " ")), " "))
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
	if e.table.patterns["drops"].MatchString(text) {
		e.find("overwrite", c.program(), "")
	}
	e.confine(c, append(c.argv[1:len(c.argv):len(c.argv)], " "+text), &e.own)
}

// file examines a program or a script that is named by its file, with its arguments.
func (e *evaluator) file(c *call, words []string) {
	if e.use(c, reads, words[0]); len(words) == 2 && e.table.in("version", words[1]) {
		return
	}
	if e.place.Sandbox != Full && e.foreign(words[0]) {
		e.find("outside", words[0], withTarget(c.shape(), words[0]))
	}
	list := &e.own
	if e.downloads {
		list = &e.unconfined
	}
	e.confine(c, words[1:], list)
	if strings.Contains(words[0], hole) {
		e.find("unknown-command", words[0], "")
	}
	p := e.resolve(words[0])
	text, ok := e.written[p] // what this command line has written there
	switch ext := path.Ext(p); {
	case !ok:
	case text == moved || text == linked:
		e.find("unknown-command", words[0], "")
	case ext == "" || ext == ".sh" || ext == ".bash":
		e.text(text)
	default:
		e.code(c, text)
	}
}
