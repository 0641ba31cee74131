//go:build unix

package atomicfiles

import (
	"os"
	"path/filepath"
	"syscall"
)

// own gives a new file to the one who owns what it takes the place of, or the
// directory: root may set up the home of a service.
func own(f *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		if info, err = os.Stat(filepath.Dir(path)); err != nil {
			return err //nolint:wrapcheck // it says which file
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return f.Chown(int(st.Uid), int(st.Gid)) //nolint:wrapcheck // it says which file
	}
	return nil
}
