package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

// shells judges programs that read scripts of the shell.
func shells(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "rzsh", "fish", "csh", "tcsh", "yash", "ksh93", "hush", "osh":
	default:
		return text{}, false
	}
	inline, stdin, i := false, false, 0
	for ; i < len(c.args); i++ {
		a := c.args[i]
		if len(a) < 2 || a[0] != '-' && a[0] != '+' || a == "--" {
			break
		}
		switch {
		case a == "--rcfile" || a == "--init-file":
			if i++; i < len(c.args) {
				j.source(c.args[i], c.stdin)
			}
		case a == "--command":
			inline = true
		case strings.HasPrefix(a, "--"):
		default:
			inline = inline || strings.ContainsRune(a, 'c') || strings.ContainsRune(a, hole)
			stdin = stdin || strings.ContainsRune(a, 's')
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
				i++
			}
		}
	}
	rest := c.args[min(i, len(c.args)):]
	if len(rest) > 0 && (rest[0] == "--" || rest[0] == "-") {
		rest = rest[1:]
	}
	switch {
	case inline && len(rest) > 0:
		zero, args := c.name, rest[1:]
		if len(args) > 0 {
			zero, args = args[0], args[1:]
		}
		return j.subshell(rest[0], c.stdin, zero, args), true
	case stdin || len(rest) == 0:
		was := j.args
		j.args = rest
		out := j.piped(c.stdin)
		j.args = was
		return out, true
	}
	was, zero := j.args, j.zero
	j.args, j.zero = rest[1:], rest[0]
	out := j.source(rest[0], c.stdin)
	j.args, j.zero = was, zero
	return out, true
}

// piped judges a text that a shell reads as its script.
func (j *evaluator) piped(in text) text {
	switch {
	case in.kind == known:
		return j.subshell(in.s, text{kind: none}, "sh", j.args)
	case in.kind == anything && in.net:
		j.hit("run-downloaded", "", "")
	case in.kind == anything:
		j.hit("run-piped", "", "")
	}
	return text{kind: anything}
}

// source judges a file that is run as a script. What a file that was there before
// holds is not known here; it is run as any program is.
func (j *evaluator) source(name string, in text) text {
	if slices.Contains([]string{"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"}, name) {
		return j.piped(in)
	}
	if strings.ContainsRune(name, hole) {
		j.hit("unknown-command", "", "")
	}
	if out, ok := j.writtenProgram(name, j.args, in); ok {
		return out
	}
	j.read(name)
	return text{kind: anything}
}

// builtins judges what the shell itself does.
func builtins(j *evaluator, c call) (text, bool) {
	for _, a := range c.args {
		j.indexed(a)
	}
	switch c.name {
	case "eval":
		j.hit("eval", "", "")
		return j.script(strings.Join(c.args, " "), c.stdin), true
	case "source", ".":
		if len(c.args) > 0 {
			return j.source(c.args[0], c.stdin), true
		}
	case "trap":
		if len(c.args) > 1 && c.args[0] != "-" {
			j.subshell(c.args[0], text{kind: none}, j.zero, j.args)
		}
	case "alias":
		for _, a := range c.args {
			if n, v, ok := strings.Cut(a, "="); ok {
				j.alias[n] = v
				j.subshell(v, text{kind: anything}, j.zero, nil)
			}
		}
	case "cd", "pushd", "chdir":
		o, rest := parse(c.args, "", false)
		_ = o
		if len(rest) == 0 && c.name == "cd" {
			rest = []string{"~"}
		}
		if len(rest) > 0 {
			j.addDir(rest[0])
		}
	case "set":
		j.positionals(c.args)
	case "shift":
		j.open = len(j.args) > 0 || j.open
	case "read", "mapfile", "readarray", "getopts":
		j.reads(c)
	case "unset":
		for _, a := range c.args {
			j.set(a, "")
		}
	case "enable", "hash":
		if slices.Contains(c.args, "-f") || slices.Contains(c.args, "-p") {
			j.hit("environment", c.name, strings.Join(c.args, " "))
		}
	case "export", "declare", "typeset", "local", "readonly": // behind "command" or "builtin"
		for _, a := range c.args {
			if n, v, ok := strings.Cut(a, "="); ok {
				j.set(n, v)
				j.setting(n, v)
			}
		}
	case "bind", "complete", "compgen":
		j.bound(c.args)
	default:
		return text{}, false
	}
	return text{kind: known}, true
}

