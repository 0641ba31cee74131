// Package workdir decides in which directory the agent works when the user starts it
// in a directory. It reads the file system, but creates nothing.
package workdir

import (
	"os"
	"path/filepath"
)

// Current returns the current directory of the process if the agent may work there.
// It returns "" if a directory is configured, and for the root directory, a
// directory that contains the user's home directory, or one that contains the
// daemon's home directory or is in it.
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

// SamePath reports whether two paths are equal after links are resolved.
func SamePath(a, b string) bool { return real(a) == real(b) }

// within reports whether path is dir or in it, after links are resolved.
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
