package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxFile is the size limit of config.yaml and .env in bytes.
const maxFile = 1 << 20

// ResolveHome returns the home directory as an absolute path: home if that is
// not empty, else $HERMES_HOME, else ~/.hermes. It need not exist.
func ResolveHome(home string, env func(string) (string, bool)) (string, error) {
	if env == nil {
		env = os.LookupEnv
	}
	if home == "" {
		home, _ = env("HERMES_HOME")
	}
	user := func() (string, error) {
		if h, ok := env("HOME"); ok && h != "" {
			return h, nil
		}
		return os.UserHomeDir()
	}
	rest, tilde := strings.CutPrefix(home, "~/")
	if home == "" || home == "~" || tilde {
		dir, err := user()
		if err != nil {
			return "", fmt.Errorf("find home directory (set HERMES_HOME): %w", err)
		}
		switch home {
		case "":
			home = filepath.Join(dir, ".hermes")
		case "~":
			home = dir
		default:
			home = filepath.Join(dir, rest)
		}
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("find home directory: %w", err)
	}
	return abs, nil
}

// InHome returns path as an absolute path: ~ is the user's home directory, other
// relative paths are relative to home.
func InHome(home, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(home, path)
}
