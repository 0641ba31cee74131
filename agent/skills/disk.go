package skills

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// randomLen is the length of what rand.Text returns.
const randomLen = 26

// hidden returns a name that no walk looks at.
func hidden(kind string) string { return "." + kind + "-" + rand.Text() }

// leftover reports whether a name is one of hidden.
func leftover(name string) bool {
	kind, rest, ok := strings.Cut(strings.TrimPrefix(name, "."), "-")
	return ok && name[0] == '.' && len(rest) == randomLen && slices.Contains([]string{"new", "old", "tmp"}, kind)
}

// put writes a new file and returns once it is on disk.
func put(root *os.Root, file string, content []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(filepath.FromSlash(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// persist makes a change of names in a folder outlast a crash.
func persist(root *os.Root, dir string) error {
	f, err := root.Open(filepath.FromSlash(dir))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("what was written may not outlast a crash: %s", reason(err))
	}
	return nil
}
