package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// An editor changes files of a workspace.
type editor struct {
	w    *Workspace
	deny func(string) error

	mu   sync.Mutex // guards what follows
	busy map[string]bool
}

// A target is a file that is going to be changed: its folder, open, and its name
// in it. No link stands between the two.
type target struct {
	e    *editor
	dir  *os.Root
	name string
	path string // as the model reads it
	real string // in the workspace, links followed
}

// A content is what a file held when it was looked at.
type content struct {
	raw   []byte
	info  fs.FileInfo // whose mode a new file gets, nil if it is a file of its own
	there bool
}

const maxLinks = 40

// target opens the folder of a file. folders says that missing ones are made. It
// is refused if another call is at the file, or if the file is denied.
func (e *editor) target(p string, folders bool) (*target, error) {
	asked, err := e.w.within(p)
	switch {
	case err != nil:
		return nil, outsideToWrite(p)
	case asked == "." || strings.HasSuffix(p, "/"):
		return nil, fmt.Errorf("%s is a folder; name a file", p)
	}
	real, err := e.w.follow(asked)
	if err != nil {
		return nil, err
	}
	if err := e.allowed(real, asked); err != nil {
		return nil, err
	}
	e.mu.Lock()
	taken := e.busy[real]
	e.busy[real] = true
	e.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("%s is being changed by another call; try again", asked)
	}
	t := &target{e: e, name: path.Base(real), path: asked, real: real}
	if t.dir, err = e.w.enter(path.Dir(real), folders); err != nil {
		t.close()
		return nil, wordsOfWrite(asked, err)
	}
	return t, nil
}

func (t *target) close() {
	if t.dir != nil {
		_ = t.dir.Close() // nothing is written through it any more
	}
	t.e.mu.Lock()
	delete(t.e.busy, t.real)
	t.e.mu.Unlock()
}

// allowed asks whether a file may be changed.
func (e *editor) allowed(real, asked string) error {
	if e.deny == nil {
		return nil
	}
	root, err := filepath.EvalSymlinks(e.w.dir)
	if err != nil {
		return wordsOfWrite(asked, err)
	}
	if err := e.deny(filepath.Join(root, filepath.FromSlash(real))); err != nil {
		return fmt.Errorf("%s may not be changed: %w", asked, err)
	}
	return nil
}

// follow returns the path in the workspace that p leads to, links followed. What
// is not there yet is kept as it is.
func (w *Workspace) follow(p string) (string, error) {
	done, rest, links := ".", strings.Split(p, "/"), 0
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", outsideToWrite(p)
		}
		info, err := w.root.Lstat(filepath.FromSlash(next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done = next
			continue
		case err != nil:
			return "", wordsOfWrite(p, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		to, err := w.root.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", wordsOfWrite(p, err)
		}
		if links++; filepath.IsAbs(to) || links > maxLinks {
			return "", outsideToWrite(p)
		}
		rest = append(strings.Split(filepath.ToSlash(to), "/"), rest...)
	}
	return done, nil
}

