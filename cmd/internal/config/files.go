package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxFile is the greatest size of a config file or a .env file.
const maxFile = 1 << 20

// readFile reads a regular file of at most limit bytes. Its errors say what
// happened without the path.
func readFile(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, nil
}

// cause strips the operation and the path off an error of the file system.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// readable reports whether others than the owner can read a file.
func readable(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o044 != 0
}

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
			return "", fmt.Errorf("find the home directory: %w; set HERMES_HOME", err)
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
		return "", fmt.Errorf("find the home directory: %w", err)
	}
	return abs, nil
}
