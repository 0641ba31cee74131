package files

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hermesd/agent/protected"
	"hermesd/agent/tool"
)

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
	err := c.User.RequestApproval(ctx, tool.ApprovalRequest{Tool: name, Command: strings.TrimSuffix(shown.String(), "\n"), Reasons: reasons, Shapes: shapes})
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
	if e.protect != nil {
		if reason = e.protect(place); reason != "" {
			return place, reason
		}
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
