//go:build unix

package atomicfiles

import (
	"os"
	"path/filepath"
	"syscall"
)

// keepOwner gives a new file to the owner of the file that it replaces, or of the
// directory. It matters if root sets up the home directory of a service.
func keepOwner(f *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		if info, err = os.Stat(filepath.Dir(path)); err != nil {
			return err //nolint:wrapcheck // names the file
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return f.Chown(int(st.Uid), int(st.Gid)) //nolint:wrapcheck // names the file
	}
	return nil
}
