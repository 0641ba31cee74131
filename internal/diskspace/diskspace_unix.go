//go:build unix

package diskspace

import "golang.org/x/sys/unix"

// Of returns the free and the total space, in bytes, of the file system of
// path.
func Of(path string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize) // its type depends on the system
	return uint64(s.Bavail) * size, uint64(s.Blocks) * size, nil
}
