// Package files implements the file tools: read_file and search_files read files,
// write_file and patch change them. Their main type is Workspace. The tools are confined to
// it: neither "..", nor an absolute path, nor a symbolic link leads out. They are safe for
// concurrent use.
package files

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"hermesd/agent/tool"
)

//go:embed *.md *.json
var texts embed.FS

// A Workspace is a directory in which the tools work.
type Workspace struct {
	root *os.Root
	dir  string
	seen readState
}

// Open opens the workspace at dir, which must be a directory.
func Open(dir string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &Workspace{root: root, dir: abs}, nil
}

// Close closes the workspace; its tools then fail.
func (w *Workspace) Close() error { return w.root.Close() }

// Tools returns the tools that read the workspace. Writers returns those that change it.
func (w *Workspace) Tools() []tool.Tool {
	return []tool.Tool{
		tool.New(spec("read_file"), w.read),
		tool.New(spec("search_files"), w.search),
	}
}

func spec(name string) tool.Spec {
	return tool.Spec{
		Tool:   tool.Definition(texts, name),
		Effect: tool.Pure, Parallel: true,
	}
}

// relative returns p relative to the workspace. An absolute path is accepted if it is inside.
func (w *Workspace) relative(p string) (string, error) {
	if strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("the path holds a character that no path can hold")
	}
	if filepath.IsAbs(p) {
		rel, err := filepath.Rel(w.dir, p)
		if err != nil {
			return "", errOutside(p)
		}
		p = rel
	}
	p = path.Clean(filepath.ToSlash(p))
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", errOutside(p)
	}
	return p, nil
}

func errOutside(p string) error {
	return fmt.Errorf("%s is outside the workspace; only what is inside can be read", p)
}

// readError describes for the model why p could not be read, without paths outside the
// workspace.
func readError(p string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s; search_files finds files by name", p)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be read", p)
	case errors.As(err, &pe) && strings.Contains(pe.Err.Error(), "escapes"):
		return errOutside(p)
	case errors.As(err, &pe):
		return fmt.Errorf("%s cannot be read: %w", p, pe.Err)
	}
	return fmt.Errorf("%s cannot be read: %w", p, err)
}

// open opens a regular file. It does not block on a named pipe.
func (w *Workspace) open(p string) (*os.File, fs.FileInfo, error) {
	f, err := w.root.OpenFile(filepath.FromSlash(p), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, readError(p, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = readError(p, err)
	case info.IsDir():
		err = fmt.Errorf("%s is a folder; search_files with a name such as * lists files", p)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", p)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// sniffLen is the number of bytes at the beginning of a file that decide whether it is text.
const sniffLen = 8000

// sniff returns the type of f, "" if it is text. f is at its beginning afterwards.
func sniff(f *os.File) (kind string, err error) {
	buf := make([]byte, sniffLen)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return kindOf(buf[:n]), nil
}

// kindOf returns the type of a file that begins with data, "" if it is text.
func kindOf(data []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if strings.HasPrefix(kind, "image/") {
		return kind
	}
	bad := 0
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == 0:
			return "binary"
		case r == utf8.RuneError && n == 1 && len(rest) >= utf8.UTFMax:
			bad++
		}
		rest = rest[n:]
	}
	if bad*10 > len(data) {
		return "binary"
	}
	return ""
}

const (
	maxWritten = 4 << 20 // maximum size of a written file, in bytes
	bom        = "\ufeff"
)

// Options configure the tools that write. The functions are required.
type Options struct {
	// Deny returns why a file may not be changed, nil if it may. It gets the absolute path
	// with symbolic links resolved, whether the file exists or not.
	Deny func(path string) error
	// Homes lists the absolute names of the user's home directory. They matter if the
	// workspace contains it: settings in it need an approval.
	Homes []string
	// Protect returns why a change of a file needs an approval although package protected
	// does not list it, "" if it needs none. It gets the absolute path.
	Protect func(path string) string
}

// Writers returns the tools that change files of the workspace: write_file and patch. They
// are confined to the same directory as Tools. A change is on disk when its tool returns,
// and no reader sees a partly written file. A change of a file that package protected lists
// needs an approval by a user.
func (w *Workspace) Writers(o Options) []tool.Tool {
	e := &editor{w: w, deny: o.Deny, homes: o.Homes, protect: o.Protect, busy: map[string]bool{}}
	writing, patching := spec("write_file"), spec("patch")
	// Writing a whole file twice has the same result; a second patch would find its old
	// text again, or not at all.
	writing.Effect, writing.Parallel = tool.Idempotent, false
	patching.Effect, patching.Parallel = tool.AtMostOnce, false
	return []tool.Tool{tool.New(writing, e.write), tool.New(patching, e.patch)}
}

type writeInput struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
}

func (e *editor) write(ctx context.Context, c tool.Call, in writeInput) (string, error) {
	switch {
	case in.Path == "":
		return "", fmt.Errorf("a path is needed")
	case in.Content == nil:
		return "", fmt.Errorf("a content is needed; an empty one makes an empty file")
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	t, err := e.target(in.Path, true)
	if err != nil {
		return "", err
	}
	defer t.close()
	before, err := t.load()
	if err != nil {
		return "", err
	}
	if before.exists && e.w.seen.changed(c.Session, t.path, before.info) {
		return "", fmt.Errorf("%s has changed since you read it; read it again, then decide what to write", t.path)
	}
	after := before.applyStyle(*in.Content)
	if before.exists && bytes.Equal(after, before.raw) {
		return fmt.Sprintf("[%s holds exactly this already]", t.path), nil
	}
	if err := e.authorize(ctx, c, "write_file", preparedChange{target: t, before: before, after: after}); err != nil {
		return "", err
	}
	if err := t.store(before, after); err != nil {
		return "", err
	}
	e.w.seen.record(c.Session, t.path, t.info())
	if !before.exists {
		return fmt.Sprintf("[%s is made: %d bytes]", t.path, len(after)), nil
	}
	return fmt.Sprintf("[%s is rewritten: %d bytes]\n%s", t.path, len(after), diff(string(before.raw), string(after))), nil
}

// applyStyle returns text in the style of the file: with its byte order mark and line ends.
func (c content) applyStyle(text string) []byte {
	if c.exists && c.crlf() && !strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if bytes.HasPrefix(c.raw, []byte(bom)) && !strings.HasPrefix(text, bom) {
		text = bom + text
	}
	return []byte(text)
}

// crlf reports whether every line of the file ends in CRLF.
func (c content) crlf() bool {
	n := bytes.Count(c.raw, []byte("\n"))
	return n > 0 && bytes.Count(c.raw, []byte("\r\n")) == n
}
