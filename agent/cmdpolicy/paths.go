package cmdpolicy

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"hermesd/agent/protected"
)

// A place is a Place in the form that the evaluator compares: all paths are absolute, clean,
// and separated by slashes.
type place struct {
	Place
	dir       string
	workspace string
	aliases   []string // other names of workspace
	home      string
	own       []string // in lower case
	readable  []string
}

func newPlace(p Place) place {
	at := place{Place: p, dir: "/workspace", home: "/home/user"}
	if p.Dir != "" {
		at.dir = slashed(p.Dir)
	}
	at.workspace = at.dir
	for i, w := range p.Workspace {
		if i == 0 {
			at.workspace = slashed(w)
		} else {
			at.aliases = append(at.aliases, slashed(w))
		}
	}
	if len(p.Homes) > 0 {
		at.home = slashed(p.Homes[0])
	}
	for _, o := range p.Own {
		at.own = append(at.own, strings.ToLower(slashed(o)))
	}
	for _, r := range p.Readable {
		at.readable = append(at.readable, slashed(r))
	}
	return at
}

func (at place) approved(shape string) bool { return at.Approved != nil && at.Approved(shape) }

func slashed(p string) string { return path.Clean("/" + filepath.ToSlash(p)) }

func under(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}

// workDir matches the directory of a process, which is taken for that of the script.
var workDir = regexp.MustCompile(`^/proc/(self|thread-self|[0-9]+)/cwd(/|$)`)

// resolve returns the absolute paths that a name means in dirs. A name that begins with
// something unknown means hole.
func (at place) resolve(name string, dirs []string) []string {
	name = strings.TrimPrefix(name, "file://")
	if m := workDir.FindString(name); m != "" {
		name = "./" + name[len(m):]
	}
	switch {
	case strings.HasPrefix(name, hole):
		return []string{name}
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = at.home + name[1:]
	case strings.HasPrefix(name, "~+"):
		name = "." + name[2:]
	case strings.HasPrefix(name, "~"):
		name = "/home/" + name[1:]
	}
	if strings.HasPrefix(name, "/") {
		return []string{at.real(path.Clean(name))}
	}
	var all []string
	for _, d := range dirs {
		if strings.Contains(d, hole) {
			all = addTo(all, hole)
		} else {
			all = addTo(all, at.real(path.Clean(d+"/"+name)))
		}
	}
	return all
}

// real returns the path without other names of the workspace and of the root.
func (at place) real(p string) string {
	for _, root := range []string{"/proc/self/root", "/proc/1/root"} {
		if under(p, root) {
			p = "/" + strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
		}
	}
	for _, a := range at.aliases {
		if under(p, a) {
			return at.workspace + p[len(a):]
		}
	}
	return p
}

// shown returns a path as a shape shows it: relative to the workspace if it is in it.
func (at place) shown(p string) string {
	if under(p, at.workspace) {
		return "." + p[len(at.workspace):]
	}
	return p
}

// A location is where a path is, in the sense of this package.
type location int

const (
	inside   location = iota // in the workspace, or in a temporary directory
	readable                 // programs and libraries, settings of the system, logs
	outside
	unknown
)

func (e *evaluator) locate(p string) location {
	switch at := e.place; {
	case strings.Contains(p, hole):
		return unknown
	case under(p, at.workspace), underAny(p, e.table.sets["temporary"]):
		return inside
	case underAny(p, at.readable), underAny(p, e.table.sets["readable"]):
		return readable
	}
	return outside
}

// owned reports whether a path belongs to the daemon. Case is ignored, because some file
// systems ignore it. A pattern counts as all that it may match.
func (e *evaluator) owned(p string) bool {
	at, low := e.place, strings.ToLower(p)
	if underAny(p, at.readable) {
		return false
	}
	if i := slices.IndexFunc(at.own, func(o string) bool {
		return (under(low, o) || matchesPattern(low, o)) && (!under(p, at.workspace) || !under(strings.ToLower(at.workspace), o))
	}); i >= 0 {
		return true
	}
	return strings.Contains(low, "/.hermes/") && !under(p, at.workspace) || strings.HasSuffix(low, "/.hermes") && !under(p, at.workspace) || path.Base(p) == "SOUL.md"
}

func matchesPattern(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return false
	}
	ok, _ := path.Match(pattern, name) // what is no pattern is a name
	return ok
}

