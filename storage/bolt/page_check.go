package bolt

import (
	"encoding/binary"
	"fmt"
	"io"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage"
)

// The layout of bbolt's pages.
const (
	branchPage  = 0x01
	leafPage    = 0x02
	elementSize = 16
	bucketFlag  = 0x01
	bucketSize  = 16
)

// A walk goes through the pages of a file from its root, and finds what would
// make bbolt run in circles or read where nothing is: its pages carry no
// checksum, and it believes them.
type walk struct {
	f      io.ReaderAt
	size   int64 // of a page
	pages  uint64
	seen   []uint64 // a bit for each page
	leaves bool     // look at the leaves too, not only at what leads to them
}

// wellFormed checks the pages that tx can reach. Without leaves it reads little
// more than the branches, which are few.
func wellFormed(f io.ReaderAt, db *bbolt.DB, tx *bbolt.Tx, leaves bool) error {
	size := int64(db.Info().PageSize)
	pages := uint64(tx.Size() / size)
	w := &walk{f: f, size: size, pages: pages, seen: make([]uint64, pages/64+1), leaves: leaves}
	root := uint64(tx.Cursor().Bucket().Root())
	if err := w.visit(root); err != nil {
		return err
	}
	return w.tree(root, true)
}

func (w *walk) bad(id uint64, format string, args ...any) error {
	return &storage.DamageError{Record: fmt.Sprintf("page %d of the file", id), Err: fmt.Errorf(format, args...)}
}

// visit marks a page, and refuses one that is reached twice or is not there.
func (w *walk) visit(id uint64) error {
	if id < 2 || id >= w.pages {
		return w.bad(id, "it is used, and the file has %d pages", w.pages)
	}
	if w.seen[id/64]&(1<<(id%64)) != 0 {
		return w.bad(id, "it is used twice")
	}
	w.seen[id/64] |= 1 << (id % 64)
	return nil
}

// A page is the content of a page, with the pages that belong to it.
type page struct {
	id    uint64
	flags uint16
	count int
	data  []byte
}

func (w *walk) read(id uint64) (page, error) {
	head := make([]byte, pageHeader)
	if _, err := w.f.ReadAt(head, int64(id)*w.size); err != nil {
		return page{}, err
	}
	p := header(head)
	over := uint64(binary.NativeEndian.Uint32(head[12:]))
	switch {
	case binary.NativeEndian.Uint64(head) != id:
		return p, w.bad(id, "it says that it is another page")
	case p.flags != branchPage && p.flags != leafPage:
		return p, w.bad(id, "it is neither branch nor leaf")
	case over >= w.pages-id:
		return p, w.bad(id, "it is longer than the file")
	case p.flags == branchPage && p.count == 0:
		return p, w.bad(id, "it is an empty branch")
	}
	p.id, p.data = id, make([]byte, int64(over+1)*w.size)
	if _, err := w.f.ReadAt(p.data, int64(id)*w.size); err != nil {
		return p, err
	}
	if pageHeader+p.count*elementSize > len(p.data) {
		return p, w.bad(id, "it has more elements than space")
	}
	return p, nil
}

func header(b []byte) page {
	e := binary.NativeEndian
	return page{flags: e.Uint16(b[8:]), count: int(e.Uint16(b[10:]))}
}

// tree checks the tree under page id. Only the root has buckets in its leaves.
func (w *walk) tree(id uint64, root bool) error {
	p, err := w.read(id)
	if err != nil {
		return err
	}
	if p.flags == leafPage {
		return w.leaf(p, root)
	}
	children := make([]uint64, p.count)
	for i := range children {
		at := pageHeader + i*elementSize
		pos, ksize := u32(p.data, at), u32(p.data, at+4)
		if int64(at)+int64(pos)+int64(ksize) > int64(len(p.data)) {
			return w.bad(id, "element %d is outside", i)
		}
		children[i] = binary.NativeEndian.Uint64(p.data[at+8:])
		if err := w.visit(children[i]); err != nil {
			return err
		}
	}
	for i, child := range children {
		if err := w.tree(child, root); err != nil {
			return err
		}
		// All leaves of a tree are equally deep: after one leaf come leaves.
		if i == 0 && !w.leaves && !root {
			first, err := w.read(child)
			if err != nil || first.flags == leafPage {
				return err
			}
		}
	}
	return nil
}

// leaf checks the elements of a leaf.
func (w *walk) leaf(p page, root bool) error {
	if !w.leaves && !root {
		return nil
	}
	for i := range p.count {
		at := pageHeader + i*elementSize
		flags, pos, ksize, vsize := u32(p.data, at), u32(p.data, at+4), u32(p.data, at+8), u32(p.data, at+12)
		start := int64(at) + int64(pos) + int64(ksize)
		if end := start + int64(vsize); ksize > bbolt.MaxKeySize || end > int64(len(p.data)) {
			return w.bad(p.id, "element %d is outside", i)
		}
		switch isBucket := flags&bucketFlag != 0; {
		case isBucket != root:
			return w.bad(p.id, "element %d is of a wrong kind", i)
		case isBucket:
			if err := w.bucket(p, p.data[start:start+int64(vsize)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks a bucket, which is a tree of its own or a small leaf in place.
func (w *walk) bucket(p page, v []byte) error {
	if len(v) < bucketSize {
		return w.bad(p.id, "a bucket is cut short")
	}
	if root := binary.NativeEndian.Uint64(v); root != 0 {
		if err := w.visit(root); err != nil {
			return err
		}
		return w.tree(root, false)
	}
	v = v[bucketSize:]
	if len(v) < pageHeader {
		return w.bad(p.id, "a bucket in place is cut short")
	}
	in := header(v)
	in.id, in.data = p.id, v
	if in.flags != leafPage || pageHeader+in.count*elementSize > len(v) {
		return w.bad(p.id, "a bucket in place makes no sense")
	}
	inner := *w
	inner.leaves = true
	return inner.leaf(in, false)
}

func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
