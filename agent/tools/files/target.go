package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"hermesd/agent/protected"
	"hermesd/agent/tool"
)

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

const (
	maxRequest = 16 << 10 // bytes of a change that an approval request shows
	maxShape   = 300      // bytes of the shape of an approval
)

// authorize returns nil if the changes may be written: none of them is protected, or a user
// has approved exactly these.
func (e *editor) authorize(ctx context.Context, c tool.Call, name string, changes ...preparedChange) error {
	var reasons, files, others []string
	var shown strings.Builder
	for _, s := range changes {
		place, reason := e.protection(s)
		if reason == "" {
			others = append(others, printable(s.target.path))
			continue
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		if file := "change-file:" + place; !slices.Contains(files, file) {
			files = append(files, file)
		}
		shown.WriteString(s.request(name))
	}
	if len(reasons) == 0 {
		return nil
	}
	if len(others) > 0 {
		fmt.Fprintf(&shown, "%s also: %s\n", name, strings.Join(others, ", "))
	}
	slices.Sort(files)
	shapes := []string{strings.Join(files, "\n")}
	if s := shapes[0]; len(s) > maxShape || s != printable(s) || strings.Count(s, "\n") != len(files)-1 {
		shapes = nil // it could not be shown, or be the shape of other files
	}
	err := c.User.Approve(ctx, tool.ApprovalRequest{Tool: name, Command: strings.TrimSuffix(shown.String(), "\n"), Reasons: reasons, Shapes: shapes})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, tool.ErrUnattended):
		return fmt.Errorf("nothing is written: %s, which needs an approval, and nobody is there to give it in this turn; say what should be changed", strings.Join(reasons, "; "))
	case err != nil:
		return fmt.Errorf("nothing is written, because it needs an approval (%s): %w", strings.Join(reasons, "; "), err)
	}
	return nil
}

// protection returns the absolute path of the changed file and why the change needs an
// approval, "" if it needs none.
func (e *editor) protection(s preparedChange) (place, reason string) {
	root, err := filepath.EvalSymlinks(e.w.dir)
	if err != nil {
		root = e.w.dir // the file is opened in it anyway
	}
	place = filepath.ToSlash(filepath.Join(root, filepath.FromSlash(s.target.real)))
	if reason = protected.Path(place); reason != "" {
		return place, reason
	}
	if reason = e.protect(place); reason != "" {
		return place, reason
	}
	for _, home := range e.homes {
		rel, err := filepath.Rel(home, filepath.FromSlash(place))
		if err != nil || !filepath.IsLocal(rel) || !isIn(root, home) {
			continue
		}
		if reason = protected.Path("~/" + filepath.ToSlash(rel)); reason != "" {
			return place, reason
		}
	}
	if s.remove {
		return place, ""
	}
	return place, protected.Manifest(place, s.before.raw, s.after)
}

func isIn(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// request describes the change for an approval request: the file, where a symbolic link
// leads, and the difference.
func (s preparedChange) request(name string) string {
	var b strings.Builder
	b.WriteString(name + " " + printable(s.target.path))
	if s.target.real != s.target.path {
		b.WriteString(" (it leads to " + printable(s.target.real) + ")")
	}
	if s.remove {
		b.WriteString(": it is deleted")
	}
	b.WriteString("\n")
	text := printable(difference(string(s.before.raw), string(s.after), len(s.before.raw)+len(s.after), maxRequest))
	if len(text) > maxRequest {
		fmt.Fprintf(&b, "[only the first %d of %d bytes of the change are shown]\n", maxRequest, len(text))
		text = strings.ToValidUTF8(text[:maxRequest], "")
	}
	b.WriteString(text + "\n")
	return b.String()
}

// printable returns s with characters that are not seen as what they are in escaped form.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