// keyFile matches the names of files that hold passwords or private keys.
var keyFile = regexp.MustCompile(`(?i)^(\.env(\..*)?|.*\.env|\.?id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.npmrc|\.pypirc|` +
	`credentials(\.json|\.ya?ml|\.toml|\.csv)?|secrets?\.(json|ya?ml|toml|env|txt)|.*\.(pem|key|p12|pfx|kdbx|keystore|jks|ovpn)|\.htpasswd|\.vault[-_](token|pass)|g?shadow-?|` +
	`service[-_]account.*\.json|authorized_keys|login\.keychain.*|cookies(\.sqlite)?|logins\.json|key4\.db|wallet\.dat|\.?kubeconfig|\.bash_history|\.zsh_history|\.python_history|\.psql_history|\.mysql_history|terraform\.tfvars|.*\.tfstate)$`)

// keyNames are names by which a pattern such as .e* is tried.
var keyNames = []string{".env", ".env.local", ".env.production", "id_rsa", "id_ed25519", ".netrc", ".npmrc", ".pgpass", "credentials", "credentials.json", "secrets.yaml", "secrets.yml", "server.key", "server.pem"}

// secret reports whether a path holds passwords or keys.
func (e *evaluator) secret(p string) bool {
	b := strings.TrimRight(path.Base(p), " .")
	for _, suffix := range []string{".example", ".sample", ".template", ".dist", ".pub"} {
		if strings.HasSuffix(b, suffix) {
			return false
		}
	}
	if under(p, "/etc/ssl/certs") {
		return false
	}
	if keyFile.MatchString(b) && (b != "shadow" || under(p, "/etc")) {
		return true
	}
	if b != "*" && b != "**" && slices.ContainsFunc(keyNames, func(n string) bool {
		stem := strings.TrimSuffix(b, path.Ext(b))
		return strings.HasPrefix(b, ".") == strings.HasPrefix(n, ".") && (strings.Trim(stem, "*?.") != "" || stem == "" && strings.Trim(b, "*?.") != "") && matchesPattern(b, n) || b == ".*" && n == ".env"
	}) {
		return true
	}
	for _, dir := range e.table.sets["secret"] {
		if dir = strings.Replace(dir, "~", e.place.home, 1); under(p, dir) && !strings.HasSuffix(p, "known_hosts") {
			return true
		}
	}
	if slices.ContainsFunc([]string{"/.ssh/", "/.aws/", "/.gnupg/"}, func(s string) bool { return strings.Contains(p, s) && !strings.HasSuffix(p, "known_hosts") }) {
		return true
	}
	return strings.HasPrefix(p, "/proc/") && slices.Contains([]string{"environ", "mem", "maps", "cmdline"}, b) && b != "cmdline"
}

// read examines that a command reads the content of a file.
func (e *evaluator) read(argv []string, r *row, name string) {
	for _, p := range e.place.resolve(name, e.dirs) {
		if e.owned(p) {
			e.find("own-home", e.place.shown(p), "")
			continue
		}
		if e.secret(p) {
			e.find("secrets", e.place.shown(p), withTarget(shape(argv, r), e.place.shown(p)))
			continue
		}
		switch e.locate(p) {
		case outside:
			e.find("read-outside", p, withTarget(shape(argv, r), p))
		case unknown:
			if e.place.Sandbox != Full {
				e.find("unknown-target", name, "")
			}
		}
	}
}

func (e *evaluator) readAll(argv, names []string) {
	r, _, _ := e.table.lookup(argv)
	for _, n := range names {
		e.read(argv, r, n)
	}
}

func (e *evaluator) list(c *call) {
	for _, o := range slices.Concat(c.operands, c.values) {
		for _, p := range e.place.resolve(o, e.dirs) {
			hidden := slices.ContainsFunc([]string{"/.ssh", "/.aws", "/.gnupg", "/.hermes"}, func(s string) bool { return strings.Contains(p, s) })
			if (e.secret(p) || hidden || secretName.MatchString(o)) && slices.Contains([]string{"find", "fd", "locate", "git", "tree"}, path.Base(c.argv[0])) {
				e.find("secrets", e.place.shown(p), withTarget(shape(c.argv, c.row), e.place.shown(p)))
			}
		}
	}
}

// secretName matches a name by which secrets are searched for.
var secretName = regexp.MustCompile(`(?i)credential|secret|passw|id_rsa|\.pem\b|\.key\b`)

