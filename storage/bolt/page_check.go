package bolt

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage"
)

// Layout of bbolt's pages.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	elementSize  = 16
	bucketFlag   = 0x01
	bucketSize   = 16
)

// A pageWalk visits the pages of a file from the root and finds errors that
// would make bbolt loop or read outside the file: its pages have no checksum
// and bbolt trusts them.
type pageWalk struct {
	f            io.ReaderAt
	size         int64 // of a page
	pages        uint64
	seen         []uint64 // one bit per page
	checksLeaves bool     // check the leaves too, not only the pages above them
}

// checkPages checks the pages that tx can reach in the file at path.
func checkPages(path string, db *bbolt.DB, tx *bbolt.Tx) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	size := int64(db.Info().PageSize)
	pages := uint64(tx.Size() / size)
	w := &pageWalk{f: f, size: size, pages: pages, seen: make([]uint64, pages/64+1), checksLeaves: true}
	return w.checkRoot(uint64(tx.Cursor().Bucket().Root()))
}

// checkPath checks all pages of the file at path, to which nobody writes.
func checkPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if err := checkMeta(f); err != nil {
		return err
	}
	return checkFile(f, true)
}

// checkFile checks the pages of a file to which nobody writes, and the list of its
// free pages: a page that is listed although it is in use would be overwritten.
// Without leaves it reads little more than the branch pages, which are few.
func checkFile(f io.ReaderAt, leaves bool) error {
	m, err := newestMeta(f)
	if err != nil {
		return err
	}
	w := &pageWalk{f: f, size: m.pageSize, pages: m.pages, seen: make([]uint64, m.pages/64+1), checksLeaves: leaves}
	if err := w.checkRoot(m.root); err != nil {
		return err
	}
	return w.checkFreelist(m.freelist)
}

func (w *pageWalk) checkRoot(root uint64) error {
	if err := w.visit(root); err != nil {
		return err
	}
	return w.checkTree(root, true)
}

// checkFreelist checks the list of free pages, after the walk has seen those in use.
func (w *pageWalk) checkFreelist(id uint64) error {
	if err := w.visit(id); err != nil {
		return err
	}
	p, err := w.readPage(id, freelistPage)
	if err != nil {
		return err
	}
	ids := p.data[pageHeader:]
	count := uint64(p.count)
	if count == 0xffff && len(ids) >= 8 { // then the first element is the count
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return w.damage(id, "list of free pages is too long")
	}
	for i := range count {
		free := binary.NativeEndian.Uint64(ids[i*8:])
		if w.visit(free) != nil {
			return w.damage(id, "list of free pages has page %d, which is in use or does not exist", free)
		}
	}
	return nil
}

func (w *pageWalk) damage(id uint64, format string, args ...any) error {
	return &storage.DamageError{Record: fmt.Sprintf("page %d of the file", id), Err: fmt.Errorf(format, args...)}
}

// visit marks a page as used, and rejects one that is used twice or does not
// exist.
func (w *pageWalk) visit(id uint64) error {
	if id < 2 || id >= w.pages {
		return w.damage(id, "page is used but the file has only %d pages", w.pages)
	}
	if w.seen[id/64]&(1<<(id%64)) != 0 {
		return w.damage(id, "page is used twice")
	}
	w.seen[id/64] |= 1 << (id % 64)
	return nil
}

// A page is the header and the data of a page, including its overflow pages.
type page struct {
	id    uint64
	flags uint16
	count int
	data  []byte
}

// read reads a page of a tree.
func (w *pageWalk) read(id uint64) (page, error) { return w.readPage(id, branchPage|leafPage) }

