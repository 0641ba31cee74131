package cmdpolicy

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A call is one run of a program: its name without folders, and its arguments.
type call struct {
	name  string
	args  []string
	stdin text
}

// simple judges a simple command for one choice of values.
func (j *evaluator) simple(c *syntax.CallExpr, in text) text {
	for _, a := range c.Assigns {
		j.assign(a)
	}
	if len(c.Args) == 0 {
		return text{kind: known}
	}
	j.unsure, j.fetched = false, false
	first := j.fields(c.Args[0])
	unsure, fetched := j.unsure, j.fetched
	argv := append(first, j.fields(c.Args[1:]...)...)
	if unsure {
		j.hit("unknown-command", "", "")
	}
	if fetched {
		j.hit("run-downloaded", "", "")
	}
	return j.run(argv, in)
}

// run judges the run of a program with its arguments.
func (j *evaluator) run(argv []string, in text) (out text) {
	out = text{kind: anything}
	if !j.step() {
		return out
	}
	if len(argv) == 0 {
		return text{kind: known}
	}
	j.deeper(func() { out = j.dispatch(argv, in) })
	return out
}

func (j *evaluator) dispatch(argv []string, in text) text {
	name, args := argv[0], argv[1:]
	j.record(argv)
	if strings.ContainsAny(name, string([]rune{hole, many, one})) {
		return j.guess(argv, in)
	}
	if value, ok := j.alias[name]; ok {
		delete(j.alias, name) // an alias does not stand for itself
		j.subshell(value+" "+quoteAll(args), in, j.zero, j.args)
		j.alias[name] = value
	}
	// What the script defines it may define on a branch that is not taken, so the
	// program of that name counts too.
	out := text{}
	if _, ok := j.funcs[name]; ok {
		j.called[name] = true
		out = j.invoke(name, args, in)
	} else if strings.Contains(name, "/") {
		out, _ = j.writtenProgram(name, args, in)
	}
	return out.join(j.program(call{base(name), args, in}))
}

// base is the name of a program without folders, as the table has it.
func base(name string) string {
	return strings.TrimSuffix(strings.ToLower(path.Base(name)), ".exe")
}

// writtenProgram judges a program that the script has written itself.
func (j *evaluator) writtenProgram(name string, args []string, in text) (text, bool) {
	for _, p := range j.resolve(name) {
		t, ok := j.files[p]
		switch {
		case !ok:
		case t.kind == known:
			return j.subshell(t.s, in, name, args), true
		case t.net:
			j.hit("run-downloaded", "", "")
			return text{kind: anything}, true
		default:
			j.hit("run-piped", "", "")
			return text{kind: anything}, true
		}
	}
	return text{}, false
}

// guess judges a command whose name is not wholly known: it may be any that
// fits.
func (j *evaluator) guess(argv []string, in text) text {
	name := path.Base(argv[0])
	j.named.command(call{args: argv[1:]})
	j.hit("unknown-command", "", "")
	if strings.Trim(argv[0], unknown) == "" && len(argv) > 1 { // it may be nothing, then the next word is the command
		return j.run(argv[1:], in)
	}
	if strings.Trim(name, string([]rune{hole, many, one})) == "" {
		return text{kind: anything}
	}
	for _, p := range grave {
		if strings.ContainsRune(name, hole) && !slices.Contains(perTarget, p) {
			continue
		}
		if matches(strings.ToLower(name), p) {
			j.program(call{p, argv[1:], in})
		}
	}
	return text{kind: anything}
}

// grave are the programs that a pattern in the place of a command may mean.
var grave = []string{
	"rm", "dd", "chmod", "chown", "mkfs", "wipefs", "shutdown", "reboot", "poweroff", "halt", "init", "kill", "find", "bash", "sh",
	"insmod", "modprobe", "rmmod", "mv", "shred", "sudo", "python3", "perl", "curl", "wget", "eval", "git", "docker", "systemctl", "tee",
}

// perTarget are those that are judged by what they are pointed at.
var perTarget = []string{"rm", "dd", "chmod", "chown", "mv", "tee"}

