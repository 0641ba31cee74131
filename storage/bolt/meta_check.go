package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"hermesd/storage"
)

// Layout of bbolt's meta pages, which are at the start of the file.
const (
	pageHeader = 16
	metaSum    = 56 // bytes covered by the checksum
	metaSize   = metaSum + 8
	metaMagic  = 0xED0CDAED
)

// A meta is the content of a meta page.
type meta struct {
	pageSize int64
	root     uint64 // page of the root bucket
	freelist uint64 // page of the list of free pages
	pages    uint64 // pages below this number are in use
	txid     uint64
}

// checkMeta checks that f is a complete bbolt file before bbolt maps it: bbolt
// panics, or the process gets a fault, if a file is shorter than its meta page
// says.
func checkMeta(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	damaged := func(format string, args ...any) error {
		return &storage.DamageError{Record: "the file", Err: fmt.Errorf(format, args...)}
	}
	m, err := newestMeta(f)
	if err != nil {
		return err
	}
	switch size := info.Size(); {
	case m.pageSize == 0:
		return damaged("%d bytes without a valid header; restore a backup", size)
	case uint64(size) < m.pages*uint64(m.pageSize):
		return damaged("file is truncated: %d bytes, want %d; restore a backup", size, m.pages*uint64(m.pageSize))
	}
	return nil
}

// newestMeta returns the valid meta page with the highest transaction; its page
// size is 0 if there is none.
func newestMeta(f io.ReaderAt) (meta, error) {
	var best meta
	first, ok, err := readMeta(f, 0)
	if err != nil {
		return best, err
	}
	sizes := []int64{first.pageSize}
	if ok {
		best = first
	} else {
		sizes = sizes[:0]
		for s := int64(1 << 10); s <= 1<<24; s <<= 1 {
			sizes = append(sizes, s)
		}
	}
	for _, s := range sizes {
		m, ok, err := readMeta(f, s)
		if err != nil {
			return best, err
		}
		if ok && m.pageSize == s && (best.pageSize == 0 || m.txid > best.txid) {
			best = m
		}
	}
	return best, nil
}

func readMeta(f io.ReaderAt, at int64) (m meta, ok bool, err error) {
	buf := make([]byte, pageHeader+metaSize)
	if _, err := f.ReadAt(buf, at); err != nil {
		if errors.Is(err, io.EOF) {
			return m, false, nil
		}
		return m, false, err
	}
	e, p := binary.NativeEndian, buf[pageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(p[:metaSum]) // a hash never fails
	if e.Uint32(p) != metaMagic || e.Uint64(p[metaSum:]) != h.Sum64() {
		return m, false, nil
	}
	m = meta{pageSize: int64(e.Uint32(p[8:])), root: e.Uint64(p[16:]), freelist: e.Uint64(p[32:]), pages: e.Uint64(p[40:]), txid: e.Uint64(p[48:])}
	return m, m.pageSize >= 1<<10 && m.pageSize <= 1<<24, nil
}
