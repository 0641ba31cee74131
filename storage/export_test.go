package storage

import "os"

// A Disk is a file system whose functions tests replace. A nil function is that
// of the system.
type Disk struct {
	Lock       func(f *os.File) (held bool, err error)
	Sync       func(f *os.File) error
	ReadMapped func(f *os.File, n int) ([]byte, error)
}

// OpenOn is Open on a given disk.
func OpenOn(path string, d Disk) (*Home, error) {
	sys := systemDisk()
	if d.Lock != nil {
		sys.lock = d.Lock
	}
	if d.Sync != nil {
		sys.sync = d.Sync
	}
	if d.ReadMapped != nil {
		sys.readMapped = d.ReadMapped
	}
	return open(path, sys)
}
