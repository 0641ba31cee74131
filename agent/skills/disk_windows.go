package skills

import (
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folderOnly is nothing here: folders and files are told apart after they are open.
const folderOnly = 0

// stampOf returns the stamp of what stands at an absolute path, links followed;
// the zero stamp if there is nothing.
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

// A base is a folder from which many paths are looked at.
type base string

func baseOf(dir string) base { return base(dir) }

// stamp is stampOf for a path below the folder.
func (b base) stamp(path string) stamp { return stampOf(filepath.Join(string(b), path)) }

func (base) close() {}

// A handle is an open folder or file of a walk.
type handle struct{ f *os.File }

// handleOf takes over an open folder.
func handleOf(f *os.File) handle { return handle{f} }

// folder opens the folder called name in h, and follows no link.
func (h handle) folder(name string) (handle, error) { return h.file(name) }

// file opens what is called name in h, and follows no link.
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

// list returns what stands in a folder.
func (h handle) list() ([]fs.DirEntry, error) { return h.f.ReadDir(-1) }

// stamp returns the stamp of what is open, which one it is, and whether it is a
// regular file. Links are not followed below a root, so its path says which one
// it is.
func (h handle) stamp() (stamp, folderID, bool, error) {
	info, err := h.f.Stat()
	if err != nil {
		return stamp{}, folderID{}, false, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(filepath.Clean(h.f.Name()))) // it never fails
	return stampFrom(info), folderID{inode: sum.Sum64()}, info.Mode().IsRegular(), nil
}

// begin fills buf with the beginning of a file, and returns how much that is.
func (h handle) begin(buf []byte) (int, error) {
	n, err := h.f.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (h handle) close() { _ = h.f.Close() } // it was only read
