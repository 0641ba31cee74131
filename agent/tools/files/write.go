package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"hermesd/agent/tool"
)

const (
	maxWritten = 4 << 20 // bytes that are written to one file
	bom        = "\ufeff"
)

// Options are what the tools that write are given.
type Options struct {
	// Deny says why a file may not be changed, nil if it may. It gets the absolute
	// path with links followed, whether the file is there or not. nil: nothing in
	// the workspace is denied.
	Deny func(path string) error
}

// Writers returns the tools that change files of the workspace: write_file and
// patch. They see the same folder as Tools, and nothing outside of it. A change
// is on disk when its tool returns, and a file is never seen half written.
func (w *Workspace) Writers(o Options) []tool.Tool {
	e := &editor{w: w, deny: o.Deny, busy: map[string]bool{}}
	writing, patching := spec("write_file"), spec("patch")
	// Written again, a whole file is the same file; a patch would find its old text
	// a second time, or not at all.
	writing.Effect, writing.Parallel = tool.Idempotent, false
	patching.Effect, patching.Parallel = tool.AtMostOnce, false
	return []tool.Tool{tool.New(writing, e.write), tool.New(patching, e.patch)}
}

type writeInput struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
}

// write is the tool write_file.
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
	if before.there && e.w.seen.changed(c.Session, t.path, before.info) {
		return "", fmt.Errorf("%s has changed since you read it; read it again, then decide what to write", t.path)
	}
	after := before.styled(*in.Content)
	if before.there && bytes.Equal(after, before.raw) {
		return fmt.Sprintf("[%s holds exactly this already]", t.path), nil
	}
	if err := t.store(before, after); err != nil {
		return "", err
	}
	e.w.seen.note(c.Session, t.path, t.info())
	if !before.there {
		return fmt.Sprintf("[%s is made: %d bytes]", t.path, len(after)), nil
	}
	return fmt.Sprintf("[%s is written anew: %d bytes]\n%s", t.path, len(after), diff(string(before.raw), string(after))), nil
}

// styled returns content in the style of the file: with its byte order mark and
// its line ends.
func (c content) styled(text string) []byte {
	if c.there && c.crlf() && !strings.Contains(text, "\r\n") {
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