var disk = regexp.MustCompile(`^/dev/(r?disk|[shv]d|xvd|nvme|mmcblk|dm-|md|loop|mapper/|mem$|kmem$|port$|nbd|sr|vd|zvol|ram|block/|disk/|bus/)`)

// write examines that a command creates or changes a file.
func (e *evaluator) write(argv []string, r *row, name string) {
	for _, p := range e.place.resolve(name, e.dirs) {
		to := withTarget(shape(argv, r), e.place.shown(p))
		if r == nil && e.written[p] == "" || r != nil && (r.kind == "write" && r.first == nil || r.has("fetch")) {
			e.written[p] = hole
		}
		switch {
		case underAny(p, e.table.sets["sinks"]):
		case strings.HasPrefix(name, "!"), strings.HasPrefix(name, "|"):
			e.find("unknown-option", title(argv, r), "")
		case strings.HasPrefix(e.place.shown(p), "./.git/") && !e.startup(p):
			e.find("git-discard", e.place.shown(p), to)
		case disk.MatchString(p), matchesPattern(p, "/dev/sda"):
			e.find("write-device", p, "")
		case underAny(p, e.table.sets["vital"]), slices.ContainsFunc(e.table.sets["vital"], func(v string) bool { return matchesPattern(p, v) }):
			e.find("overwrite-system", p, "")
		case e.owned(p):
			e.find("own-home", e.place.shown(p), "")
		case e.startup(p):
			e.find("write-startup", e.place.shown(p), to)
		case e.place.Instructs != nil && e.place.Instructs(p):
			e.find("write-instructions", e.place.shown(p), to)
		case e.secret(p):
			e.find("secrets", e.place.shown(p), to)
		default:
			switch e.locate(p) {
			case readable, outside:
				e.find("write-outside", p, to)
			case unknown:
				if e.place.Sandbox != Full || strings.HasPrefix(p, hole) {
					e.find("unknown-target", name, "")
				}
			}
		}
	}
}

var importHook = regexp.MustCompile(`\.pth$|(?:^|/)(?:site|user)customize\.py$`)

var installScript = regexp.MustCompile(`\b(?:pre|post)?(?:install|prepare|pack|publish)["'=: ]`)

// startup reports whether what changes at p runs by itself later, or lets people in.
func (e *evaluator) startup(p string) bool {
	if under(p, e.place.home) && !under(p, e.place.workspace) {
		return protected.Path("~"+p[len(e.place.home):]) != ""
	}
	if under(p, e.place.workspace) && p != e.place.workspace {
		if p = p[len(e.place.workspace)+1:]; e.place.workspace == e.place.home {
			p = "~/" + p
		}
		return protected.Path(p) != "" || protected.Manifest(p, nil, []byte(e.source)) != "" || path.Base(p) == "package.json" && installScript.MatchString(e.source) || importHook.MatchString(p)
	}
	return protected.Path(p) != ""
}

func (e *evaluator) writeAll(c *call, names []string) {
	for _, n := range names {
		if c.has("recursive") && (c.option("-R", "-r", "--recursive") || slices.Contains(c.words, "-R")) || path.Base(c.argv[0]) == "mv" {
			for _, p := range e.place.resolve(n, e.dirs) {
				if e.root(p) {
					e.find(c.rule, p, "")
				}
			}
		}
		e.write(c.argv, c.row, n)
	}
}

// root reports whether p is a directory of which nothing may be lost as a whole, or a pattern
// for all that is in one.
func (e *evaluator) root(p string) bool {
	if dir, last := path.Split(p); strings.Trim(last, "*?.") == "" && last != "" || strings.HasPrefix(last, "[") {
		p = path.Clean(dir)
	}
	if strings.Contains(p, hole) {
		return false
	}
	return p == "/" || p == e.place.home || under(e.place.home, p) || e.place.workspace != e.place.dir && p != e.place.workspace && under(e.place.workspace, p) && strings.Count(p, "/") < 2 ||
		slices.ContainsFunc(e.table.sets["roots"], func(r string) bool { return p == r || matchesPattern(p, r) }) ||
		strings.Count(p, "/") == 2 && (under(p, "/home") || under(p, "/Users"))
}

