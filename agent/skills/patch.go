package skills

import (
	"errors"
	"fmt"
	"strings"
)

// A Replacement replaces Old by New.
type Replacement struct {
	Old, New   string
	Everywhere bool // Old may occur more than once
}

// apply returns text with the replacement made, and the number of replacements.
// If Old does not occur exactly, lines that differ from it only in their
// spacing are replaced.
func (r Replacement) apply(text string) (string, int, error) {
	if strings.TrimSpace(r.Old) == "" {
		return "", 0, errors.New("say which text is to be replaced")
	}
	if r.Old == r.New {
		return "", 0, errors.New("the old and the new text are the same")
	}
	n := strings.Count(text, r.Old)
	switch {
	case n > 1 && !r.Everywhere:
		return "", 0, fmt.Errorf("the text to be replaced stands there %d times; give more of what is around it, or replace all", n)
	case n > 0:
		return strings.ReplaceAll(text, r.Old, r.New), n, nil
	}
	return r.applyByLines(text)
}

func (r Replacement) applyByLines(text string) (string, int, error) {
	lines, want := strings.Split(text, "\n"), strings.Split(strings.Trim(r.Old, "\r\n"), "\n")
	var out []string
	n := 0
	for i := 0; i < len(lines); {
		if !equalIgnoringSpace(lines[i:], want) {
			out = append(out, lines[i])
			i++
			continue
		}
		if n++; r.New != "" {
			out = append(out, strings.Trim(r.New, "\r\n"))
		}
		i += len(want)
	}
	switch {
	case n == 0:
		return "", 0, errors.New("the text to be replaced does not stand there; look at the file with skill_view and copy it exactly")
	case n > 1 && !r.Everywhere:
		return "", 0, fmt.Errorf("%d places are like the text to be replaced; give more of what is around it, or replace all", n)
	}
	return strings.Join(out, "\n"), n, nil
}

// equalIgnoringSpace reports whether lines begin with want, ignoring spacing.
func equalIgnoringSpace(lines, want []string) bool {
	if len(lines) < len(want) {
		return false
	}
	for i, w := range want {
		if oneLine(lines[i]) != oneLine(w) {
			return false
		}
	}
	return true
}
