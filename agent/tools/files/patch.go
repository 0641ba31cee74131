package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"hermesd/agent/tool"
)

type patchInput struct {
	Mode  string  `json:"mode"`
	Path  string  `json:"path"`
	Old   string  `json:"old_string"`
	New   *string `json:"new_string"`
	All   bool    `json:"replace_all"`
	Patch string  `json:"patch"`
}

func (e *editor) patch(ctx context.Context, c tool.Call, in patchInput) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	switch {
	case in.Mode == "patch" || in.Mode == "" && in.Patch != "":
		return e.patchFiles(ctx, c, in.Patch)
	case in.Mode != "" && in.Mode != "replace":
		return "", fmt.Errorf("there is no mode %q; use replace or patch", in.Mode)
	case in.Path == "":
		return "", fmt.Errorf("a path is needed")
	case in.Old == "":
		return "", fmt.Errorf("an old_string is needed; to write a whole file use write_file")
	case in.New == nil:
		return "", fmt.Errorf("a new_string is needed; an empty one takes the old text out")
	case in.Old == *in.New:
		return "", fmt.Errorf("old_string and new_string are the same")
	}
	t, err := e.target(in.Path, false)
	if err != nil {
		return "", err
	}
	defer t.close()
	before, err := t.load()
	switch {
	case err != nil:
		return "", err
	case !before.exists:
		return "", fmt.Errorf("there is no file %s; search_files finds files by name, write_file makes new ones", t.path)
	}
	after, note, err := before.replace(in.Old, *in.New, in.All)
	if err != nil {
		return "", fmt.Errorf("%s is not changed: %w", t.path, err)
	}
	if err := e.authorize(ctx, c, "patch", preparedChange{target: t, before: before, after: after}); err != nil {
		return "", err
	}
	if err := t.store(before, after); err != nil {
		return "", err
	}
	e.w.seen.record(c.Session, t.path, t.info())
	return fmt.Sprintf("[%s is changed%s]\n%s", t.path, note, diff(string(before.raw), string(after))), nil
}

// stripStyle returns the text of a file without byte order mark and with LF line ends, and a
// function that restores both.
func (c content) stripStyle() (string, func(string) []byte) {
	raw, lead := string(c.raw), ""
	if rest, ok := strings.CutPrefix(raw, bom); ok {
		raw, lead = rest, bom
	}
	if !c.crlf() {
		return raw, func(s string) []byte { return []byte(lead + s) }
	}
	return strings.ReplaceAll(raw, "\r\n", "\n"), func(s string) []byte {
		return []byte(lead + strings.ReplaceAll(s, "\n", "\r\n"))
	}
}

// replace returns the file with old replaced by text, and a note on how old was matched.
func (c content) replace(old, text string, all bool) (after []byte, note string, err error) {
	file, style := c.stripStyle()
	if c.crlf() {
		old, text = strings.ReplaceAll(old, "\r\n", "\n"), strings.ReplaceAll(text, "\r\n", "\n")
	}
	old = strings.TrimPrefix(old, bom)
	if old == "" {
		return nil, "", errors.New("the old text is nothing but a byte order mark")
	}
	spans, how := find(file, old, text)
	switch {
	case len(spans) == 0:
		near := nearest(file, old)
		if near == "" {
			return nil, "", errors.New("the old text does not stand there, and nothing like it; read the file and copy the text exactly")
		}
		return nil, "", fmt.Errorf("the old text does not stand there. These lines are the nearest; copy the text exactly:\n%s", near)
	case len(spans) > 1 && !all:
		return nil, "", fmt.Errorf("the old text stands there %d times, at the lines %s; give more of what is around it, or set replace_all", len(spans), lineNumbers(file, spans))
	}
	spans = withoutOverlaps(spans)
	if how != "" {
		note = "; found " + how
	}
	if len(spans) > 1 {
		note += fmt.Sprintf("; places: %d", len(spans))
	}
	after = style(replaceSpans(file, spans))
	if bytes.Equal(after, c.raw) {
		return nil, "", errors.New("the new text stands there already")
	}
	return after, note, nil
}
