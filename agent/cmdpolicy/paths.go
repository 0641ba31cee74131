package cmdpolicy

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
	secret    []string
}

func newPlace(p Place) place {
	at := place{Place: p, dir: "/workspace", home: "/home/user"}
	if p.Dir != "" {
		at.dir = slashed(p.Dir)
	}
	names := []string{at.dir}
	if len(p.Workspace) > 0 {
		names = slashedAll(p.Workspace)
	}
	at.workspace, at.aliases = names[0], names[1:]
	if len(p.Homes) > 0 {
		at.home = slashed(p.Homes[0])
	}
	at.own, at.readable = slashedAll(p.Own), slashedAll(p.Readable)
	for i, o := range at.own {
		at.own[i] = strings.ToLower(o)
	}
	return at
}

func slashed(p string) string { return path.Clean("/" + filepath.ToSlash(p)) }

func slashedAll(list []string) (all []string) {
	for _, p := range list {
		all = append(all, slashed(p))
	}
	return all
}

func under(p, dir string) bool {
	if p == dir {
		return true
	}
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/"))
	return ok && strings.HasPrefix(rest, "/")
}

func underAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}

// workDir matches the directory of a process, which is taken for that of the script; rootDir
// the root of the file system.
var (
	workDir = regexp.MustCompile(`^/proc/(self|thread-self|[0-9]+)/cwd(/|$)`)
	rootDir = regexp.MustCompile(`^/proc/(?:self|1)/root(/|$)`)
)

