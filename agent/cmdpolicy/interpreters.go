package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

// interpreters judges programs that read another language than the shell's.
func interpreters(j *evaluator, c call) (text, bool) {
	name := c.name
	if m := versioned.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	takes, ok := runsCode[name]
	if !ok || name == "sqlite3" {
		return text{}, false
	}
	file := false
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case name == "deno" && a == "eval" && i+1 < len(c.args):
			j.code(c.args[i+1])
			return handled()
		case (name == "python" || name == "pypy" || name == "ipython") && a == "-m" && i+1 < len(c.args):
			return j.module(c.args[i+1:], c.stdin), true
		case name == "php" && a == "-S", name == "ruby" && a == "-run":
			j.hit("listen", c.name, "")
		case a == "-":
		case strings.HasPrefix(a, "-") && !file:
			if v, yes := codeOption(name, a, takes); yes {
				if v == "" && i+1 < len(c.args) {
					i++
					v = c.args[i]
				}
				j.code(v)
			}
		default:
			file = true
		}
	}
	if slices.Contains(c.args, "-") || !file {
		j.interprets(c.stdin)
	}
	for _, a := range c.args {
		if strings.HasPrefix(a, "/dev/fd/") || a == "/dev/stdin" {
			j.interprets(j.read(a).join(c.stdin))
		}
	}
	if file {
		j.script0(c)
	}
	return handled()
}

// script0 judges a script of another language that was downloaded or written by
// this very command.
func (j *evaluator) script0(c call) {
	for _, a := range c.args {
		if strings.HasPrefix(a, "-") {
			continue
		}
		for _, p := range j.resolve(a) {
			if t, ok := j.files[p]; ok {
				j.interprets(t)
			}
		}
		return
	}
}

// codeOption reports whether an argument is, or ends in, an option that takes a
// program, and the program if it is in the same argument.
func codeOption(name, a, takes string) (string, bool) {
	values := "MIdxC" // options of perl and ruby whose value follows in the same argument
	if name == "python" || name == "pypy" {
		values = "WXm"
	}
	long, isLong := strings.CutPrefix(a, "--")
	for t := range strings.FieldsSeq(takes) {
		switch {
		case len(t) > 1 && (isLong && (long == t || strings.HasPrefix(long, t+"=")) || strings.EqualFold(a, "-"+t)):
			_, v, _ := strings.Cut(a, "=")
			return v, true
		case len(t) == 1 && !isLong && strings.Contains(a, t):
			_, v, _ := strings.Cut(a, t)
			if strings.ContainsAny(a[1 : strings.Index(a, t)+1][:strings.Index(a, t)-1], values) { // -MFoo, -Idir: a value, not a cluster
				continue
			}
			return v, true
		}
	}
	return "", false
}

// interprets judges a text that an interpreter reads as its program.
func (j *evaluator) interprets(in text) {
	switch {
	case in.kind == known && strings.TrimSpace(in.s) != "":
		j.code(in.s)
	case in.kind == anything && in.net:
		j.hit("run-downloaded", "", "")
	case in.kind == anything:
		j.hit("run-piped", "", "")
	}
}

// module judges python -m.
func (j *evaluator) module(args []string, in text) text {
	switch args[0] {
	case "http.server", "SimpleHTTPServer", "pyftpdlib", "aiosmtpd", "smtpd":
		j.hit("listen", "python", args[0])
	case "pip", "ensurepip", "easy_install", "pipx":
		return j.run(append([]string{"pip"}, args[1:]...), in)
	case "timeit", "trace", "pdb":
		j.code(strings.Join(args[1:], " "))
	}
	return text{kind: anything}
}