// readPage reads a page that has one of the kinds.
func (w *pageWalk) readPage(id uint64, kinds uint16) (page, error) {
	head := make([]byte, pageHeader)
	if _, err := w.f.ReadAt(head, int64(id)*w.size); err != nil {
		return page{}, err
	}
	p := parseHeader(head)
	over := uint64(binary.NativeEndian.Uint32(head[12:]))
	switch {
	case binary.NativeEndian.Uint64(head) != id:
		return p, w.damage(id, "page has the ID of another page")
	case p.flags&kinds == 0 || p.flags&(p.flags-1) != 0:
		return p, w.damage(id, "page is of the wrong kind")
	case over >= w.pages-id:
		return p, w.damage(id, "page is longer than the file")
	case p.flags == branchPage && p.count == 0:
		return p, w.damage(id, "branch page is empty")
	}
	p.id, p.data = id, make([]byte, int64(over+1)*w.size)
	if _, err := w.f.ReadAt(p.data, int64(id)*w.size); err != nil {
		return p, err
	}
	if p.flags != freelistPage && pageHeader+p.count*elementSize > len(p.data) {
		return p, w.damage(id, "too many elements")
	}
	return p, nil
}

func parseHeader(b []byte) page {
	e := binary.NativeEndian
	return page{flags: e.Uint16(b[8:]), count: int(e.Uint16(b[10:]))}
}

// checkTree checks the tree under page id. Only the root has buckets in its
// leaves.
func (w *pageWalk) checkTree(id uint64, root bool) error {
	p, err := w.read(id)
	if err != nil {
		return err
	}
	if p.flags == leafPage {
		return w.checkLeaf(p, root)
	}
	children := make([]uint64, p.count)
	for i := range children {
		at := pageHeader + i*elementSize
		pos, ksize := readUint32(p.data, at), readUint32(p.data, at+4)
		if int64(at)+int64(pos)+int64(ksize) > int64(len(p.data)) {
			return w.damage(id, "element %d is outside", i)
		}
		children[i] = binary.NativeEndian.Uint64(p.data[at+8:])
		if err := w.visit(children[i]); err != nil {
			return err
		}
	}
	for i, child := range children {
		if err := w.checkTree(child, root); err != nil {
			return err
		}
		// All leaves of a tree are equally deep: after one leaf come leaves.
		if i == 0 && !w.checksLeaves && !root {
			first, err := w.read(child)
			if err != nil || first.flags == leafPage {
				return err
			}
		}
	}
	return nil
}

// checkLeaf checks the elements of a leaf.
func (w *pageWalk) checkLeaf(p page, root bool) error {
	if !w.checksLeaves && !root {
		return nil
	}
	for i := range p.count {
		at := pageHeader + i*elementSize
		flags, pos, ksize, vsize := readUint32(p.data, at), readUint32(p.data, at+4), readUint32(p.data, at+8), readUint32(p.data, at+12)
		start := int64(at) + int64(pos) + int64(ksize)
		if end := start + int64(vsize); ksize == 0 || ksize > bbolt.MaxKeySize || end > int64(len(p.data)) {
			return w.damage(p.id, "element %d is outside", i)
		}
		switch isBucket := flags&bucketFlag != 0; {
		case isBucket != root:
			return w.damage(p.id, "element %d has the wrong kind", i)
		case isBucket:
			if err := w.checkBucket(p, p.data[start:start+int64(vsize)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBucket checks a bucket, which is a tree of its own or a small inline
// leaf.
func (w *pageWalk) checkBucket(p page, v []byte) error {
	if len(v) < bucketSize {
		return w.damage(p.id, "bucket is truncated")
	}
	if root := binary.NativeEndian.Uint64(v); root != 0 {
		if err := w.visit(root); err != nil {
			return err
		}
		return w.checkTree(root, false)
	}
	v = v[bucketSize:]
	if len(v) < pageHeader {
		return w.damage(p.id, "inline bucket is truncated")
	}
	in := parseHeader(v)
	in.id, in.data = p.id, v
	if in.flags != leafPage || pageHeader+in.count*elementSize > len(v) {
		return w.damage(p.id, "inline bucket is malformed")
	}
	inner := *w
	inner.checksLeaves = true
	return inner.checkLeaf(in, false)
}

func readUint32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