// absolute reports whether a name does not depend on the current directory.
func absolute(name string) bool { return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") }

// resolve returns the absolute path that a name means. A name that begins with something
// unknown means itself.
func (e *evaluator) resolve(name string) string {
	name = strings.TrimPrefix(name, "file://")
	if strings.HasPrefix(name, "/proc/") {
		name = rootDir.ReplaceAllString(workDir.ReplaceAllString(name, "./"), "/")
	}
	switch {
	case strings.HasPrefix(name, hole):
		return name
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = e.place.home + name[1:]
	case strings.HasPrefix(name, "~"):
		name = "/home/" + name[1:]
	}
	if !strings.HasPrefix(name, "/") {
		if strings.Contains(e.dir, hole) || e.doubt == anyName || e.doubt == dotDot && strings.Contains(name, "..") {
			return hole
		}
		name = e.dir + "/" + name
	}
	p := path.Clean(name)
	for _, a := range e.place.aliases {
		if under(p, a) {
			p = e.place.workspace + p[len(a):]
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

// owned reports whether a path belongs to the daemon. Case is ignored, because some file
// systems ignore it. A pattern counts as all that it may match.
func (e *evaluator) owned(p string) bool {
	at, low := e.place, strings.ToLower(p)
	if underAny(p, at.readable) {
		return false
	}
	inside := under(p, at.workspace)
	return path.Base(p) == "SOUL.md" || !inside && strings.Contains(low+"/", "/.hermes/") || slices.ContainsFunc(at.own, func(o string) bool {
		return (under(low, o) || matches(low, o)) && (!inside || !under(strings.ToLower(at.workspace), o))
	})
}

// matches reports whether a pattern matches a name. Brackets that are no pattern match nothing.
func matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == name
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// matchesUnder reports whether a pattern may match a name below dir.
func matchesUnder(pattern, dir string) bool {
	parts, n := strings.Split(pattern, "/"), strings.Count(dir, "/")+1
	return len(parts) >= n && matches(strings.Join(parts[:n], "/"), dir) && parts[n-1] != "*" && parts[n-1] != ".*"
}

// matchesAny reports whether a path is one of a set, or a pattern for one.
func (e *evaluator) matchesAny(p, set string) bool {
	return slices.ContainsFunc(e.table.sets[set], func(s string) bool { return matches(p, s) })
}

// secret reports whether a path holds passwords or keys.
func (e *evaluator) secret(p string) bool {
	name := strings.TrimRight(path.Base(p), " .")
	stem := strings.TrimSuffix(name, path.Ext(name))
	star := strings.IndexAny(p, `*?[\`)
	glob := name == ".*" || strings.ContainsAny(name, "*?[") && (strings.Trim(stem, "*?.") != "" || stem == "")
	return (glob && slices.ContainsFunc(e.table.sets["keys"], func(n string) bool { return (name[0] == '.') == (n[0] == '.') && matches(name, n) }) ||
		e.table.patterns["secret"].MatchString(strings.ToLower(name)) || e.table.patterns["secrets"].MatchString(p) ||
		slices.ContainsFunc(e.place.secret, func(dir string) bool {
			return under(p, dir) || star >= 0 && strings.HasPrefix(dir, p[:star]) && matchesUnder(p, dir)
		})) &&
		!e.table.patterns["public"].MatchString(p)
}

// startup reports whether what changes at p runs by itself later, or lets people in.
func (e *evaluator) startup(p string) bool {
	at := e.place
	switch {
	case under(p, at.workspace) && p != at.workspace:
		name := p[len(at.workspace)+1:]
		if at.workspace == at.home {
			name = "~/" + name
		}
		return protected.Path(name) != "" || protected.Manifest(name, nil, e.bytes) != "" || e.table.patterns["startup"].MatchString(p) ||
			path.Base(name) == "package.json" && e.table.patterns["install-script"].MatchString(e.source)
	case under(p, at.home):
		return protected.Path("~"+p[len(at.home):]) != ""
	}
	return protected.Path(p) != ""
}

// An access is what a command may do with a file.
type access int

const (
	lists   access = iota // finds its name
	reads                 // reads its content
	writes                // creates, changes or deletes it
	makes                 // creates or overwrites it, and takes nothing from it
	touches               // any of these
)

// A use is the access to a path.
type use struct {
	path string
	access
}

// use examines that a command uses files.
func (e *evaluator) use(c *call, a access, names ...string) {
	for _, name := range names {
		p := e.resolve(name)
		if a == reads || a == touches {
			e.reads++
			e.read[p] = e.reads
			if i := strings.LastIndexByte(name, ':'); i >= 0 { // HEAD:FILE
				in := e.resolve(name[i+1:])
				if e.read[in] = e.reads; in != p && e.secret(in) {
					e.find("secrets", in, withTarget(c.shape(), in))
				}
			}
		}
		if (a == writes || a == makes) && e.written[p] == "" && (c.row == nil || c.kind == "write" && c.patterns["first"] == nil && c.program() != "mv") {
			e.written[p] = hole
		}
		key := use{p, a}
		rule, ok := e.used[key]
		if !ok {
			rule = e.ruleOf(p, a)
			e.used[key] = rule
		}
		switch {
		case rule == "":
		case rule == "unknown-target":
			e.find(rule, name, "")
		case rule == "own-home":
			e.find(rule, e.place.shown(p), "")
		default:
			e.find(rule, e.place.shown(p), withTarget(c.shape(), e.place.shown(p)))
		}
	}
}

// here examines that a command may read the directory in which it runs.
func (e *evaluator) here(c *call) {
	if len(c.operands) == 0 && (c.kind == "build" || c.is("recursive")) {
		e.use(c, reads, ".")
	}
}

// ruleOf returns the rule that holds for the access to a path, "" for none.
func (e *evaluator) ruleOf(p string, a access) string {
	inside := under(p, e.place.workspace)
	made := a == makes
	own := made && (inside || underAny(p, e.table.sets["temporary"]))
	if made {
		a = writes
	}
	switch {
	case a == lists:
		if e.secret(p) || e.table.patterns["searched"].MatchString(p) {
			return "secrets"
		}
		return ""
	case e.table.in("sinks", p) || under(p, "/dev/fd"):
		return ""
	case strings.HasPrefix(p, hole) && !e.secret(p): // of an unknown program, the words are seen
		if a == writes || a == reads && e.place.Sandbox != Full {
			return "unknown-target"
		}
		return ""
	case a == writes && (e.table.patterns["disk"].MatchString(p) || matches(p, "/dev/sda")):
		return "write-device"
	case a == writes && (e.matchesAny(p, "vital") || underAny(p, e.table.sets["vital"])):
		return "overwrite-system"
	case e.owned(p):
		return "own-home"
	case a != reads && e.table.patterns["disk"].MatchString(p):
		return "disk"
	case a != reads && e.startup(p):
		return "write-startup"
	case a == writes && e.place.Instructs != nil && e.place.Instructs(p):
		return "write-instructions"
	case e.secret(p) && !own:
		return "secrets"
	case a == writes && strings.HasPrefix(e.place.shown(p), "./.git/"):
		return "git-discard"
	case strings.Contains(p, hole):
		if a != touches && e.place.Sandbox != Full {
			return "unknown-target"
		}
		return ""
	case a == reads && path.Base(p) == listed && (under(p, "/etc") || under(p, "/proc")): // all that a search finds
		return "read-outside"
	case inside, a == touches && e.place.Sandbox == Full && under(p, "/usr"), underAny(p, e.table.sets["temporary"]), a == reads && (underAny(p, e.place.readable) || underAny(p, e.table.sets["readable"])):
		return ""
	}
	return map[access]string{reads: "read-outside", writes: "write-outside", touches: "outside"}[a]
}

// root reports whether p is a directory of which nothing may be lost as a whole, or a pattern
// for all that is in one.
func (e *evaluator) root(p string) bool {
	if dir, last := path.Split(p); strings.Trim(last, "*?.") == "" && last != "" || strings.HasPrefix(last, "[") {
		p = path.Clean(dir)
	}
	return under(e.place.home, p) || e.matchesAny(p, "roots") || strings.Count(p, "/") == 2 && (under(p, "/home") || under(p, "/Users"))
}

// remove examines that files are deleted.
func (e *evaluator) remove(c *call) {
	recursive := c.option("-r", "-R") || slices.ContainsFunc(c.options, func(o string) bool { return len(o) > 3 && strings.HasPrefix("--recursive", o) })
	for _, o := range c.operands {
		p := e.resolve(o)
		at, name, inside := e.place.shown(p), path.Base(p), under(p, e.place.workspace)
		home := under(e.place.home, p) && p != "/" || under(p, "/home") || p == "/root"
		switch {
		case strings.Contains(p, hole):
			e.find("unknown-target", o, "")
			continue
		case name == listed && inside:
			e.find("delete-found", c.program(), "")
			continue
		case recursive && e.root(p):
			e.find(map[bool]string{true: "delete-home", false: "delete-root"}[home], p, "")
			continue
		case !inside && e.written[p] != moved && underAny(p, e.table.sets["temporary"]) && strings.Trim(name, "*?.") != "" && strings.Count(p, "/") > 1:
		case recursive && (!e.disposable(at) || slices.Contains(e.targets, p)) && !(inside && e.table.in("plain", path.Ext(name)) && !strings.ContainsAny(name, "*?[")), inside && strings.Contains(name, "*") && !e.disposable(at):
			e.find("delete-recursive", at, withTarget(c.shape(), at))
		case inside && e.written[p] == "" && !e.disposable(at) && e.hasPart(at, "records"):
			e.find("delete-data", at, withTarget(c.shape(), at))
		}
		e.use(c, writes, o)
	}
}

// disposable reports whether a path of the workspace is what a build leaves.
func (e *evaluator) disposable(shown string) bool {
	return strings.HasPrefix(shown, "./") && e.hasPart(shown, "disposable")
}

// hasPart reports whether a path or a folder in it is one of a set.
func (e *evaluator) hasPart(p, set string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if slices.ContainsFunc(e.table.sets[set], func(s string) bool { return matches(s, part) }) {
			return true
		}
	}
	return false
}

var pathInText = regexp.MustCompile(`(?:^|[\s'"=(,:<>|;&\[\]{@])((?:~/|\.\.|/(?:bin|boot|data|dev|etc|home|lib\d*|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|Users|Volumes)\b|/$|/[;&|])[^\s'"()<>|;&,\]}]*)`)

// pathsIn returns the parts of a word that may be names of files: the word, the value of an
// option, and in a text that is more than one name each part that looks like a path.
func pathsIn(word string) (all []string) {
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
	if strings.HasPrefix(word, "//") {
		return nil
	}
	if !strings.ContainsAny(word, " \t\n'\"();{}|]") {
		if strings.Contains(word, "://") && !strings.HasPrefix(word, "file://") {
			return nil
		}
		if all = append(all, word); !strings.ContainsAny(word, ":@,") {
			return all
		}
	}
	for _, m := range pathInText.FindAllStringSubmatch(word, 64) {
		if p := m[1]; !strings.HasPrefix(p, "//") && p != "/" && p != "/=" && (p != ".." || len(word) == 2) {
			all = append(all, p)
		}
	}
	return all
}
