//go:build unix

package doctor

import "golang.org/x/sys/unix"

// diskSpace returns the free and the total space, in bytes, of the file system of
// path.
func diskSpace(path string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize) //nolint:unconvert // its type depends on the system
	return uint64(s.Bavail) * size, uint64(s.Blocks) * size, nil
}