// program judges the run of a program by its name.
func (j *evaluator) program(c call) text {
	j.named.command(c)
	if w, ok := wrappers[c.name]; ok {
		return j.wrapped(c, w)
	}
	if c.name == "test" || c.name == "[" || c.name == "printf" {
		j.indexed(valueOf(c.args, "-v"))
	}
	if f, ok := j.printers[c.name]; ok {
		j.touched(c)
		return f(j, c)
	}
	for _, f := range j.families {
		if out, ok := f(j, c); ok {
			return out
		}
	}
	j.touched(c)
	return text{kind: anything}
}

// A family judges the programs that it knows.
type family func(j *evaluator, c call) (text, bool)

// families in the order in which they are asked.
func families() []family {
	return []family{
		shells, builtins, searches, interpreters, scripted, deleting, copying, permissions, diskTools, powerTools, processes,
		gits, packaged, services, containers, infrastructures, databases, networks, transfers, accounts, own,
	}
}

func handled() (text, bool) { return text{kind: anything}, true }

// setting judges an assignment to a variable that programs obey.
func (j *evaluator) setting(name, v string) {
	j.charge(v)
	j.named.assign(name, v)
	switch name {
	case "PATH":
		if !strings.Contains(v, unknown) {
			j.hit("environment", name, v)
		}
	case "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "PYTHONSTARTUP",
		"PYTHONPATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "SHELLOPTS", "BASHOPTS":
		j.hit("environment", name, v)
	case "PROMPT_COMMAND", "PS0", "PS1", "PS4", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "MANPAGER",
		"EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS", "BROWSER", "LESSOPEN", "LESSCLOSE", "RSYNC_RSH":
		j.subshell(v, text{kind: anything}, j.zero, nil)
	}
}

// options are what a program was given ahead of, or between, its operands.
type options map[string]string

// any reports whether one of the options was given. Names of one letter are
// short; long ones may have been cut short.
func (o options) any(names ...string) bool {
	for _, n := range names {
		if _, ok := o.get(n); ok {
			return true
		}
	}
	return false
}

func (o options) get(name string) (string, bool) {
	if v, ok := o[name]; ok {
		return v, true
	}
	if len(name) > 1 {
		for _, k := range slices.Sorted(maps.Keys(o)) {
			if len(k) > 2 && strings.HasPrefix(name, k) {
				return o[k], true
			}
		}
	}
	return "", false
}

// parse reads arguments. valued lists the options that take a value. first stops
// at the first operand.
func parse(args []string, valued string, first bool) (options, []string) {
	o, rest, takes := options{}, []string(nil), strings.Fields(valued)
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch {
		case a == "--":
			return o, append(rest, args[min(i+1, len(args)):]...)
		case strings.HasPrefix(a, "--"):
			n, v, ok := strings.Cut(a[2:], "=")
			if !ok && slices.Contains(takes, n) {
				v = next()
			}
			o[n] = v
		case strings.HasPrefix(a, "-") && len(a) > 1:
			for k := 1; k < len(a); k++ {
				n := a[k : k+1]
				if !slices.Contains(takes, n) {
					o[n] = ""
					continue
				}
				if o[n] = a[k+1:]; k+1 == len(a) {
					o[n] = next()
				}
				break
			}
		case first:
			return o, args[i:]
		default:
			rest = append(rest, a)
		}
	}
	return o, rest
}

// quoteAll writes fields so that a script reads them as these fields.
func quoteAll(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		if strings.ContainsAny(f, string([]rune{many, one})) {
			b.WriteString(f + " ") // the marks become patterns again
			continue
		}
		b.WriteString("'" + strings.ReplaceAll(f, "'", `'\''`) + "' ")
	}
	return b.String()
}

// scanText judges a text that is no script, as well as may be: every piece that
// could be a command.
func (j *evaluator) scanText(src string) {
	pieces := strings.FieldsFunc(src, func(r rune) bool { return strings.ContainsRune(";&|\n`(){}", r) })
	for i, p := range pieces {
		if i >= maxFields {
			return
		}
		p = strings.NewReplacer("'", "", `"`, "", `\`, "", "$", "").Replace(p)
		p, to, _ := strings.Cut(p, ">")
		if to = strings.TrimLeft(to, "> "); to != "" {
			j.write("redirect", strings.Fields(to)[0])
		}
		argv := strings.Fields(p)
		for len(argv) > 0 && syntax.IsKeyword(argv[0]) {
			argv = argv[1:]
		}
		if len(argv) > 0 {
			j.run(argv[:min(len(argv), maxFields)], text{kind: anything})
		}
	}
}