// enter opens a folder of the workspace step by step. None of them may be a link:
// follow has followed them, and one that has come since is not.
func (w *Workspace) enter(dir string, folders bool) (*os.Root, error) {
	at, err := w.root.OpenRoot(".")
	if err != nil || dir == "." {
		return at, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := step(at, name, folders)
		_ = at.Close() // nothing was written through it
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func step(at *os.Root, name string, folders bool) (*os.Root, error) {
	info, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && folders {
		if err = at.Mkdir(name, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			err = persist(at)
		}
		if err == nil {
			info, err = at.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder", name)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := next.Stat("."); err != nil || !os.SameFile(info, now) {
		_ = next.Close() // it is not what was asked for
		return nil, fmt.Errorf("the folder %s has changed just now; try again", name)
	}
	return next, nil
}

// load reads the file. One that is no text, or not a regular file, is refused.
func (t *target) load() (content, error) {
	info, err := t.dir.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, nil
	case err != nil:
		return content{}, wordsOfWrite(t.path, err)
	case info.IsDir():
		return content{}, fmt.Errorf("%s is a folder; name a file", t.path)
	case !info.Mode().IsRegular():
		return content{}, fmt.Errorf("%s is not a regular file", t.path)
	case info.Mode().Perm()&0o200 == 0:
		return content{}, fmt.Errorf("%s is read-only; it stays as it is", t.path)
	case info.Size() > maxFile:
		return content{}, fmt.Errorf("%s has %d bytes; files over %d MiB are not changed", t.path, info.Size(), maxFile>>20)
	}
	f, err := t.dir.OpenFile(t.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return content{}, wordsOfWrite(t.path, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return content{}, fmt.Errorf("%s has changed just now; try again", t.path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return content{}, wordsOfWrite(t.path, err)
	case kindOf(raw[:min(len(raw), sniffed)]) != "" || bytes.IndexByte(raw, 0) >= 0:
		return content{}, fmt.Errorf("%s is a binary file (%d bytes); this tool changes text only", t.path, info.Size())
	}
	return content{raw, info, true}, nil
}

// store puts a new content in the place of what load has found, if that is still
// there. If it fails the file is as it was.
func (t *target) store(before content, after []byte) (err error) {
	switch {
	case len(after) > maxWritten && len(after) > len(before.raw):
		return fmt.Errorf("that are %d bytes; at most %d MiB are written to one file", len(after), maxWritten>>20)
	case bytes.IndexByte(after, 0) >= 0:
		return fmt.Errorf("the text holds a zero byte; this tool writes text only")
	}
	mode := fs.FileMode(0o644)
	if before.info != nil {
		mode = before.info.Mode().Perm()
	}
	temp := ".hermes-" + rand.Text() + ".tmp"
	f, err := t.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return wordsOfWrite(t.path, err)
	}
	defer func() {
		if err != nil {
			_ = t.dir.Remove(temp) // the first error counts
		}
	}()
	_, err = f.Write(after)
	if err == nil && before.info != nil {
		err = f.Chmod(mode) // what the umask has taken away
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return wordsOfWrite(t.path, err)
	}
	if err := t.still(before); err != nil {
		return err
	}
	if err = t.dir.Rename(temp, t.name); err != nil {
		return wordsOfWrite(t.path, err)
	}
	if err := persist(t.dir); err != nil {
		return fmt.Errorf("%s is changed, but that may not outlast a crash: %w", t.path, reason(err))
	}
	return nil
}

// still reports whether the file is as it was when it was loaded.
func (t *target) still(before content) error {
	now, err := t.load()
	if err != nil {
		return err
	}
	if now.there != before.there || !bytes.Equal(now.raw, before.raw) {
		return fmt.Errorf("somebody else has changed %s just now; read it again and decide anew. Nothing was written", t.path)
	}
	return nil
}

// remove deletes the file that load has found.
func (t *target) remove(before content) error {
	if err := t.still(before); err != nil {
		return err
	}
	if err := t.dir.Remove(t.name); err != nil {
		return wordsOfWrite(t.path, err)
	}
	return persist(t.dir)
}

func (t *target) info() fs.FileInfo {
	info, err := t.dir.Lstat(t.name)
	if err != nil {
		return nil
	}
	return info
}

// persist makes a change of names in a folder outlast a crash, where the system
// can do that.
func persist(dir *os.Root) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func outsideToWrite(p string) error {
	return fmt.Errorf("%s is outside the workspace; only what is inside can be changed", p)
}

// reason is err without paths of the machine.
func reason(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}

// wordsOfWrite says why p was not changed.
func wordsOfWrite(p string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s is not changed: the disk is full. Make room, then try again", p)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is not changed: nothing may be written there", p)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s; search_files finds files by name, write_file makes new ones", p)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not changed: a part of its path is a file, not a folder", p)
	case strings.Contains(err.Error(), "escapes"):
		return outsideToWrite(p)
	}
	return fmt.Errorf("%s is not changed: %w", p, reason(err))
}
