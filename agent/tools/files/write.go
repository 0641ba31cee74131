package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"hermesd/agent/tool"
)

const (
	maxWritten = 4 << 20 // maximum size of a written file, in bytes
	bom        = "\ufeff"
)

// Options configure the tools that write.
type Options struct {
	// Deny returns why a file may not be changed, nil if it may. It gets the absolute path
	// with symbolic links resolved, whether the file exists or not. nil: nothing in the
	// workspace is denied.
	Deny func(path string) error
	// Homes lists the absolute names of the user's home directory. They matter if the
	// workspace contains it: settings in it need an approval.
	Homes []string
	// Protect returns why a change of a file needs an approval although package protected
	// does not list it, "" if it needs none; nil: never. It gets the absolute path.
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

// write implements write_file.
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
	return fmt.Sprintf("[%s is written anew: %d bytes]\n%s", t.path, len(after), diff(string(before.raw), string(after))), nil
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
