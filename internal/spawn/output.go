package spawn

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A capture keeps the beginning and the end of what is written to it in memory and, if
// that is not everything, all of it in a file. One goroutine writes; others may call
// snapshot.
type capture struct {
	keep  int
	max   int64
	spill string
	flood func() // called once, when more than max bytes were written

	file     *os.File // used by the writing goroutine only
	fileDone bool     // the file failed, nothing more is written to it

	mu  sync.Mutex // guards the fields below
	out Output     // Tail is a ring buffer that begins at index at once it is full
	at  int
}

// Write implements io.Writer. It never fails, so that a process is not stopped by a
// failing write; bytes beyond max are dropped.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.mu.Lock()
	room := c.max - c.out.Total
	c.mu.Unlock()
	over := int64(n) > room
	if over {
		p = p[:max(room, 0)]
	}
	if c.spill != "" && !c.fileDone {
		c.save(p)
	}
	c.mu.Lock()
	c.add(p)
	c.mu.Unlock()
	if over && c.flood != nil {
		c.flood()
		c.flood = nil
	}
	return n, nil
}

// add adds p to the memory. Head and tail have at most keep bytes together.
func (c *capture) add(p []byte) {
	c.out.Total += int64(len(p))
	half := c.keep / 2
	if room := half - len(c.out.Head); room > 0 {
		n := min(room, len(p))
		c.out.Head = append(c.out.Head, p[:n]...)
		p = p[n:]
	}
	size := c.keep - half
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := size - len(c.out.Tail); room > 0 {
		n := min(room, len(p))
		c.out.Tail = append(c.out.Tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.out.Tail[c.at:], p)
		p = p[n:]
		c.at = (c.at + n) % size
	}
}

// save writes p to the file, which is created with all earlier output once memory is
// full.
func (c *capture) save(p []byte) {
	if c.file == nil {
		before := c.snapshot()
		if int(before.Total)+len(p) <= c.keep {
			return
		}
		f, err := createSpill(c.spill)
		if err != nil {
			c.spillFailed(err)
			return
		}
		c.file = f
		c.mu.Lock()
		c.out.File = f.Name()
		c.mu.Unlock()
		p = slices.Concat(before.Head, before.Tail, p)
	}
	if _, err := c.file.Write(p); err != nil {
		c.spillFailed(err)
	}
}

func createSpill(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, spillPrefix+"*"+spillSuffix)
}

func (c *capture) spillFailed(err error) {
	c.fileDone = true
	c.mu.Lock()
	c.out.FileErr = err
	c.mu.Unlock()
}

// close closes the file. The writing goroutine must have ended.
func (c *capture) close() {
	if c.file != nil {
		if err := c.file.Close(); err != nil && !c.fileDone {
			c.spillFailed(err)
		}
	}
}

// snapshot returns a copy of the output kept so far.
func (c *capture) snapshot() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.out
	out.Head = slices.Clone(c.out.Head)
	out.Tail = slices.Concat(c.out.Tail[c.at:], c.out.Tail[:c.at])
	out.Lost = out.Total - int64(len(out.Head)+len(out.Tail))
	return out
}

// since returns the kept output from byte n on, and the number of bytes from there that
// are not kept.
func (o Output) since(n int64) (data []byte, lost int64) {
	head := int64(len(o.Head))
	tail := o.Total - int64(len(o.Tail)) // offset of the tail
	n = min(max(n, 0), o.Total)
	if n < head {
		data = append(data, o.Head[n:]...)
	}
	from := max(n, tail)
	return append(data, o.Tail[from-tail:]...), max(0, tail-max(n, head))
}

// outputs are the output pipes of a process.
type outputs struct {
	copies sync.WaitGroup
	held   atomic.Bool // another process has a write end open
}

// copy copies r to w until the last writer has ended, w fails, or the read is interrupted.
func (o *outputs) copy(w io.Writer, r *os.File) {
	_, err := io.Copy(w, r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if drain(w, r) {
			o.held.Store(true)
		}
	case errors.Is(err, os.ErrClosed):
		o.held.Store(true)
	}
	_ = r.Close() // the child gets an error if w does not accept more
}

// interruptRead makes reads from r fail. Where r has no deadline, what nobody has read is
// lost.
func interruptRead(r *os.File) {
	if err := r.SetReadDeadline(time.Unix(1, 0)); errors.Is(err, os.ErrNoDeadline) {
		_ = r.Close()
	}
}

// The names of output files.
const (
	spillPrefix = "output-"
	spillSuffix = ".txt"
)

// Prune removes output files older than age from dir, and then the oldest ones until the
// rest has at most total bytes. A missing dir is no error.
func Prune(dir string, age time.Duration, total int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), spillPrefix) && strings.HasSuffix(e.Name(), spillSuffix) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range infos {
		total -= info.Size()
		if total >= 0 && time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
