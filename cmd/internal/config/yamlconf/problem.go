package yamlconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hermesd/internal/secret"
)

// A Problem is one thing that is wrong with the configuration, or, as a
// warning, that the operator should know. It never shows a secret.
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

// An Error is everything that is wrong with a configuration, in the order of
// the file.
type Error struct {
	Problems []Problem
}

// shownProblems bounds how many problems one error message spells out.
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

// Tidy sorts problems by place, takes out what is said twice, and masks what
// must not be seen.
func Tidy(ps []Problem, m *secret.Masker) []Problem {
	for i := range ps {
		ps[i].Key, ps[i].Text = m.Mask(ps[i].Key), m.Mask(ps[i].Text)
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(ps)
}

// quote shows a value that stands where it cannot stand, if it is short and
// plain enough not to be a secret.
func quote(s string) string {
	if len(s) > 16 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-+/ ", r))
	}) {
		return "this value"
	}
	return fmt.Sprintf("%q", s)
}

// quoteKey shows a key, if it looks like one.
func quoteKey(s string) string {
	if s == "" || len(s) > 48 || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	}) || len(s) > 24 && strings.ContainsAny(s, "0123456789") {
		return "(a key that is not shown)"
	}
	return s
}
