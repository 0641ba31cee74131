package spawn

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// clean returns p with real paths: none leads through a symbolic link. What is
// to be written must exist; what else does not exist is left out.
func (p Policy) clean() (Policy, error) {
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
		clean, err := real(path)
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
	p.Read = existing(p.Read)
	p.Hide = existing(p.Hide)
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

func real(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not an absolute path", path)
	}
	return filepath.EvalSymlinks(path)
}

func existing(paths []string) []string {
	var out []string
	for _, path := range paths {
		if clean, err := real(path); err == nil && !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	return out
}

// inside reports whether path is dir or in it.
func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// A pathRule is a path and what holds for it and for what is in it.
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

// places returns all that is said about paths, those that contain others first.
// Of what is to be hidden only that is left which something else would show.
func (p Policy) places() []pathRule {
	var out []pathRule
	add := func(k kind, paths []string) {
		for _, path := range paths {
			out = append(out, pathRule{path, k})
		}
	}
	add(readable, existing(SystemPaths()))
	add(readable, p.Read)
	add(writable, p.Write)
	shown := slices.Clone(out)
	for _, h := range append(existing(systemSecrets()), p.Hide...) {
		if slices.ContainsFunc(shown, func(s pathRule) bool { return inside(h, s.Path) }) {
			add(hidden, []string{h})
		}
	}
	slices.SortStableFunc(out, func(a, b pathRule) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// refused says why the sandbox cannot hold its policy: Landlock alone only
// allows, and takes nothing back from inside what it has allowed.
func (s *Sandbox) refused() error {
	if s.status.Mechanism != Landlock || s.status.Isolated {
		return nil
	}
	for _, h := range s.policy.Hide {
		for _, open := range slices.Concat(s.policy.Write, s.policy.Read) {
			if inside(h, open) {
				return fmt.Errorf("%s cannot be hidden inside %s by it", h, open)
			}
		}
	}
	return nil
}

// seen reports whether path is in a place of p that is not hidden.
func (p Policy) seen(path string) bool {
	path, err := real(path)
	if err != nil {
		return false
	}
	best, ok := "", false // the closest place decides
	for _, at := range p.places() {
		if inside(path, at.Path) && len(at.Path) >= len(best) {
			best, ok = at.Path, at.Kind != hidden
		}
	}
	return ok
}

// fit makes an environment true inside: temporary files go where they may, the
// home is one that can be used, and PATH has only what is there, since a shell
// gives up at a program that it may not run.
func (p Policy) fit(env []string) []string {
	env = set(env, "TMPDIR="+p.Temp)
	for _, kv := range slices.Clone(env) {
		switch name, value, _ := strings.Cut(kv, "="); name {
		case "HOME":
			if !p.seen(value) {
				env = set(env, "HOME="+p.Temp)
			}
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(d string) bool { return !p.seen(d) })
			env = set(env, "PATH="+strings.Join(dirs, string(filepath.ListSeparator)))
		}
	}
	return env
}
