package storage

import "os"

// A Disk is a file system whose functions tests replace. A nil function is the
// system's.
type Disk struct {
	Lock   func(f *os.File) (held bool, err error)
	Sync   func(f *os.File) error
	Mapped func(f *os.File, n int) ([]byte, error)
}

// OpenOn is Open on a disk.
func OpenOn(path string, d Disk) (*Home, error) {
	sys := system()
	if d.Lock != nil {
		sys.lock = d.Lock
	}
	if d.Sync != nil {
		sys.sync = d.Sync
	}
	if d.Mapped != nil {
		sys.mapped = d.Mapped
	}
	return open(path, sys)
}