// bound judges commands that are bound to keys or completions.
func (j *evaluator) bound(args []string) {
	for i, a := range args {
		if a != "-x" && a != "-C" && a != "-F" {
			continue
		}
		run := strings.Join(args[i+1:], " ")
		if _, after, ok := strings.Cut(run, ":"); ok {
			run = after
		}
		j.subshell(run, text{kind: none}, j.zero, nil)
	}
}

// positionals judges set -- a b c.
func (j *evaluator) positionals(args []string) {
	for i, a := range args {
		if a == "--" {
			j.args = args[i+1:]
			return
		}
		if a == "" || a[0] != '-' && a[0] != '+' {
			j.args = args[i:]
			return
		}
	}
}

// reads judges that variables get what comes in.
func (j *evaluator) reads(c call) {
	if callback := valueOf(c.args, "-C"); callback != "" {
		j.subshell(callback, text{kind: none}, j.zero, nil)
	}
	_, names := parse(c.args, "d i n N p t u a O s C", false)
	if c.name != "read" || c.stdin.kind != known || strings.ContainsRune(c.stdin.s, hole) {
		for _, n := range append(names, "REPLY", "MAPFILE") {
			j.set(n, unknown)
			j.arrays[n] = []string{unknown}
		}
		return
	}
	for line := range strings.Lines(c.stdin.s) {
		line = strings.TrimSuffix(line, "\n")
		if len(names) == 0 {
			j.set("REPLY", line)
		}
		fs := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(j.separators(), r) })
		for i, n := range names {
			switch {
			case i >= len(fs):
				j.set(n, "")
			case i == len(names)-1:
				j.set(n, strings.Join(fs[i:], " "))
			default:
				j.set(n, fs[i])
			}
		}
	}
}

// searches judges find, xargs and their like, which run a program for each thing
// that they find or are given.
func searches(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "find", "gfind", "bfs":
		j.find(c.args)
	case "xargs", "gxargs":
		j.xargs(c)
	case "parallel", "rush":
		j.parallel(c)
	case "fd", "fdfind":
		for i, a := range c.args {
			if a == "-x" || a == "-X" || a == "--exec" || a == "--exec-batch" {
				j.forFound(c.args[i+1:], []string{unknown})
			}
		}
	default:
		return text{}, false
	}
	return handled()
}

// deleters are programs that delete or destroy what they are given.
var deleters = []string{"rm", "unlink", "shred", "rmdir", "srm", "wipe", "grm"}

