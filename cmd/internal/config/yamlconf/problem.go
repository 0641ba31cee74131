package yamlconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hermesd/internal/secret"
	"hermesd/internal/similar"
)

// A Problem is an error or a warning about the configuration. It never contains a
// secret.
type Problem struct {
	File   string `json:"file,omitempty"` // the file, or "environment", or "flag"
	Line   int    `json:"line,omitempty"` // from 1; 0 where there are no lines
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"` // as it was written: model.base_url, or the name of a variable
	Text   string `json:"text"`
}

func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	return b.String() + p.Text
}

// An Error contains all problems of a configuration in the order of the file.
type Error struct {
	Problems []Problem
}

// shownProblems is the maximum number of problems in an error message.
const shownProblems = 50

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for i, p := range e.Problems {
		if i == shownProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Tidy sorts problems by position, removes duplicates and masks secrets.
func Tidy(ps []Problem, m *secret.Masker) []Problem {
	for i := range ps {
		ps[i].Key, ps[i].Text = m.Mask(ps[i].Key), m.Mask(ps[i].Text)
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(ps)
}

// quote returns an invalid value for an error message, if it is short and plain
// enough not to be a secret.
func quote(s string) string {
	if len(s) > 16 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-+/ ", r))
	}) {
		return "this value"
	}
	return fmt.Sprintf("%q", s)
}

// quoteKey returns a key for an error message, if it looks like one.
func quoteKey(s string) string {
	if s == "" || len(s) > 48 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	}) || len(s) > 24 && strings.ContainsAny(s, "0123456789") {
		return "(a key that is not shown)"
	}
	return s
}

// nearest returns the name most similar to s, or "" if none is similar. It ignores
// case, dashes and underscores.
func nearest(s string, names []string) string {
	best, found := 1+max(1, len(s)/3), ""
	for _, n := range names {
		if d := similar.Distance(plain(s), plain(n)); d < best {
			best, found = d, n
		}
	}
	return found
}

func plain(s string) string { return strings.ToLower(separators.Replace(s)) }

var separators = strings.NewReplacer("-", "", "_", "")

// hint suggests what an unknown key may mean: a similar name in the section, a key
// of the same name elsewhere, or else the known names.
func hint(key string, here []string, everywhere []string) string {
	if n := nearest(key, here); n != "" {
		return "did you mean " + n + "?"
	}
	for _, path := range everywhere {
		if leaf := path[strings.LastIndexByte(path, '.')+1:]; plain(leaf) == plain(key) {
			return "did you mean " + path + "?"
		}
	}
	here = slices.Sorted(slices.Values(here))
	if len(here) > 12 {
		here = append(here[:12:12], "…")
	}
	return "known here: " + strings.Join(here, ", ")
}
