package spawn

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A capture keeps the beginning and the end of what is written to it, and all
// of it in a file once that is more than fits. One goroutine writes, others may
// look.
type capture struct {
	keep  int
	max   int64
	spill string
	flood func() // called once, when more than most was written

	file  *os.File // of the writing goroutine
	spent bool     // no more is written to the file

	mu  sync.Mutex // guards what follows
	out Output     // Tail is a ring from at on, once it is full
	at  int
}

// Write implements io.Writer. It never fails: who does not listen any more
// still lets the writer go on to its end.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.mu.Lock()
	room := c.max - c.out.Total
	c.mu.Unlock()
	over := int64(n) > room
	if over {
		p = p[:max(room, 0)]
	}
	if c.spill != "" && !c.spent {
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

// add puts p into memory. The head and the tail are at most keep together.
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

// save writes p to the file, which begins with all that came before it.
func (c *capture) save(p []byte) {
	if c.file == nil {
		before := c.look()
		if int(before.Total)+len(p) <= c.keep {
			return
		}
		f, err := createSpill(c.spill)
		if err != nil {
			c.noFile(err)
			return
		}
		c.file = f
		c.mu.Lock()
		c.out.File = f.Name()
		c.mu.Unlock()
		p = slices.Concat(before.Head, before.Tail, p)
	}
	if _, err := c.file.Write(p); err != nil {
		c.noFile(err)
	}
}

func createSpill(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, spillPrefix+"*"+spillSuffix)
}

func (c *capture) noFile(err error) {
	c.spent = true
	c.mu.Lock()
	c.out.FileErr = err
	c.mu.Unlock()
}

// close closes the file. The writing goroutine has ended.
func (c *capture) close() {
	if c.file != nil {
		if err := c.file.Close(); err != nil && !c.spent {
			c.noFile(err)
		}
	}
}

// look returns what is kept so far, as a copy.
func (c *capture) look() Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.out
	out.Head = slices.Clone(c.out.Head)
	out.Tail = slices.Concat(c.out.Tail[c.at:], c.out.Tail[:c.at])
	out.Lost = out.Total - int64(len(out.Head)+len(out.Tail))
	return out
}

// since returns what was written from byte n on, as far as it is kept, and how
// much of it is not.
func (o Output) since(n int64) (data []byte, lost int64) {
	head := int64(len(o.Head))
	tail := o.Total - int64(len(o.Tail)) // where the tail begins
	n = min(max(n, 0), o.Total)
	if n < head {
		data = append(data, o.Head[n:]...)
	}
	from := max(n, tail)
	return append(data, o.Tail[from-tail:]...), max(0, tail-max(n, head))
}

// Names of files with output.
const (
	spillPrefix = "output-"
	spillSuffix = ".txt"
)

// Prune removes files with output from dir that are older than age, and the
// oldest of the others until they have at most total bytes together. It is
// no failure if there is no dir.
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
