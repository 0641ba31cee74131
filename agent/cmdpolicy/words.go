package cmdpolicy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// words returns the values of all words, with braces expanded.
func (e *evaluator) words(list []*syntax.Word) []string {
	var all []string
	for _, w := range list {
		all = append(all, e.word(w)...)
	}
	return all
}

// arguments returns the words of a command, in as many variants as are needed for each word
// to have each of its values once.
func (e *evaluator) arguments(list []*syntax.Word) [][]string {
	var fields [][]string
	variants := 1
	for _, w := range list {
		for _, b := range braces(w) {
			values := e.word(b)
			if len(b.Parts) == 1 && len(values) == 1 {
				if _, ok := b.Parts[0].(*syntax.ParamExp); ok && strings.ContainsAny(values[0], " \t\n") {
					for _, f := range strings.Fields(values[0]) { // split by the shell
						fields = append(fields, []string{f})
					}
					continue
				}
			}
			if p := allOf(b); p != nil && len(values) > 1 { // "${a[@]}"
				for _, v := range values {
					fields = append(fields, []string{v})
				}
				continue
			}
			fields = append(fields, values)
			variants = max(variants, len(values))
		}
	}
	all := make([][]string, variants)
	for i := range all {
		for _, f := range fields {
			all[i] = append(all[i], f[min(i, len(f)-1)])
		}
	}
	return all
}

// allOf returns the parameter of a word that stands for all elements of an array.
func allOf(w *syntax.Word) *syntax.ParamExp {
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	if p, ok := part.(*syntax.ParamExp); ok && len(w.Parts) == 1 && p.Index != nil {
		return p
	}
	return nil
}

// braces expands the braces of a word, unless there are too many.
func braces(w *syntax.Word) []*syntax.Word {
	text := 0
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			if strings.Contains(l.Value, "..") && strings.Contains(l.Value, "{") {
				return []*syntax.Word{w} // a sequence of any length
			}
			text += strings.Count(l.Value, "{")
		}
	}
	if text == 0 || text > 3 {
		return []*syntax.Word{w}
	}
	split := &syntax.Word{Parts: slices.Clone(w.Parts)}
	syntax.SplitBraces(split)
	var all []*syntax.Word
	for b, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(all) > maxBraces {
			return []*syntax.Word{w}
		}
		all = append(all, b)
	}
	return all
}

// word returns the values that a word may have. It is nil for an element of an array
// without a value.
func (e *evaluator) word(w *syntax.Word) []string {
	values := []string{""}
	if w == nil {
		return values
	}
	for _, p := range w.Parts {
		values = e.join(values, p, false)
	}
	return values
}

// join appends the values of a part of a word to each of values.
func (e *evaluator) join(values []string, p syntax.WordPart, quoted bool) []string {
	tails := []string{hole}
	switch x := p.(type) {
	case *syntax.Lit:
		tails[0] = unescape(x.Value, quoted)
	case *syntax.SglQuoted:
		if tails[0] = x.Value; x.Dollar && strings.Contains(x.Value, `\`) {
			tails[0] = hole
			if s, _, err := expand.Format(nil, x.Value, nil); err == nil {
				tails[0] = s
			}
		}
	case *syntax.DblQuoted:
		for _, q := range x.Parts {
			values = e.join(values, q, true)
		}
		return values
	case *syntax.ParamExp:
		tails = e.parameter(x)
	case *syntax.ArithmExp:
		tails[0] = "0"
	case *syntax.ProcSubst:
		tails[0] = "/dev/fd/63"
	case *syntax.CmdSubst: // known if it is one word that is no path, or a list of files below this directory
		if v, ok := e.substituted[x]; ok {
			tails[0] = v
		}
	}
	var all []string
	for _, v := range values {
		for _, t := range tails {
			if all = append(all, v+t); len(all) > maxValues {
				return []string{hole}
			}
		}
	}
	return all
}

// unescape removes the backslashes of a literal.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parameter returns the values of a variable in a word.
func (e *evaluator) parameter(x *syntax.ParamExp) []string {
	if x.Param == nil {
		return []string{hole}
	}
	values, ok := e.vars[x.Param.Value]
	switch {
	case x.Length, x.Width:
		return []string{"0"}
	case !ok, x.Excl, x.Slice != nil, x.Repl != nil, x.Names != 0:
		return []string{hole}
	case x.Exp == nil:
		return values
	}
	switch x.Exp.Op { // what is left of a name below this directory is below it too
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if !slices.ContainsFunc(values, func(v string) bool {
			return strings.ContainsAny(v, "~"+hole) || strings.HasPrefix(v, "/") || strings.Contains(v, "..")
		}) {
			return values
		}
	}
	return []string{hole}
}
