// Package profile resolves the home directories of several agents. Each profile has
// its own settings, conversations and daemon in a directory below the main home
// directory.
package profile

import (
	"errors"
	"fmt"
	"path/filepath"

	"hermesd/internal/lazyregexp"
)

const folder = "profiles"

// ErrName reports an invalid name of a profile.
var ErrName = errors.New("a profile is called by small letters, digits, - and _, 64 at most")

var names = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// Home returns the home directory of a profile below home. The names "", "default"
// and "main" mean home itself. If home is the directory of a profile, the result is
// next to it.
func Home(home, name string) (string, error) {
	if FromHome(home) != "" {
		home = filepath.Dir(filepath.Dir(home))
	}
	switch {
	case ours(name):
		return home, nil
	case !names().MatchString(name):
		return "", fmt.Errorf("%q: %w", name, ErrName)
	}
	return filepath.Join(home, folder, name), nil
}

// FromHome returns the profile that has the home directory home; "" for the main
// one. The name is part of the session keys of the profile.
func FromHome(home string) string {
	dir, name := filepath.Split(filepath.Clean(home))
	if filepath.Base(dir) == folder && names().MatchString(name) && !ours(name) {
		return name
	}
	return ""
}

// ours reports whether name means the main home directory.
func ours(name string) bool { return name == "" || name == "default" || name == "main" }
