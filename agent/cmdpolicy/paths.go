package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// resolve returns the paths that a name may mean, from wherever the script may
// stand: cleaned, with every home folder as "~". A name that stays in the folder
// where the script began comes back relative. The last of j.dirs is where the
// script stands if each cd has worked.
func (j *evaluator) resolve(name string) []string {
	var out []string
	for i, d := range j.dirs {
		p := j.place.settle(j.locate(d, name), i == len(j.dirs)-1)
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// procDir matches the directory of a process, which here is that of the script.
var procDir = regexp.MustCompile(`^/+proc/+(self|thread-self|[0-9]+)/+cwd/`)

// deep is how many times ".." leads up to the root, wherever one began.
const deep = 6

// locate returns the path that a name means in a directory.
func (j *evaluator) locate(dir, name string) string {
	name = strings.TrimPrefix(name, "file://")
	if m := procDir.FindString(name); m != "" {
		name = "./" + name[len(m):]
	}
	switch {
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "~"):
	case strings.HasPrefix(name, unknown):
		return name
	default:
		name = dir + "/" + name
	}
	if strings.HasPrefix(name, "~") {
		user, rest, _ := strings.Cut(name[1:], "/")
		switch user {
		case "+":
			return j.locate(dir, "./"+rest)
		case "-":
			return unknown
		}
		if name = "/~/" + rest; user == "" && len(j.place.homes) > 0 {
			name = j.place.homes[0] + "/" + rest
		}
	}
	slash := strings.HasSuffix(name, "/")
	p := path.Clean(name)
	for _, proc := range []string{"/proc/self/root", "/proc/1/root", "/proc/thread-self/root"} {
		if rest, ok := strings.CutPrefix(p, proc); ok && (rest == "" || rest[0] == '/') {
			p = path.Clean("/" + rest)
		}
	}
	if m := procDir.FindString(p + "/"); m != "" {
		return j.locate(dir, "./"+strings.TrimPrefix(p+"/", m))
	}
	if r, ok := j.place.relative(p); ok {
		p = r
	}
	if j.place.dir != "" {
		p = j.place.withTilde(p)
	} else if strings.HasPrefix(p, strings.Repeat("../", deep)) || p == strings.TrimSuffix(strings.Repeat("../", deep), "/") {
		p = path.Clean("/" + strings.TrimLeft(p, "./"))
	}
	p = homes(p)
	if slash && strings.HasSuffix(strings.TrimRight(name, "/"), unknown) {
		p += "/"
	}
	return p
}

// homes writes a home folder as "~".
func homes(p string) string {
	parts := strings.Split(p, "/")
	switch {
	case !strings.HasPrefix(p, "/") || len(parts) < 2:
		return p
	case parts[1] == "~", parts[1] == "root":
		return strings.Join(append([]string{"~"}, parts[2:]...), "/")
	case (parts[1] == "home" || parts[1] == "Users") && len(parts) > 2:
		return strings.Join(append([]string{"~"}, parts[3:]...), "/")
	case parts[1] == "var" && len(parts) > 2 && parts[2] == "root":
		return strings.Join(append([]string{"~"}, parts[3:]...), "/")
	}
	return p
}

// A pathClass is what a path means to the machine.
type pathClass int

const (
	elsewhere  pathClass = iota
	inSystem             // below a folder of the system
	systemRoot           // the root, a folder of the system, or all that is in one
	homeRoot             // a home folder, or all that is in it
)

// roots are the folders of which nothing may be lost as a whole.
var roots = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/srv", "/sys",
	"/usr", "/var", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local", "/usr/sbin", "/usr/share", "/usr/include",
	"/var/lib", "/var/log", "/var/spool", "/var/mail", "/var/db", "/etc/ssh", "/etc/systemd", "/etc/pam.d", "/usr/local/bin",
	"/System", "/Library", "/Applications", "/Users", "/private", "/private/etc", "/private/var", "/Volumes", "/cores", "/mnt", "/media",
	"/nix", "/snap", "/data",
}

// loose are folders below those of the system in which anybody may write.
var loose = []string{"/var/tmp", "/run/user", "/dev/shm", "/proc/self/fd", "/dev/fd", "/private/tmp", "/private/var/tmp", "/private/var/folders", "/mnt", "/media", "/Volumes", "/data", "/srv", "/home"}

// classifyPath says what a resolved path means. A pattern means the gravest that it
// may mean; one that begins with something unknown means nothing.
func classifyPath(p string) pathClass {
	if strings.HasPrefix(p, unknown) {
		return elsewhere
	}
	empty := strings.ReplaceAll(p, unknown, "")
	for _, q := range []string{p, path.Clean(empty)} {
		if at := within(q); at != elsewhere {
			return at
		}
	}
	return elsewhere
}

func within(p string) pathClass {
	switch {
	case p == "/", p == "/"+string(many), everything(p, "/"):
		return systemRoot
	case p == "~", everything(p, "~/"):
		return homeRoot
	}
	for _, r := range roots {
		if matches(p, r) || everything(p, r+"/") {
			return systemRoot
		}
	}
	if rest, ok := strings.CutPrefix(p, "/"); ok && strings.ContainsAny(rest, string([]rune{many, one})) {
		dir, last := path.Split(p)
		if strings.Trim(last, string([]rune{many, one, '.'})) == "" && slices.ContainsFunc(roots, func(r string) bool { return matches(path.Clean(dir), r) }) {
			return systemRoot
		}
		if matches(p, "/root") {
			return homeRoot
		}
	}
	for _, l := range loose {
		if under(p, l) {
			return elsewhere
		}
	}
	for _, r := range roots {
		if under(p, r) {
			return inSystem
		}
	}
	return elsewhere
}

func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// everything reports whether p means all that is in dir: dir/*, dir/.*, dir/?*.
func everything(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && rest != "" && strings.ContainsAny(rest, string([]rune{many})) && strings.Trim(rest, string([]rune{many, one, '.', '/'})) == ""
}

// matches reports whether a text with marks may stand for name.
func matches(pattern, name string) bool {
	star, from := -1, 0 // where to go on after the last mark of many characters
	i, k := 0, 0
	for k < len(name) {
		switch {
		case i < len(pattern) && (pattern[i] == hole || pattern[i] == many):
			star, from = i, k
			i++
		case i < len(pattern) && (pattern[i] == name[k] || pattern[i] == one && name[k] != '/'):
			i++
			k++
		case star >= 0 && (pattern[star] == hole || name[from] != '/'):
			from++
			i, k = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], string([]rune{hole, many})) == ""
}

// inside reports whether a resolved path stays in the folder of the script.
func inside(p string) bool {
	return !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~") && !strings.HasPrefix(p, "..") && !strings.Contains(p, unknown)
}

// scope is what leave for something done to a path is bound to: its name, or all
// of the folder where the script begins.
func scope(p string) string {
	if inside(p) && p != "." && !strings.HasPrefix(p, ".git/") && p != ".git" {
		return "inside"
	}
	return p
}

// remove judges that what stands at a name is deleted or moved away.
func (j *evaluator) remove(program, name string, whole bool) {
	for _, p := range j.resolve(name) {
		switch classifyPath(p) {
		case systemRoot:
			if whole {
				j.hit("delete-root", program, "")
				continue
			}
		case homeRoot:
			if whole {
				j.hit("delete-home", program, "")
				continue
			}
		}
		if whole {
			j.hit("delete-recursive", program, scope(p))
		}
		if strings.Contains(p, unknown) {
			j.hit("unknown-target", program, "")
		}
		j.change(program, p)
	}
}