// remove examines that files are deleted.
func (e *evaluator) remove(c *call) {
	recursive := c.option("-r", "-R", "--recursive") || slices.ContainsFunc(c.options, func(o string) bool { return len(o) > 3 && strings.HasPrefix("--recursive", o) })
	for _, o := range c.operands {
		for _, p := range e.place.resolve(o, e.dirs) {
			at := e.place.shown(p)
			name := path.Base(p)
			switch {
			case strings.Contains(p, hole):
				e.find("unknown-target", o, "")
			case name == listed && under(p, e.place.workspace):
				e.find("delete-found", path.Base(c.argv[0]), "")
			case recursive && e.root(p) && (under(e.place.home, p) && p != "/" || strings.HasPrefix(p, "/home/") || p == "/root"):
				e.find("delete-home", p, "")
			case recursive && e.root(p):
				e.find("delete-root", p, "")
			case !recursive || e.disposable(at):
				if under(p, e.place.workspace) && (strings.HasPrefix(at+"/", "./.git/") || name == "*") {
					e.find("delete-recursive", at, withTarget(shape(c.argv, c.row), at))
				}
				e.write(c.argv, c.row, o)
			case e.locate(p) == inside && !under(p, e.place.workspace) && strings.Count(p, "/") > 1 && strings.Trim(name, "*?.") != "":
			default:
				e.write(c.argv, c.row, o)
				e.find("delete-recursive", at, withTarget(shape(c.argv, c.row), at))
			}
		}
	}
}

// disposable reports whether a path of the workspace is what a build leaves.
func (e *evaluator) disposable(shown string) bool {
	for part := range strings.SplitSeq(shown, "/") {
		if slices.ContainsFunc(e.table.sets["disposable"], func(d string) bool { return d == part || matchesPattern(d, part) }) {
			return strings.HasPrefix(shown, "./")
		}
	}
	return false
}

// touch examines a path that an unknown program is given: it may read or change it.
func (e *evaluator) touch(argv []string, r *row, name string) {
	for _, p := range e.place.resolve(name, e.dirs) {
		to := withTarget(shape(argv, r), e.place.shown(p))
		switch {
		case e.owned(p):
			e.find("own-home", e.place.shown(p), "")
		case disk.MatchString(p):
			e.find("disk", p, to)
		case e.startup(p) && !strings.EqualFold(name, "head"):
			e.find("write-startup", e.place.shown(p), to)
		case e.secret(p):
			e.find("secrets", e.place.shown(p), to)
		case e.locate(p) != inside && e.locate(p) != unknown && !underAny(p, e.table.sets["sinks"]):
			e.find("outside", p, to)
		}
	}
}

var pathInText = regexp.MustCompile(`(?:^|[\s'"=(,:<>|;&\[\]{@])((?:~/|\.\.|/)[^\s'"()<>|;&,\]}]*)`)

// pathsIn returns the parts of a word that may be names of files: the word, the value of an
// option, and in a text that is more than one name each part that looks like a path.
func pathsIn(word string) []string {
	if name, value, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(name, "/ ") && value != "" {
		return append(pathsIn(value), name)
	}
	if strings.HasPrefix(word, "-") && !strings.Contains(word, " ") {
		if i := strings.IndexAny(word, "/~"); i > 0 && i < 4 {
			return []string{word[i:]}
		} else if i = strings.Index(word, ".."); i > 0 {
			return []string{word[i:]}
		}
		return nil
	}
	var all []string
	if strings.HasPrefix(word, "//") {
		return nil
	}
	if !strings.ContainsAny(word, " \t\n'\"();{}|]") {
		if strings.Contains(word, "://") {
			return nil
		}
		if all = append(all, word); !strings.ContainsAny(word, ":@,") {
			return all
		}
	}
	for _, m := range pathInText.FindAllStringSubmatch(word, 64) {
		if p := m[1]; !strings.HasPrefix(p, "//") && p != "/" && p != "/=" && (p != ".." || len(word) == 2) || p == "/" && len(all) == 0 && strings.Contains(word, "rm ") {
			all = append(all, p)
		}
	}
	return all
}

// redirect examines a redirection.
func (e *evaluator) redirect(r *syntax.Redirect) {
	for _, t := range e.word(r.Word) {
		if numbered.MatchString(t) {
			continue
		}
		if r.Op == syntax.RdrIn {
			if !underAny(t, e.table.sets["sinks"]) {
				e.read([]string{"<"}, nil, t)
			}
			continue
		}
		if e.write([]string{">"}, nil, t); path.Base(t) == listed && !strings.HasPrefix(t, "/") || strings.Contains(t, "*") {
			e.find("unknown-target", "", "")
		}
	}
}

var numbered = regexp.MustCompile(`^(\d+-?|-)$`)
