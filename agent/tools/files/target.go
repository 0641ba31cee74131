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
	w     *Workspace
	deny  func(string) error
	homes []string
	// protect is Options.Protect.
	protect func(path string) string

	mu   sync.Mutex // guards what follows
	busy map[string]bool
}

// A target is a file to be changed: its open directory, nil if store has to create it, and
// its name there. There is no symbolic link between the two.
type target struct {
	e    *editor
	dir  *os.Root
	name string
	path string // as shown to the model
	real string // in the workspace, symbolic links resolved
}

// A content is the content of a file when it was loaded.
type content struct {
	raw    []byte
	info   fs.FileInfo // of the file whose mode is kept, nil for the default mode
	exists bool
}

const maxLinks = 40

// target opens the directory of a file. With folders, the directory may be missing. It fails
// if another call is changing the file, or if the file is denied.
func (e *editor) target(p string, folders bool) (*target, error) {
	asked, err := e.w.relative(p)
	switch {
	case err != nil:
		return nil, errOutsideWrite(p)
	case asked == "." || strings.HasSuffix(p, "/"):
		return nil, fmt.Errorf("%s is a folder; name a file", p)
	}
	real, err := e.w.follow(asked)
	if err != nil {
		return nil, err
	}
	if err := e.checkDenied(real, asked); err != nil {
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
	if t.dir, err = e.w.openDir(path.Dir(real), false); err != nil && (!folders || !errors.Is(err, fs.ErrNotExist)) {
		t.close()
		return nil, writeError(asked, err)
	}
	return t, nil
}

func (t *target) close() {
	if t.dir != nil {
		_ = t.dir.Close() // all writes were synced
	}
	t.e.mu.Lock()
	delete(t.e.busy, t.real)
	t.e.mu.Unlock()
}

// checkDenied returns an error if the file must not be changed.
func (e *editor) checkDenied(real, asked string) error {
	if e.deny == nil {
		return nil
	}
	root, err := filepath.EvalSymlinks(e.w.dir)
	if err != nil {
		return writeError(asked, err)
	}
	if err := e.deny(filepath.Join(root, filepath.FromSlash(real))); err != nil {
		return fmt.Errorf("%s may not be changed: %w", asked, err)
	}
	return nil
}

// follow returns the path in the workspace to which p leads, with symbolic links resolved.
// Missing parts are kept unchanged.
func (w *Workspace) follow(p string) (string, error) {
	done, rest, links := ".", strings.Split(p, "/"), 0
	for len(rest) > 0 {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", errOutsideWrite(p)
		}
		info, err := w.root.Lstat(filepath.FromSlash(next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			done = next
			continue
		case err != nil:
			return "", writeError(p, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		to, err := w.root.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", writeError(p, err)
		}
		if links++; filepath.IsAbs(to) || links > maxLinks {
			return "", errOutsideWrite(p)
		}
		rest = append(strings.Split(filepath.ToSlash(to), "/"), rest...)
	}
	return done, nil
}

// openDir opens a directory of the workspace step by step. No step may be a symbolic link:
// follow has resolved them, and a link created since then is rejected.
func (w *Workspace) openDir(dir string, folders bool) (*os.Root, error) {
	at, err := w.root.OpenRoot(".")
	if err != nil || dir == "." {
		return at, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := openStep(at, name, folders)
		_ = at.Close() // nothing was written
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func openStep(at *os.Root, name string, folders bool) (*os.Root, error) {
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
		_ = next.Close() // not the directory that was checked
		return nil, fmt.Errorf("the folder %s has changed just now; try again", name)
	}
	return next, nil
}

// load reads the file. It rejects files that are not regular text files.
func (t *target) load() (content, error) {
	if t.dir == nil {
		return content{}, nil
	}
	info, err := t.dir.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, nil
	case err != nil:
		return content{}, writeError(t.path, err)
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
		return content{}, writeError(t.path, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return content{}, fmt.Errorf("%s has changed just now; try again", t.path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return content{}, writeError(t.path, err)
	case kindOf(raw[:min(len(raw), sniffLen)]) != "" || bytes.IndexByte(raw, 0) >= 0:
		return content{}, fmt.Errorf("%s is a binary file (%d bytes); this tool changes text only", t.path, info.Size())
	}
	return content{raw, info, true}, nil
}

// store replaces the content that load found, if the file still has it. If it fails, the
// file is unchanged.
func (t *target) store(before content, after []byte) (err error) {
	switch {
	case len(after) > maxWritten && len(after) > len(before.raw):
		return fmt.Errorf("that are %d bytes; at most %d MiB are written to one file", len(after), maxWritten>>20)
	case bytes.IndexByte(after, 0) >= 0:
		return fmt.Errorf("the text holds a zero byte; this tool writes text only")
	}
	if t.dir == nil {
		if t.dir, err = t.e.w.openDir(path.Dir(t.real), true); err != nil {
			return writeError(t.path, err)
		}
	}
	mode := fs.FileMode(0o644)
	if before.info != nil {
		mode = before.info.Mode().Perm()
	}
	temp := ".hermes-" + rand.Text() + ".tmp"
	f, err := t.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return writeError(t.path, err)
	}
	defer func() {
		if err != nil {
			_ = t.dir.Remove(temp) // the first error is returned
		}
	}()
	_, err = f.Write(after)
	if err == nil && before.info != nil {
		err = f.Chmod(mode) // undoes the umask
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return writeError(t.path, err)
	}
	if err := t.checkUnchanged(before); err != nil {
		return err
	}
	if err = t.dir.Rename(temp, t.name); err != nil {
		return writeError(t.path, err)
	}
	if err := persist(t.dir); err != nil {
		return fmt.Errorf("%s is changed, but that may not outlast a crash: %w", t.path, bareError(err))
	}
	return nil
}

// checkUnchanged returns an error unless the file has the content that was loaded.
func (t *target) checkUnchanged(before content) error {
	now, err := t.load()
	if err != nil {
		return err
	}
	if now.exists != before.exists || !bytes.Equal(now.raw, before.raw) {
		return fmt.Errorf("somebody else has changed %s just now; read it again and decide then. Nothing was written", t.path)
	}
	return nil
}

// remove deletes the file if it still has the loaded content.
func (t *target) remove(before content) error {
	if err := t.checkUnchanged(before); err != nil {
		return err
	}
	if err := t.dir.Remove(t.name); err != nil {
		return writeError(t.path, err)
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

// persist syncs a directory, so that changed names survive a crash, where the system
// supports it.
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

func errOutsideWrite(p string) error {
	return fmt.Errorf("%s is outside the workspace; only what is inside can be changed", p)
}

// bareError returns err without paths.
func bareError(err error) error {
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

// writeError describes for the model why p was not changed.
func writeError(p string, err error) error {
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
		return errOutsideWrite(p)
	}
	return fmt.Errorf("%s is not changed: %w", p, bareError(err))
}
