// Package media keeps the files that people send, under names made of their
// content. Nothing that a sender says decides where a file lies or how much of
// the disk it takes.
//
// A file is written beside the others under a temporary name and renamed when it
// is complete, so a path that Save has returned leads to a whole file. It stays
// until the cache is over its budget and all files that were saved or seen
// longer ago are gone. Files are not synced: after a power failure one may be
// missing, and its Ref, where the platform still has it, gets it again.
package media

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/safehttp"
)

// Config says how much the cache takes.
type Config struct {
	MaxBytes   int64 `yaml:"max_bytes" default:"52428800" range:"1024..2147483648" doc:"Largest incoming file that is kept, in bytes; a platform's own limit may be lower."`
	CacheBytes int64 `yaml:"cache_bytes" default:"2147483648" range:"1048576..1099511627776" doc:"Size to which the cache of incoming files may grow, in bytes; then the oldest go."`
}

// Validate says what is wrong with the config, in the operator's words.
func (c Config) Validate() error {
	if c.MaxBytes <= 0 {
		return fmt.Errorf("max_bytes is %d: it must be more than 0", c.MaxBytes)
	}
	if c.CacheBytes < c.MaxBytes {
		return fmt.Errorf("cache_bytes (%d) is less than max_bytes (%d): one file would not fit", c.CacheBytes, c.MaxBytes)
	}
	return nil
}

const temporary = ".part-" // the beginning of the names of files being written

// A Cache keeps files in one directory, which belongs to it alone. Its methods
// may be called from any goroutine.
type Cache struct {
	dir    string
	limits Config

	// mu guards what follows, and the names in dir: nothing is renamed or
	// removed without it. It is not held while a file is fetched.
	mu    sync.Mutex
	files map[string]*list.Element // of *file, by name
	order *list.List               // oldest first
	total int64
}

type file struct {
	name string
	size int64
}

// Open returns the cache in dir, which is made if it is missing. What a crash
// has left half written is removed.
func Open(dir string, limits Config) (*Cache, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	c := &Cache{dir: dir, limits: limits, files: map[string]*list.Element{}, order: list.New()}
	if err := c.scan(); err != nil {
		return nil, fmt.Errorf("open media cache: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c, c.pruneLocked(0, "")
}

// scan takes up the files that are there, in the order of their times.
func (c *Cache) scan() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var found []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case strings.HasPrefix(e.Name(), temporary):
			if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		case info.Mode().IsRegular() && ours(e.Name()):
			found = append(found, info)
		}
	}
	slices.SortStableFunc(found, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range found {
		c.addLocked(info.Name(), info.Size())
	}
	return nil
}

// ours says that a name is one that Save gives.
func ours(name string) bool {
	sum, _, _ := strings.Cut(name, ".")
	raw, err := hex.DecodeString(sum)
	return err == nil && len(raw) == sha256.Size
}

// Bytes returns how much the files take together.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Dir returns the directory in which all files lie.
func (c *Cache) Dir() string { return c.dir }

// Save stores what fetch writes and returns f with Path, Size and MIME as they
// are, and with a Name that can be shown. The same content twice is one file.
//
// On an error nothing is kept, and the returned file has a Problem: what the
// person reads in its place. A file over the limit is refused before it is
// fetched if f says how large it is, else when the limit is reached; the error
// is then a *dial.TooLarge.
func (c *Cache) Save(ctx context.Context, fetch func(context.Context, io.Writer) error, f chat.File) (chat.File, error) {
	f.Name, f.Path, f.FetchError = Name(f.Name), "", ""
	saved, err := c.save(ctx, fetch, f)
	if err != nil {
		f.FetchError = ErrorText(err).Error()
		return f, fmt.Errorf("save incoming file: %w", err)
	}
	return saved, nil
}

