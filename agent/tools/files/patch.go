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

const maxFiles = 50 // files in one patch

type change struct {
	op    string // update, add, delete, move
	path  string
	to    string // of a move
	hunks []hunk
	text  string // of an add
}

// A hunk replaces some lines. Each line in anchors must occur, in order, before the
// replaced lines.
type hunk struct {
	anchors  []string
	old, new []string
}

// parsePatch parses a patch from *** Begin Patch to *** End Patch. Both markers may be
// missing.
func parsePatch(src string) ([]change, error) {
	var out []change
	verbs := map[string]string{"*** Update File: ": "update", "*** Add File: ": "add", "*** Delete File: ": "delete", "*** Move File: ": "move"}
	fresh := true // the next line begins a hunk
lines:
	for n, l := range strings.Split(strings.TrimRight(strings.ReplaceAll(src, "\r\n", "\n"), "\n"), "\n") {
		for prefix, op := range verbs {
			p, ok := strings.CutPrefix(l, prefix)
			if !ok {
				continue
			}
			c := change{op: op, path: strings.TrimSpace(p)}
			if op == "move" {
				c.path, c.to, ok = strings.Cut(c.path, " -> ")
				if !ok {
					return nil, fmt.Errorf("line %d of the patch: a move is written *** Move File: PATH -> PATH", n+1)
				}
			}
			out, fresh = append(out, c), true
			continue lines
		}
		switch {
		case strings.HasPrefix(l, "*** End Patch"):
			break lines
		case strings.HasPrefix(l, "*** Begin Patch"), strings.HasPrefix(l, "*** End of File"), len(out) == 0 && strings.TrimSpace(l) == "":
			continue
		case len(out) == 0:
			return nil, fmt.Errorf("line %d of the patch: a file is named first, as in *** Update File: PATH", n+1)
		}
		if err := out[len(out)-1].line(l, &fresh); err != nil {
			return nil, fmt.Errorf("line %d of the patch: %w", n+1, err)
		}
	}
	switch {
	case len(out) == 0:
		return nil, errors.New("a patch is needed, with *** Update File: PATH, *** Add File: PATH or *** Delete File: PATH")
	case len(out) > maxFiles:
		return nil, fmt.Errorf("at most %d files are changed by one patch", maxFiles)
	}
	return out, nil
}

func (c *change) line(l string, fresh *bool) error {
	if to, ok := strings.CutPrefix(l, "*** Move to: "); ok && c.op == "update" {
		c.to = strings.TrimSpace(to)
		return nil
	}
	switch c.op {
	case "add":
		rest, ok := strings.CutPrefix(l, "+")
		if !ok {
			return errors.New("each line of a new file begins with +")
		}
		c.text += rest + "\n"
		return nil
	case "delete", "move":
		if strings.TrimSpace(l) != "" {
			return fmt.Errorf("nothing belongs below a %s", c.op)
		}
		return nil
	}
	if at, ok := strings.CutPrefix(l, "@@"); ok {
		at = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(at), "@@"))
		if last := len(c.hunks) - 1; *fresh || last < 0 || len(c.hunks[last].old)+len(c.hunks[last].new) > 0 {
			c.hunks = append(c.hunks, hunk{})
		}
		if h := &c.hunks[len(c.hunks)-1]; at != "" && !strings.HasPrefix(at, "-") {
			h.anchors = append(h.anchors, at)
		}
		*fresh = false
		return nil
	}
	if *fresh {
		c.hunks, *fresh = append(c.hunks, hunk{}), false
	}
	h := &c.hunks[len(c.hunks)-1]
	switch {
	case l == "":
		h.old, h.new = append(h.old, ""), append(h.new, "")
	case l[0] == ' ':
		h.old, h.new = append(h.old, l[1:]), append(h.new, l[1:])
	case l[0] == '-':
		h.old = append(h.old, l[1:])
	case l[0] == '+':
		h.new = append(h.new, l[1:])
	default:
		return errors.New("a line of a hunk begins with a space, - or +")
	}
	return nil
}

// findExact finds exact matches of the old lines of a hunk.
func (h hunk) findExact(file string) []span {
	old, text := strings.Join(h.old, "\n")+"\n", strings.Join(h.new, "\n")+"\n"
	if len(h.new) == 0 {
		text = ""
	}
	padded := file
	if !strings.HasSuffix(file, "\n") {
		padded += "\n"
	}
	var out []span
	for _, s := range findExact("\n"+padded, "\n"+old, text) {
		s.to = min(s.to-1, len(file))
		if s.to == len(file) && padded != file {
			s.text = strings.TrimSuffix(s.text, "\n")
		}
		out = append(out, s)
	}
	return out
}

