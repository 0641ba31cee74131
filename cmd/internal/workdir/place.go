// Package workdir says where an agent may work that a person has started in a
// directory.
package workdir

import (
	"os"
	"path/filepath"
)

// Current returns the directory that the process was started in, if an agent may
// work there, else "": where another one is configured, and where it would have
// everything that the person has, or the home of the daemon.
func Current(configured, home string) string {
	cwd, err := os.Getwd()
	if err != nil || configured != "" || filepath.Dir(cwd) == cwd {
		return ""
	}
	if own, err := os.UserHomeDir(); err == nil && within(cwd, own) || within(cwd, home) || within(home, cwd) {
		return ""
	}
	return cwd
}

// SamePath reports whether two paths lead to the same place.
func SamePath(a, b string) bool { return real(a) == real(b) }

// within reports whether path is dir or in it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(real(dir), real(path))
	return err == nil && filepath.IsLocal(rel)
}

func real(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return filepath.Clean(path)
}