var (
	literal = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`|q[qxw]?\\{[^}]*\\}|q[qxw]?\\([^)]*\\)|%x\\{[^}]*\\}")
	starts  = regexp.MustCompile("(?i)system|exec|popen|spawn|subprocess|shell|`|qx|%x|getoutput|\\bsh\\b|run\\(|open\\(|pty|process")
	deletes = regexp.MustCompile(`(?i)rmtree|rmdir|unlink|remove|rm_rf|rm_r\b|rmSync|rimraf|FileUtils|delete`)
	forks   = regexp.MustCompile(`(?i)fork\s*(\(\s*\))?\s*while\s+(fork|1|true)|while\s*\(?\s*(1|true)\s*\)?\s*[:{]?\s*(\w+\.)*fork|fork\s*while\s*fork`)
	opens   = regexp.MustCompile(`(?i)open|write|file_put_contents|truncate|dd\b`)
)

// code judges a program in another language. It is not read as such: its texts
// are looked at, as commands if the program starts others, as paths if it
// deletes or writes.
func (j *evaluator) code(src string) {
	j.hit("run-code", "", "")
	if forks.MatchString(src) {
		j.hit("fork-bomb", "", "")
	}
	var texts []string
	for _, l := range literal.FindAllString(src, maxFields) {
		l = strings.TrimLeft(l, "q%xw")
		if len(l) >= 2 {
			texts = append(texts, strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\'`, `'`, `\n`, "\n").Replace(l[1:len(l)-1]))
		}
	}
	if starts.MatchString(src) {
		for _, t := range texts {
			j.subshell(t, text{kind: anything}, "sh", nil)
		}
		if len(texts) > 1 {
			j.subshell(quoteAll(texts), text{kind: anything}, "sh", nil)
		}
		j.subshell(strings.Join(texts, ""), text{kind: anything}, "sh", nil)
	}
	for _, t := range texts {
		if strings.ContainsAny(t, "\n ") || t == "" {
			continue
		}
		if deletes.MatchString(src) {
			j.remove("code", t, strings.HasPrefix(t, "/") || strings.HasPrefix(t, "~"))
		}
		if opens.MatchString(src) && (strings.HasPrefix(t, "/") || strings.HasPrefix(t, "~")) {
			j.write("code", t)
		}
	}
}

var (
	awkRuns  = regexp.MustCompile(`system\s*\(|\|\s*getline|\|&?\s*"|"\s*\|`)
	awkSaves = regexp.MustCompile(`>\s*"([^"]+)"`)
	sedRuns  = regexp.MustCompile(`(^|[;\n{}0-9$/!])\s*e(\s|$)`)
	sedSave  = regexp.MustCompile(`(?:^|[;\n{}0-9$/])\s*[wW]\s*([^\s;]+)`)
	sedEval  = regexp.MustCompile(`s(.).*[/|,#@!:][gpimIM0-9]*e[gpimIM0-9]*\s*($|[;}\n])`)
	editRun  = regexp.MustCompile(`[:|+"']?!\s*([^"']+)|system\(|shell-command`)
)

// scripted judges programs that have a small language of their own.
func scripted(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "awk", "gawk", "mawk", "nawk":
		for _, a := range c.args {
			if awkRuns.MatchString(a) {
				j.code("system " + a)
			}
			for _, m := range awkSaves.FindAllStringSubmatch(a, 8) {
				j.write(c.name, m[1])
			}
		}
	case "sed", "gsed":
		j.sed(c)
	case "vim", "vi", "ex", "nvim", "view", "ed", "emacs", "nano", "less", "more", "man", "gdb", "mail", "mutt":
		for _, a := range append(slices.Clone(c.args), c.stdin.s) {
			for _, m := range editRun.FindAllStringSubmatch(a, 8) {
				j.hit("run-code", "", "")
				j.subshell(m[1], text{kind: anything}, "sh", nil)
			}
		}
	case "tar", "gtar", "bsdtar":
		j.tar(c.args)
	case "zip":
		for i, a := range c.args {
			if v, ok := strings.CutPrefix(a, "-TT"); ok || a == "--unzip-command" {
				j.subshell(v+" "+strings.Join(c.args[min(i+1, len(c.args)):min(i+2, len(c.args))], ""), text{kind: anything}, "sh", nil)
			}
		}
		return text{}, false
	case "make", "gmake":
		for _, a := range c.args {
			if n, v, ok := strings.Cut(a, "="); ok && (n == "SHELL" || n == ".SHELLFLAGS" || n == "--eval") {
				j.hit("run-code", "", "")
				j.subshell(v, text{kind: anything}, "sh", nil)
			}
		}
		if o, _ := parse(c.args, "f C j", false); o["f"] == "-" || strings.HasPrefix(o["f"], "/dev/fd") {
			j.piped(c.stdin)
			j.hit("run-piped", "", "")
		}
	default:
		return text{}, false
	}
	j.touched(c)
	return handled()
}

func (j *evaluator) sed(c call) {
	o, rest := parse(c.args, "e f expression file l s", false)
	scripts := []string{o["e"], o["expression"]}
	if !o.any("e", "f", "expression", "file") && len(rest) > 0 {
		scripts, rest = rest[:1], rest[1:]
	}
	for _, s := range scripts {
		if sedRuns.MatchString(s) || sedEval.MatchString(s) {
			j.hit("run-code", "", "")
			_, after, _ := strings.Cut(s, "e ")
			j.subshell(after, text{kind: anything}, "sh", nil)
		}
		for _, m := range sedSave.FindAllStringSubmatch(s, 8) {
			j.write("sed", m[1])
		}
	}
	_, short := o["i"]
	if short || o.any("in-place") {
		for _, f := range rest {
			j.write("sed", f)
		}
	}
}

func (j *evaluator) tar(args []string) {
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		n, v, ok := strings.Cut(a, "=")
		if !ok {
			v = next
		}
		switch n {
		case "--checkpoint-action":
			j.hit("run-code", "", "")
			j.subshell(strings.TrimPrefix(v, "exec="), text{kind: anything}, "sh", nil)
		case "--to-command", "--use-compress-program", "-I", "--rsh-command", "--info-script", "--new-volume-script", "-F":
			j.subshell(v, text{kind: anything}, "sh", nil)
		case "-C", "--directory":
			j.write("tar", v)
		case "--remove-files":
			for _, b := range args {
				if !strings.HasPrefix(b, "-") {
					j.remove("tar", b, true)
				}
			}
		}
	}
}