// apply returns a file with the hunks of an update applied, in order.
func (c change) apply(file string) (string, error) {
	done := "" // text before the place at which the search for the next hunk starts
	for n, h := range c.hunks {
		for _, b := range h.anchors {
			spans := byLines(file, b, "", strings.TrimSpace)
			if len(spans) == 0 {
				return "", fmt.Errorf("hunk %d: there is no line %q to look behind", n+1, b)
			}
			done, file = done+file[:spans[0].to], file[spans[0].to:]
		}
		if len(h.old) == 0 { // insertion only
			text := strings.Join(h.new, "\n") + "\n"
			if len(h.anchors) > 0 {
				file = text + file
			} else {
				if file != "" && !strings.HasSuffix(file, "\n") {
					file += "\n"
				}
				file += text
			}
			continue
		}
		old, text := strings.Join(h.old, "\n"), strings.Join(h.new, "\n")
		spans := h.findExact(file)
		for i := 0; i < len(matchRules) && len(spans) == 0; i++ {
			spans = byLines(file, old, text, matchRules[i].form)
		}
		switch {
		case len(spans) == 0:
			return "", fmt.Errorf("hunk %d: its lines do not stand there. Nearest:\n%s", n+1, nearest(done+file, old))
		case len(spans) > 1 && len(h.anchors) == 0:
			return "", fmt.Errorf("hunk %d: its lines stand there %d times, at the lines %s; give more context, or a line to look behind after @@", n+1, len(spans), lineNumbers(done+file, spans))
		}
		s := spans[0]
		done, file = done+file[:s.from]+s.text, file[s.to:]
	}
	return done + file, nil
}

// A preparedChange is a checked change of one file that only has to be written.
type preparedChange struct {
	target        *target
	before        content
	after         []byte
	remove, isNew bool
}

// patchFiles changes several files. Everything is checked before anything is written.
func (e *editor) patchFiles(ctx context.Context, call tool.Call, src string) (string, error) {
	changes, err := parsePatch(src)
	if err != nil {
		return "", err
	}
	var steps []preparedChange
	defer func() {
		for _, s := range steps {
			s.target.close()
		}
	}()
	for _, c := range changes {
		add, err := e.plan(c)
		steps = append(steps, add...)
		if err != nil {
			return "", fmt.Errorf("nothing is changed: %w", err)
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := e.authorize(ctx, call, "patch", steps...); err != nil {
		return "", err
	}
	var out strings.Builder
	for i, s := range steps {
		if err := s.run(); err != nil {
			if i == 0 {
				return "", err
			}
			return "", fmt.Errorf("%w. The patch stopped there; before that it has done:\n%s", err, strings.TrimSpace(out.String()))
		}
		e.w.seen.record(call.Session, s.target.path, s.target.info())
		out.WriteString(s.summary())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func (s preparedChange) run() error {
	if s.remove {
		return s.target.remove(s.before)
	}
	return s.target.store(s.before, s.after)
}

func (s preparedChange) summary() string {
	switch {
	case s.remove:
		return fmt.Sprintf("[%s is deleted]\n", s.target.path)
	case s.isNew:
		return fmt.Sprintf("[%s is made: %d bytes]\n", s.target.path, len(s.after))
	}
	return fmt.Sprintf("[%s is changed]\n%s\n", s.target.path, diff(string(s.before.raw), string(s.after)))
}

// plan returns the steps of one change. Opened targets are returned also with an error.
func (e *editor) plan(c change) ([]preparedChange, error) {
	t, err := e.target(c.path, c.op == "add")
	if err != nil {
		return nil, err
	}
	steps := []preparedChange{{target: t}}
	s := &steps[0]
	if s.before, err = t.load(); err != nil {
		return steps, err
	}
	switch {
	case c.op == "add" && s.before.exists:
		return steps, fmt.Errorf("%s is there already; use *** Update File", t.path)
	case c.op == "add":
		s.after, s.isNew = []byte(c.text), true
		return steps, nil
	case !s.before.exists:
		return steps, fmt.Errorf("there is no file %s; search_files finds files by name", t.path)
	case c.op == "delete":
		s.remove = true
		return steps, nil
	case c.op == "update" && len(c.hunks) == 0 && c.to == "":
		return steps, fmt.Errorf("the update of %s has no hunk", t.path)
	}
	text, style := s.before.stripStyle()
	if text, err = c.apply(text); err != nil {
		return steps, fmt.Errorf("%s: %w", t.path, err)
	}
	s.after = style(text)
	if c.to == "" {
		return steps, nil
	}
	return e.moveSteps(c.to, *s)
}

// moveSteps returns the steps that write the result of a step to another path.
func (e *editor) moveSteps(to string, s preparedChange) ([]preparedChange, error) {
	from := preparedChange{target: s.target, before: s.before, remove: true}
	t, err := e.target(to, true)
	if err != nil {
		return []preparedChange{from}, err
	}
	place := preparedChange{target: t, after: s.after, isNew: true}
	steps := []preparedChange{place, from} // written before the old file is removed
	if place.before, err = t.load(); err != nil {
		return steps, err
	}
	if place.before.exists {
		return steps, fmt.Errorf("%s is there already; nothing is moved over it", t.path)
	}
	steps[0].before.info = s.before.info // keeps the file mode
	return steps, nil
}
