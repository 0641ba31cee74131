// Package skills finds, shows and writes skills: directories with a SKILL.md
// that describes, after a YAML front matter, how a kind of task is done. The
// main types are Library and Catalog.
//
// Skills are anywhere below the skill directory of the home directory, which is
// writable, and below external directories, which are read-only. Of two skills
// with the same name the first one counts: the home directory before external
// ones, then by path. Nothing is hidden silently: Check lists what is broken
// and why, and Hidden says why a skill is not offered.
//
// What was read is cached in memory and in a cache file, with a stamp of every
// directory and every SKILL.md. A Catalog is rebuilt only from what has
// changed; an invalid cache file is written again.
//
// No path leads out of a skill or out of its root: neither "..", nor an
// absolute path, nor a symbolic link.
package skills

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
)

// Options holds the parameters of New. Only Home is required.
type Options struct {
	// Home is the writable directory of skills. It need not exist.
	Home string
	// External are read-only directories of skills.
	External []string
	// Cache is the path of the cache file; "" caches in memory only.
	Cache string
	// Scan returns the IDs of the injection findings in a text. It is called
	// from several goroutines. Nil scans nothing.
	Scan func(text string) []string
	// Scanner is the version of Scan: findings of another version are not used.
	Scanner string
}

// A Library is the set of skills of one home directory. Its methods may be
// called from any goroutine; writes are serialized.
type Library struct {
	o         Options
	roots     []string // Home first
	last      atomic.Pointer[Catalog]
	writeLock chan struct{} // holds one token while a write is running
}

// New returns the library of o. It reads nothing.
func New(o Options) (*Library, error) {
	l := &Library{o: o, writeLock: make(chan struct{}, 1)}
	if l.o.Scan == nil {
		l.o.Scan = func(string) []string { return nil }
	}
	for _, dir := range append([]string{o.Home}, o.External...) {
		if dir == "" {
			return nil, fmt.Errorf("skills: empty directory name")
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("skills: %w", err)
		}
		if !slices.Contains(l.roots, abs) {
			l.roots = append(l.roots, abs)
		}
	}
	return l, nil
}

// Catalog returns the skills that are on disk now. It never fails: directories
// and files that cannot be read are problems that Check returns. A Catalog is
// immutable; the same one is returned until something on disk changes.
func (l *Library) Catalog() *Catalog {
	last := l.last.Load()
	if last == nil {
		last = l.loadCache()
	}
	if last != nil && last.isFresh() {
		l.last.Store(last)
		return last
	}
	c := l.build(last)
	l.last.Store(c)
	return c
}

// acquire waits until no write is running.
func (l *Library) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.writeLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Library) release() { <-l.writeLock }

// Limits of reading and writing.
const (
	maxDepth       = 8        // directories below a root
	maxFolders     = 20_000   // of all roots together
	maxSkills      = 2_000    // of all roots together
	maxHeader      = 16 << 10 // bytes of a SKILL.md that are read for its front matter
	maxName        = 64       // characters
	maxDescription = 1024     // characters
	maxContent     = 100_000  // characters of a SKILL.md that is written
	maxFile        = 1 << 20  // bytes of any file that is shown or written
	maxFiles       = 200      // of one skill
)

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// mainFile is the file that makes a directory a skill.
const mainFile = "SKILL.md"

// supportFolders returns the directories of a skill in which no other skill is
// searched.
func supportFolders() []string { return []string{"references", "templates", "scripts", "assets"} }