// ErrorText says for people why Save has failed. Other errors may name addresses with
// tokens in them.
func ErrorText(err error) error {
	large, ok := errors.AsType[*safehttp.TooLarge](err)
	switch {
	case ok && large.Size > 0:
		return i18n.Errorf("the file has %s and at most %s can be taken", safehttp.Size(large.Size), safehttp.Size(large.Limit))
	case ok:
		return i18n.Errorf("the file is larger than the %s that can be taken", safehttp.Size(large.Limit))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return i18n.Errorf("the file took too long to arrive")
	}
	return i18n.Errorf("the file could not be fetched")
}

func (c *Cache) save(ctx context.Context, fetch func(context.Context, io.Writer) error, f chat.File) (_ chat.File, err error) {
	if f.Size > c.limits.MaxBytes {
		return f, &safehttp.TooLarge{Limit: c.limits.MaxBytes, Size: f.Size}
	}
	tmp, err := os.CreateTemp(c.dir, temporary+"*")
	if err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	w := &writer{ctx: ctx, to: tmp, hash: sha256.New(), limit: c.limits.MaxBytes}
	err = fetch(ctx, w)
	if w.err != nil { // also if fetch did not pass it on
		err = w.err
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return f, err
	}
	var extension string
	f.MIME, extension = kind(w.head, f.MIME)
	f.Size = w.n
	name := hex.EncodeToString(w.hash.Sum(nil)) + extension
	f.Path = filepath.Join(c.dir, name)
	return f, c.adopt(tmp.Name(), name, w.n)
}

// adopt gives a complete file its name and makes room for it.
func (c *Cache) adopt(tmp, name string, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := filepath.Join(c.dir, name)
	if e, ok := c.files[name]; ok {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == size {
			c.order.MoveToBack(e)
			now := time.Now()
			return errors.Join(os.Chtimes(path, now, now), os.Remove(tmp))
		}
		c.forgetLocked(e) // somebody took it away or changed it
	}
	if err := c.pruneLocked(size, name); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	c.addLocked(name, size)
	return nil
}

func (c *Cache) addLocked(name string, size int64) {
	c.files[name] = c.order.PushBack(&file{name: name, size: size})
	c.total += size
}

func (c *Cache) forgetLocked(e *list.Element) {
	f := c.order.Remove(e).(*file)
	delete(c.files, f.name)
	c.total -= f.size
}

// pruneLocked removes the oldest files until more bytes fit into the budget.
func (c *Cache) pruneLocked(more int64, keep string) error {
	for e := c.order.Front(); e != nil && c.total+more > c.limits.CacheBytes; {
		next := e.Next()
		if name := e.Value.(*file).name; name != keep {
			if err := remove(filepath.Join(c.dir, name)); err != nil {
				return fmt.Errorf("make room: %w", err)
			}
			c.forgetLocked(e)
		}
		e = next
	}
	return nil
}

// Remove deletes a file that Save has returned. One that is gone, or that is
// not in the cache, is left alone without an error.
func (c *Cache) Remove(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.files[filepath.Base(path)]
	if !ok || filepath.Dir(path) != c.dir {
		return nil
	}
	if err := remove(path); err != nil {
		return fmt.Errorf("remove media: %w", err)
	}
	c.forgetLocked(e)
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// A writer passes on at most limit bytes, and sums them up.
type writer struct {
	ctx   context.Context // of the one Save that the writer belongs to
	to    io.Writer
	hash  hash.Hash
	limit int64
	n     int64
	head  []byte // the beginning, for sniffing
	err   error  // the first one; nothing is written after it
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err == nil {
		w.err = context.Cause(w.ctx)
	}
	if w.err == nil && w.n+int64(len(p)) > w.limit {
		w.err = &safehttp.TooLarge{Limit: w.limit}
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(p)
	_, _ = w.hash.Write(p[:n]) // never fails
	w.head = append(w.head, p[:min(n, sniffed-len(w.head))]...)
	w.n += int64(n)
	w.err = err
	return n, err
}
