//go:build unix

package skills

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderOnly makes open fail for anything but a directory.
const folderOnly = unix.O_DIRECTORY

// stampOf returns the stamp of the file at an absolute path, following links;
// the zero stamp if there is none.
func stampOf(path string) stamp { return stampAt(unix.AT_FDCWD, path) }

func stampAt(fd int, path string) stamp {
	var st unix.Stat_t
	if retryInterrupted(func() error { return unix.Fstatat(fd, path, &st, 0) }) != nil {
		return stamp{}
	}
	return stampFrom(&st)
}

// A base is a directory relative to which many paths are checked, so that its
// own path is resolved only once.
type base struct {
	dir string
	fd  int // -1 if it cannot be opened
}

// openBase opens the directory at an absolute path, following links.
func openBase(dir string) base {
	b := base{dir: dir}
	err := retryInterrupted(func() (err error) {
		b.fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		b.fd = -1
	}
	return b
}

// stamp is stampOf for a path below the directory.
func (b base) stamp(path string) stamp {
	if b.fd < 0 {
		return stampOf(filepath.Join(b.dir, path))
	}
	return stampAt(b.fd, path)
}

func (b base) close() {
	if b.fd >= 0 {
		_ = unix.Close(b.fd) // read-only
	}
}

func stampFrom(st *unix.Stat_t) stamp {
	return stamp{st.Mtim.Nano(), st.Ctim.Nano(), st.Size, st.Ino}
}

// A handle is an open directory or file of a walk. It is a file descriptor
// instead of an os.File, which needs two more system calls per file.
type handle struct {
	fd  int
	dir *os.File // for a directory: the owner of fd
}

// newHandle takes ownership of an open directory.
func newHandle(f *os.File) handle { return handle{int(f.Fd()), f} }

// folder opens the directory called name in h without following links.
func (h handle) folder(name string) (handle, error) {
	fd, err := h.open(name, unix.O_DIRECTORY)
	if err != nil {
		return handle{}, err
	}
	return handle{fd, os.NewFile(uintptr(fd), name)}, nil
}

// file opens the file called name in h without following links. Opening a pipe
// does not block.
func (h handle) file(name string) (handle, error) {
	fd, err := h.open(name, unix.O_NONBLOCK)
	return handle{fd: fd}, err
}

func (h handle) open(name string, flags int) (fd int, err error) {
	err = retryInterrupted(func() error {
		fd, err = unix.Openat(h.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		return err
	})
	return fd, err
}

func (h handle) list() ([]fs.DirEntry, error) { return h.dir.ReadDir(-1) }

// stamp returns the stamp of the open file, its identity, and whether it is a
// regular file.
func (h handle) stamp() (stamp, folderID, bool, error) {
	var st unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Fstat(h.fd, &st) }); err != nil {
		return stamp{}, folderID{}, false, err
	}
	return stampFrom(&st), folderID{uint64(st.Dev), st.Ino}, st.Mode&unix.S_IFMT == unix.S_IFREG, nil //nolint:unconvert // it is another type elsewhere
}

// readBeginning fills buf with the beginning of a file, and returns the number
// of bytes.
func (h handle) readBeginning(buf []byte) (n int, err error) {
	for n < len(buf) {
		var more int
		err = retryInterrupted(func() error {
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
		_ = h.dir.Close() // read-only, as below
		return
	}
	_ = unix.Close(h.fd)
}

// retryInterrupted repeats a call that a signal has interrupted.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // the call itself returns it
			return err
		}
	}
}
