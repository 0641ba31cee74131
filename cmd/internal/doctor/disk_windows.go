package doctor

import "golang.org/x/sys/windows"

// diskSpace returns the free and the total space, in bytes, of the file system of
// path.
func diskSpace(path string) (free, all uint64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(p, &free, &all, nil)
	return free, all, err
}
