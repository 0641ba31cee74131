package diskspace

import "golang.org/x/sys/windows"

// Of returns the free and the total space, in bytes, of the file system of
// path.
func Of(path string) (free, total uint64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(p, &free, &total, nil)
	return free, total, err
}
