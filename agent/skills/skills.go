// Package skills finds, shows and writes skills: folders with a SKILL.md that
// says, behind a YAML front matter, how a kind of task is done.
//
// They lie anywhere below the folder of the home, which may be written, and
// below external folders, which are only read. Of two skills with one name the
// first one counts: the home's before external ones, then by path. Nothing is
// hidden silently: Check names what is broken and why, and Hidden says why a
// skill is not offered.
//
// What was read is kept in memory and in a cache file, with a stamp of every
// folder and every SKILL.md. A Catalog is built anew only from what has changed;
// whatever is wrong with the cache file, it is made again.
//
// No path leads out of a skill, nor out of the folder it was found under:
// neither "..", nor an absolute path, nor a symbolic link.
package skills

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
)

// Options says where skills are. Only Home is needed.
type Options struct {
	// Home is the folder of skills that may be written. It need not exist yet.
	Home string
	// External are folders of skills that are only read.
	External []string
	// Cache is the file in which is kept what was read; "" keeps it in memory.
	Cache string
	// Scan returns the ids of what is suspicious in a text, none if nothing is.
	// It is called from several goroutines. Nil scans nothing.
	Scan func(text string) []string
	// Scanner names the version of Scan: verdicts of another one are not used.
	Scanner string
}

// A Library is the skills of one home. Its methods may be called from any
// goroutine; writes wait for each other.
type Library struct {
	o     Options
	roots []string // Home first
	last  atomic.Pointer[Catalog]
	slot  chan struct{} // holds one token: who has it writes
}

// New returns the library of o. Nothing is read yet.
func New(o Options) (*Library, error) {
	l := &Library{o: o, slot: make(chan struct{}, 1)}
	if l.o.Scan == nil {
		l.o.Scan = func(string) []string { return nil }
	}
	for _, dir := range append([]string{o.Home}, o.External...) {
		if dir == "" {
			return nil, fmt.Errorf("skills: a folder without a name")
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

// Catalog returns the skills as they are on disk now. It never fails: what
// cannot be read is among the problems that Check tells. A Catalog does not
// change; the same one is returned as long as nothing on disk does.
func (l *Library) Catalog() *Catalog {
	last := l.last.Load()
	if last == nil {
		last = l.load()
	}
	if last != nil && last.fresh() {
		l.last.Store(last)
		return last
	}
	c := l.build(last)
	l.last.Store(c)
	return c
}

// acquire waits until nobody writes.
func (l *Library) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Library) release() { <-l.slot }

// Bounds of what is looked at and written.
const (
	maxDepth       = 8        // folders below a root
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

// mainFile is what makes a folder a skill.
const mainFile = "SKILL.md"

// support are the folders of a skill in which no other skill is looked for.
func support() []string { return []string{"references", "templates", "scripts", "assets"} }
