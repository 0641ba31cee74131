package spawn

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// normalize returns p with all paths resolved. Paths in Write must exist; other paths
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
	p.Hide = filterExisting(p.Hide)
	for _, w := range p.Write {
		if slices.Contains(p.Hide, w) {
			return p, fmt.Errorf("%s is to be hidden and to be written", w)
		}
	}
	if p.Processes <= 0 {
		p.Processes = DefaultProcesses
	}
	if p.Memory > 0 {
		p.Memory = max(p.Memory, MinMemory)
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

// isInside reports whether path is dir or inside it.
func isInside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// A pathRule is the access to a path and everything below it.
type pathRule struct {
	Path string `json:"path"`
	Kind kind   `json:"kind"`
}

type kind string

const (
	readable kind = "readable"
	writable kind = "writable"
	hidden   kind = "hidden"
)

// pathRules returns the rules for all paths, parents before children. Rules for hidden
// paths are included only if another rule would make the path visible.
func (p Policy) pathRules() []pathRule {
	var out []pathRule
	add := func(k kind, paths []string) {
		for _, path := range paths {
			out = append(out, pathRule{path, k})
		}
	}
	add(readable, filterExisting(SystemPaths()))
	add(readable, p.Read)
	add(writable, p.Write)
	shown := slices.Clone(out)
	for _, h := range append(filterExisting(systemSecrets()), p.Hide...) {
		if slices.ContainsFunc(shown, func(s pathRule) bool { return isInside(h, s.Path) }) {
			add(hidden, []string{h})
		}
	}
	slices.SortStableFunc(out, func(a, b pathRule) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// checkPolicy returns an error if the mechanism cannot enforce the policy: Landlock alone
// cannot deny a path inside an allowed one.
func (s *Sandbox) checkPolicy() error {
	if s.status.Mechanism != Landlock || s.status.Isolated {
		return nil
	}
	for _, h := range s.policy.Hide {
		for _, open := range slices.Concat(s.policy.Write, s.policy.Read) {
			if isInside(h, open) {
				return fmt.Errorf("%s cannot be hidden inside %s by it", h, open)
			}
		}
	}
	return nil
}

// isVisible reports whether path is visible under p.
func (p Policy) isVisible(path string) bool {
	path, err := realPath(path)
	if err != nil {
		return false
	}
	best, ok := "", false // the most specific rule applies
	for _, at := range p.pathRules() {
		if isInside(path, at.Path) && len(at.Path) >= len(best) {
			best, ok = at.Path, at.Kind != hidden
		}
	}
	return ok
}

// adjustEnv adapts an environment to the sandbox: TMPDIR is the temporary directory, HOME
// is a visible directory, and PATH contains only visible directories, because a shell
// stops its search at a program that it may not run.
func (p Policy) adjustEnv(env []string) []string {
	env = set(env, "TMPDIR="+p.Temp)
	for _, kv := range slices.Clone(env) {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case "HOME":
			if !p.isVisible(value) {
				env = set(env, "HOME="+p.Temp)
			}
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(d string) bool { return !p.isVisible(d) })
			env = set(env, "PATH="+strings.Join(dirs, string(filepath.ListSeparator)))
		}
	}
	return env
}
