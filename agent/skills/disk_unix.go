//go:build unix

package skills

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderOnly has an open fail on what is no folder.
const folderOnly = unix.O_DIRECTORY

// stampOf returns the stamp of what stands at an absolute path, links followed;
// the zero stamp if there is nothing.
func stampOf(path string) stamp { return stampAt(unix.AT_FDCWD, path) }

func stampAt(fd int, path string) stamp {
	var st unix.Stat_t
	if again(func() error { return unix.Fstatat(fd, path, &st, 0) }) != nil {
		return stamp{}
	}
	return stampFrom(&st)
}

// A base is a folder from which many paths are looked at: the way to it is gone
// only once.
type base struct {
	dir string
	fd  int // -1 if it cannot be opened
}

// baseOf opens the folder at an absolute path, links followed.
func baseOf(dir string) base {
	b := base{dir: dir}
	err := again(func() (err error) {
		b.fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		b.fd = -1
	}
	return b
}

// stamp is stampOf for a path below the folder.
func (b base) stamp(path string) stamp {
	if b.fd < 0 {
		return stampOf(filepath.Join(b.dir, path))
	}
	return stampAt(b.fd, path)
}

func (b base) close() {
	if b.fd >= 0 {
		_ = unix.Close(b.fd) // nothing was read
	}
}

func stampFrom(st *unix.Stat_t) stamp {
	return stamp{st.Mtim.Nano(), st.Ctim.Nano(), st.Size, st.Ino}
}

// A handle is an open folder or file of a walk. It is a number, not an os.File,
// which asks the kernel two things more of each file that is looked at.
type handle struct {
	fd  int
	dir *os.File // of a folder: who owns fd
}

// handleOf takes over an open folder.
func handleOf(f *os.File) handle { return handle{int(f.Fd()), f} }

// folder opens the folder called name in h, and follows no link.
func (h handle) folder(name string) (handle, error) {
	fd, err := h.open(name, unix.O_DIRECTORY)
	if err != nil {
		return handle{}, err
	}
	return handle{fd, os.NewFile(uintptr(fd), name)}, nil
}

// file opens what is called name in h, and follows no link. It does not wait for
// the other end of a pipe.
func (h handle) file(name string) (handle, error) {
	fd, err := h.open(name, unix.O_NONBLOCK)
	return handle{fd: fd}, err
}

func (h handle) open(name string, flags int) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		return err
	})
	return fd, err
}

// list returns what stands in a folder.
func (h handle) list() ([]fs.DirEntry, error) { return h.dir.ReadDir(-1) }

// stamp returns the stamp of what is open, which one it is, and whether it is a
// regular file.
func (h handle) stamp() (stamp, folderID, bool, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(h.fd, &st) }); err != nil {
		return stamp{}, folderID{}, false, err
	}
	return stampFrom(&st), folderID{uint64(st.Dev), st.Ino}, st.Mode&unix.S_IFMT == unix.S_IFREG, nil //nolint:unconvert // it is another type elsewhere
}

// begin fills buf with the beginning of a file, and returns how much that is.
func (h handle) begin(buf []byte) (n int, err error) {
	for n < len(buf) {
		var more int
		err = again(func() error {
			more, err = unix.Pread(h.fd, buf[n:], int64(n))
			return err
		})
		if err != nil || more == 0 {
			break
		}
		n += more
	}
	return n, err
}

func (h handle) close() {
	if h.dir != nil {
		_ = h.dir.Close() // it was only read, as below
		return
	}
	_ = unix.Close(h.fd)
}

// again repeats a call that a signal has cut off.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // the call itself returns it
			return err
		}
	}
}
