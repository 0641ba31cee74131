package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// text examines a script that is the value of a word.
func (e *evaluator) text(script string) {
	if strings.Contains(script, hole) {
		e.find("unknown-command", "", "")
		return
	}
	e.script(script)
}

// shell examines a shell: a script in an argument, in a file, or from a pipe.
func (e *evaluator) shell(c *call) {
	switch {
	case c.option("-c") && len(c.operands) > 0:
		e.text(c.operands[0])
	case len(c.operands) > 0 && !strings.HasPrefix(c.operands[0], "/dev/") && !c.option("-s"):
		e.file(c.operands)
	case c.stdin != "":
		e.text(c.stdin)
	case c.option("--version", "--help"):
	default:
		e.find("run-piped", c.argv[0], "")
	}
}

// interpreter examines a program that runs programs in another language.
func (e *evaluator) interpreter(c *call) {
	for i, a := range c.argv[1:] {
		if a == "-m" && slices.Contains(c.code, "-m") && i+2 < len(c.argv) { // a module that is a program
			e.command(c.argv[i+2:], "")
			return
		}
		if slices.Contains(c.code, a) && i+2 < len(c.argv) {
			e.code(c.argv, c.argv[i+2])
			return
		}
		for _, o := range c.code {
			if value, ok := strings.CutPrefix(a, o); ok && (value == "" || len(o) == 2 && o[1] != '-' || value[0] == '=') {
				if value == "" && i+2 < len(c.argv) {
					value = c.argv[i+2]
				}
				e.code(c.argv, value)
				return
			}
		}
		if a == "" || a[0] != '-' {
			break
		}
		if o := r1(a); len(a) > 2 && a[1] != '-' && slices.Contains(c.code, o) { // -uc, -ne
			e.code(c.argv, strings.Join(c.argv[i+2:], " "))
			return
		}
	}
	switch {
	case len(c.operands) > 0 && c.operands[0] != "-" && !strings.HasPrefix(c.operands[0], "/dev/"):
		e.file(c.operands)
	case c.stdin != "":
		e.code(c.argv, c.stdin)
	case c.option("--version", "-V", "-v", "--help", "-h"):
	default:
		e.find("run-piped", c.argv[0], "")
	}
}

// r1 returns the option of the last letter of a cluster.
func r1(cluster string) string { return "-" + cluster[len(cluster)-1:] }

// code examines a program in another language that stands in the command itself. It runs
// unless it names a file outside, or something that connects, starts programs, or hides what
// it does.
func (e *evaluator) code(argv []string, text string) {
	lower := strings.Join(strings.Fields(strings.ToLower(plainNames.Replace(text))), "")
	if strings.Contains(text, hole) || opens.MatchString(text) && joined.MatchString(text) ||
		slices.ContainsFunc(e.table.sets["code"], func(w string) bool { return strings.Contains(lower, w) }) {
		e.find("run-code", path.Base(argv[0]), "")
		return
	}
	n := len(e.unconfined)
	e.confine(argv, append(argv[1:len(argv):len(argv)], " "+text))
	e.own = append(e.own, e.unconfined[n:]...)
	e.unconfined = e.unconfined[:n]
}

var (
	plainNames = strings.NewReplacer("__version__", "", "__name__", "", "__main__", "", "__file__", "", "__init__", "", "__class__", "", "__doc__", "")
	opens      = regexp.MustCompile(`open\s*\(|read_|load\w*\(|readFile|writeFile`)
	joined     = regexp.MustCompile(`["']\s*\+|\+\s*["']|%\s*\(|\bf["'][^"']*\{[^"']*["']\s*[,)]\s*(?:as|\.read)`)
)

// file examines a program or a script that is named by its file.
func (e *evaluator) file(argv []string) {
	if e.readAll(argv, argv[:1]); len(argv) == 2 && slices.Contains(e.table.sets["version"], argv[1]) {
		return
	}
	e.confine(argv, argv[1:])
	if strings.Contains(argv[0], hole) {
		e.find("unknown-command", argv[0], "")
	}
	for _, p := range e.place.resolve(argv[0], e.dirs) { // what this command line has written there
		text, ok := e.written[p]
		if _, dir := e.written[path.Dir(p)]; !ok && dir {
			text, ok = hole, true
		}
		if !ok {
			continue
		}
		if ext := path.Ext(p); ext == "" || ext == ".sh" || ext == ".bash" {
			e.text(text)
		} else {
			e.code(argv, text)
		}
	}
}
