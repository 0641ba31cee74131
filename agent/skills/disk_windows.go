package skills

import (
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folderOnly is zero: directories and files are distinguished after they are
// open.
const folderOnly = 0

// stampOf returns the stamp of the file at an absolute path, following links;
// the zero stamp if there is none.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stampFrom(info)
}

func stampFrom(info fs.FileInfo) stamp {
	return stamp{Modified: info.ModTime().UnixNano(), Size: info.Size()}
}

// A base is a directory relative to which many paths are checked.
type base string

func openBase(dir string) base { return base(dir) }

// stamp is stampOf for a path below the directory.
func (b base) stamp(path string) stamp { return stampOf(filepath.Join(string(b), path)) }

func (base) close() {}

// A handle is an open directory or file of a walk.
type handle struct{ f *os.File }

// newHandle takes ownership of an open directory.
func newHandle(f *os.File) handle { return handle{f} }

// folder opens the directory called name in h without following links.
func (h handle) folder(name string) (handle, error) { return h.file(name) }

// file opens the file called name in h without following links.
func (h handle) file(name string) (handle, error) {
	path := filepath.Join(h.f.Name(), name)
	info, err := os.Lstat(path)
	if err != nil {
		return handle{}, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return handle{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	f, err := os.Open(path)
	return handle{f}, err
}

func (h handle) list() ([]fs.DirEntry, error) { return h.f.ReadDir(-1) }

// stamp returns the stamp of the open file, its identity, and whether it is a
// regular file. Links are not followed below a root, so its path identifies it.
func (h handle) stamp() (stamp, folderID, bool, error) {
	info, err := h.f.Stat()
	if err != nil {
		return stamp{}, folderID{}, false, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(filepath.Clean(h.f.Name()))) // it never fails
	return stampFrom(info), folderID{inode: sum.Sum64()}, info.Mode().IsRegular(), nil
}

// readBeginning fills buf with the beginning of a file, and returns the number
// of bytes.
func (h handle) readBeginning(buf []byte) (int, error) {
	n, err := h.f.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h handle) close() { _ = h.f.Close() } // read-only
