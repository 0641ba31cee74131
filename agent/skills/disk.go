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

// randomLen is the length of the result of rand.Text.
const randomLen = 26

// hiddenName returns a name that a walk ignores.
func hiddenName(kind string) string { return "." + kind + "-" + rand.Text() }

// isLeftover reports whether a name comes from hiddenName.
func isLeftover(name string) bool {
	kind, rest, ok := strings.Cut(strings.TrimPrefix(name, "."), "-")
	return ok && name[0] == '.' && len(rest) == randomLen && slices.Contains([]string{"new", "old", "tmp"}, kind)
}

// writeNewFile writes a new file and returns after it is on disk.
func writeNewFile(root *os.Root, file string, content []byte, mode fs.FileMode) error {
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

// syncFolder makes a change of names in a directory durable.
func syncFolder(root *os.Root, dir string) error {
	f, err := root.Open(filepath.FromSlash(dir))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("what was written may not outlast a crash: %s", errorReason(err))
	}
	return nil
}
