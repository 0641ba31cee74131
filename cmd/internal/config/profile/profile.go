// Package profile tells the homes of several agents apart: each has settings,
// conversations and a daemon of its own, in a home below the home.
package profile

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
)

// folder is where the homes of profiles are in a home.
const folder = "profiles"

// ErrName says that a profile cannot be called so.
var ErrName = errors.New("a profile is called by small letters, digits, - and _, 64 at most")

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Home returns the home of a profile, below home, which is itself that of the
// profiles "", "default" and "main". Where home is the home of a profile, the
// other is beside it.
func Home(home, name string) (string, error) {
	if FromHome(home) != "" {
		home = filepath.Dir(filepath.Dir(home))
	}
	switch {
	case ours(name):
		return home, nil
	case !names.MatchString(name):
		return "", fmt.Errorf("%q: %w", name, ErrName)
	}
	return filepath.Join(home, folder, name), nil
}

// FromHome returns the profile whose home that is, "" mostly. Its conversations are
// named by it.
func FromHome(home string) string {
	dir, name := filepath.Split(filepath.Clean(home))
	if filepath.Base(dir) == folder && names.MatchString(name) && !ours(name) {
		return name
	}
	return ""
}

// ours reports whether a profile is that of the home itself.
func ours(name string) bool { return name == "" || name == "default" || name == "main" }
