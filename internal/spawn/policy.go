package spawn

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// normalize returns p with all paths resolved. Paths in Write must exist; paths in Read
// that do not exist are dropped.
func (p Policy) normalize() (Policy, error) {
	if len(p.Write) == 0 {
		return p, fmt.Errorf("there is no folder that may be written")
	}
	if p.Temp == "" {
		p.Temp = p.Write[0]
	} else if err := os.MkdirAll(p.Temp, 0o700); err != nil {
		return p, err
	}
	p.Write = append(slices.Clone(p.Write), p.Temp)
	for i, path := range p.Write {
		clean, err := realPath(path)
		if err != nil {
			return p, err
		}
		if info, err := os.Stat(clean); err != nil || !info.IsDir() || clean == "/" {
			return p, fmt.Errorf("%s is no folder that can be given away for writing", path)
		}
		p.Write[i] = clean
	}
	p.Temp = p.Write[len(p.Write)-1]
	p.Write = slices.Compact(slices.Sorted(slices.Values(p.Write)))
	p.Read = filterExisting(p.Read)
	p.Hide = slices.Clone(p.Hide)
	for i, path := range p.Hide {
		if !filepath.IsAbs(path) {
			return p, fmt.Errorf("%s is not an absolute path", path)
		}
		if clean, err := realPath(path); err == nil { // it may come into being later
			p.Hide[i] = clean
		}
	}
	for _, w := range p.Write {
		if slices.Contains(p.Hide, w) {
			return p, fmt.Errorf("%s is to be hidden and to be written", w)
		}
	}
	if p.Processes <= 0 {
		p.Processes = DefaultProcesses
	}
	return p, nil
}

func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not an absolute path", path)
	}
	return filepath.EvalSymlinks(path)
}

func filterExisting(paths []string) []string {
	var out []string
	for _, path := range paths {
		if clean, err := realPath(path); err == nil && !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	return out
}

func isInside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// SystemPaths returns the paths that every process in a sandbox may read and execute, if
// they exist: programs, libraries and their data.
func SystemPaths() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/run/current-system", "/sys/devices/system/cpu",
	}
}

// etcPaths returns the files of /etc that programs need to resolve names, to verify
// certificates, to know users and time zones, and to load libraries. All others are
// hidden: some contain secrets that root could read. Each directory makes the start of
// bubblewrap slower.
func etcPaths() []string {
	names := []string{
		"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "hostname", "resolv.conf", "gai.conf", "services", "protocols",
		"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates.conf", "pki/tls", "pki/ca-trust", "crypto-policies",
		"localtime", "timezone", "locale.alias", "locale.conf", "default/locale", "os-release", "debian_version", "lsb-release", "redhat-release", "alpine-release",
		"ld.so.cache", "ld.so.conf", "ld-musl-x86_64.path", "ld-musl-aarch64.path", "alternatives", "mime.types", "bash.bashrc", "bashrc", "gitconfig", "npmrc", "fonts",
	}
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = "/etc/" + n
	}
	// Debian keeps the configuration of each version of Java in a directory. Linkers read
	// ld.so.conf and the files that it includes.
	for _, pattern := range []string{"/etc/java*", "/etc/ld.so.conf.d/*.conf"} {
		more, err := filepath.Glob(pattern)
		if err == nil { // the patterns are valid
			paths = append(paths, more...)
		}
	}
	return paths
}

type place struct {
	Path string `json:"path"` // in the sandbox
	Kind kind   `json:"kind"`
	// Source is the path outside, without symbolic links; for a link its target.
	Source string `json:"source,omitempty"`
}

type kind string

const (
	readable kind = "readable"
	writable kind = "writable"
	hidden   kind = "hidden"  // empty, although it is inside of another place
	link     kind = "link"    // symbolic link
	scratch  kind = "scratch" // empty directory that may be written, in memory
)

// places returns what the sandbox contains at this moment, parents before children.
func (p Policy) places() []place {
	var out []place
	add := func(path string, k kind, source string) { out = append(out, place{path, k, source}) }
	for _, path := range slices.Concat(SystemPaths(), etcPaths()) {
		real, err := filepath.EvalSymlinks(path)
		switch {
		case err != nil: // most systems have only some of them
		case real != path && slices.ContainsFunc(SystemPaths(), func(s string) bool { return isInside(real, s) }):
			add(path, link, real)
		default:
			add(path, readable, real)
		}
	}
	for _, path := range p.Read {
		add(path, readable, path)
	}
	for _, path := range p.Write {
		add(path, writable, path)
	}
	if shown := func(o place) bool { return isInside(o.Path, "/tmp") }; slices.ContainsFunc(out, shown) {
		if !slices.ContainsFunc(out, func(o place) bool { return o.Path == "/tmp" }) {
			add("/tmp", scratch, "")
		}
	} else {
		add("/tmp", writable, p.Temp)
	}
	for _, h := range p.Hide {
		h, err := filepath.EvalSymlinks(h)
		if err == nil && slices.ContainsFunc(out, func(o place) bool { return o.Path != h && isInside(h, o.Path) }) {
			add(h, hidden, "")
		}
	}
	slices.SortStableFunc(out, func(a, b place) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// checkPolicy returns an error if the mechanism cannot enforce the policy. Landlock cannot
// deny a path inside an allowed one. Bubblewrap follows symbolic links, which a command
// could put in the place of a path that is inside a directory that it may write.
func (s *Sandbox) checkPolicy() error {
	p := s.policy
	contains := func(dirs []string, path string) bool {
		return slices.ContainsFunc(dirs, func(d string) bool { return path != d && isInside(path, d) })
	}
	for _, h := range p.Hide {
		if s.status.Mechanism == Landlock && contains(slices.Concat(p.Write, p.Read), h) {
			return fmt.Errorf("it cannot hide %s, which is inside a directory that is shown", h)
		}
	}
	for _, r := range slices.Concat(p.Read, p.Write) {
		if s.status.Mechanism == Bubblewrap && contains(p.Write, r) {
			return fmt.Errorf("it cannot show %s safely, which is inside a directory that may be written", r)
		}
	}
	return nil
}

func isVisible(places []place, path string) bool {
	best, ok := "", false // the most specific place applies
	for _, at := range places {
		if isInside(path, at.Path) && len(at.Path) >= len(best) {
			best, ok = at.Path, at.Kind != hidden && at.Kind != scratch
		}
	}
	if !ok {
		return false
	}
	_, err := os.Stat(path)
	return err == nil
}

// adjustEnv adapts an environment to the sandbox: TMPDIR is the temporary directory, HOME
// is a visible directory, and PATH contains only visible directories, because a shell
// stops its search at a program that it may not run.
func (p Policy) adjustEnv(env []string, places []place) []string {
	env = set(env, "TMPDIR="+p.Temp)
	for _, kv := range slices.Clone(env) {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case "HOME":
			if !isVisible(places, value) {
				env = set(env, "HOME="+p.Temp)
			}
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(d string) bool { return !isVisible(places, d) })
			env = set(env, "PATH="+strings.Join(dirs, string(filepath.ListSeparator)))
		}
	}
	return env
}