func (j *evaluator) find(args []string) {
	i := 0
	for i < len(args) && slices.Contains([]string{"-H", "-L", "-P"}, args[i]) {
		i++
	}
	from := i
	for i < len(args) && !strings.HasPrefix(args[i], "-") && args[i] != "(" && args[i] != "!" {
		i++
	}
	places, tests := args[from:i], args[i:]
	if len(places) == 0 {
		places = []string{"."}
	}
	if narrow(tests) {
		places = []string{unknown}
	}
	for k, t := range tests {
		switch t {
		case "-delete":
			j.hit("delete-found", "find", "")
			for _, p := range places {
				j.remove("find", p, p != unknown)
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			end := k + 1
			for end < len(tests) && tests[end] != ";" && tests[end] != "+" {
				end++
			}
			j.forFound(tests[k+1:end], places)
		case "-fprint", "-fprintf", "-fls", "-fprint0":
			if k+1 < len(tests) {
				j.write("find", tests[k+1])
			}
		}
	}
}

// narrow reports whether the tests of a find let only a part of the files
// through.
func narrow(tests []string) bool {
	yes := false
	for i, t := range tests {
		switch t {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-wholename":
			yes = yes || i+1 < len(tests) && strings.Trim(tests[i+1], "*.?/"+string([]rune{many, one})) != ""
		case "-mtime", "-mmin", "-newer", "-empty", "-user", "-atime", "-ctime":
			yes = true
		case "!", "-not", "-o", "-or", ",":
			return false
		}
	}
	return yes
}

// forFound judges a command that is run for each of what a search finds below
// places.
func (j *evaluator) forFound(argv, places []string) {
	if len(argv) == 0 {
		return
	}
	if slices.Contains(deleters, base(argv[0])) {
		j.hit("delete-found", base(argv[0]), "")
		for _, p := range places {
			j.remove("find", p, p != unknown)
		}
	}
	for _, p := range places {
		each := make([]string, len(argv))
		for i, a := range argv {
			each[i] = strings.ReplaceAll(a, "{}", p)
		}
		j.run(each, text{kind: anything})
	}
}

func (j *evaluator) xargs(c call) {
	o, argv := parse(c.args, "a d E I L n P s arg-file delimiter max-lines max-args max-procs max-chars replace process-slot-var", true)
	for _, n := range []string{"a", "arg-file"} {
		if v, ok := o.get(n); ok {
			j.read(v)
		}
	}
	if len(argv) == 0 {
		return
	}
	if slices.Contains(deleters, base(argv[0])) {
		j.hit("delete-found", base(argv[0]), "")
	}
	given := []string{unknown}
	if c.stdin.kind == known && !o.any("a", "arg-file") {
		given = strings.FieldsFunc(c.stdin.s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == hole })
		if d, ok := o.get("d"); ok && d != "" {
			given = strings.Split(strings.TrimSuffix(c.stdin.s, "\n"), d)
		}
		given = append(given[:min(len(given), maxFields):min(len(given), maxFields)], strings.Repeat(unknown, strings.Count(c.stdin.s, unknown)&1))
		given = slices.DeleteFunc(given, func(s string) bool { return s == "" })
	}
	repl, ok := o.get("I")
	if r, yes := o.get("replace"); yes {
		repl, ok = r, true
	}
	if _, yes := o["i"]; yes {
		repl, ok = "{}", true
	}
	if ok {
		if c.stdin.kind == known {
			given = strings.Split(strings.TrimSpace(c.stdin.s), "\n")
		}
		if repl == "" {
			repl = "{}"
		}
		for _, g := range given {
			each := make([]string, len(argv))
			for i, a := range argv {
				each[i] = strings.ReplaceAll(a, repl, g)
			}
			j.run(each, text{kind: anything})
		}
		return
	}
	j.run(append(slices.Clone(argv), given...), text{kind: anything})
}

func (j *evaluator) parallel(c call) {
	_, argv := parse(c.args, "j a N n I S jobs arg-file max-args joblog results delay timeout", true)
	command, given := argv, []string{unknown}
	if i := slices.Index(argv, ":::"); i >= 0 {
		command, given = argv[:i], argv[i+1:]
	} else if c.stdin.kind == known {
		given = strings.Split(strings.TrimSpace(c.stdin.s), "\n")
	}
	for _, g := range given[:min(len(given), maxFields)] {
		line := strings.Join(command, " ")
		switch {
		case line == "":
			line = g
		case strings.Contains(line, "{}"):
			line = strings.ReplaceAll(line, "{}", g)
		default:
			line += " " + g
		}
		j.subshell(line, text{kind: anything}, "sh", nil)
	}
}

var (
	versioned = regexp.MustCompile(`^(python|pypy|perl|ruby|php|lua|luajit|node|nodejs|tclsh|wish|guile)[0-9.]*$`)
	runsCode  = map[string]string{ // the options that take a program, by interpreter
		"python": "c", "pypy": "c", "perl": "e E", "ruby": "e", "php": "r B R", "lua": "e", "luajit": "e", "node": "e p eval print", "nodejs": "e p eval print",
		"tclsh": "c", "guile": "c", "deno": "", "bun": "e eval p print", "osascript": "e", "rscript": "e", "groovy": "e", "elixir": "e eval", "swift": "e",
		"powershell": "c command encodedcommand", "pwsh": "c command encodedcommand", "scala": "e", "julia": "e E", "octave": "eval", "jshell": "", "ghc": "e", "racket": "e",
		"erl": "eval", "emacs": "eval batch", "gdb": "ex x", "lldb": "o", "irb": "", "ipython": "c", "wish": "", "expect": "c", "r": "e", "sqlite3": "",
	}
)
