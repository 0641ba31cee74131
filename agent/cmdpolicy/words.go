package cmdpolicy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// words returns the words that the shell makes of a list, as often as is needed for each
// variable in it to have each of its values once.
func (e *evaluator) words(list ...*syntax.Word) (all [][]string) {
	e.variants = 1
	for e.variant = 0; e.variant < e.variants; e.variant++ {
		fields := make([]string, 0, len(list))
		for _, w := range list {
			if word, ok := e.plain(w.Parts, false); ok {
				fields = append(fields, word)
				continue
			}
			more, err := []string{hole}, error(nil)
			if endlessBraces(w) {
				more[0], err = expand.Literal(&e.config, e.known(w))
			} else {
				more, err = expand.Fields(&e.config, e.known(w))
			}
			if err != nil {
				more = []string{hole}
			}
			fields = append(fields, more...)
		}
		all = append(all, fields)
	}
	return all
}

// plain returns the value of a word that the shell neither splits nor evaluates: of text,
// and of variables in double quotes.
func (e *evaluator) plain(list []syntax.WordPart, quoted bool) (value string, ok bool) {
	for i, p := range list {
		part := ""
		switch x := p.(type) {
		case *syntax.Lit:
			part = x.Value
			ok = strings.IndexByte(part, '\\') < 0 && (quoted || strings.IndexByte(part, '{') < 0 && (i > 0 || !strings.HasPrefix(part, "~")))
		case *syntax.SglQuoted:
			part, ok = x.Value, !x.Dollar
		case *syntax.DblQuoted:
			part, ok = e.plain(x.Parts, true)
		case *syntax.ParamExp:
			if !quoted || x.Exp != nil || x.Slice != nil || x.Repl != nil || x.Excl || x.Length || x.Width || x.Index != nil || x.Names != 0 || x.Param == nil || slices.Contains([]string{"@", "*", "IFS"}, x.Param.Value) {
				return "", false
			}
			v := e.Get(x.Param.Value)
			part, ok = v.Str, v.Kind == expand.String
		default:
			part, ok = e.mark(p)
		}
		if !ok || len(list) == 1 {
			return part, ok
		}
		value += part
	}
	return value, true
}

// endlessBraces reports whether the braces of a word are a sequence, or too many.
func endlessBraces(w *syntax.Word) bool {
	n := 0
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			n += strings.Count(l.Value, "{")
			if n > 3 || n > 0 && strings.Contains(l.Value, "..") {
				return true
			}
		}
	}
	return false
}

// values returns the values of a word that the shell does not split.
func (e *evaluator) values(w *syntax.Word, f func(*expand.Config, *syntax.Word) (string, error)) (all []string) {
	e.variants = 1
	for e.variant = 0; e.variant < e.variants; e.variant++ {
		s, ok := e.plain(w.Parts, false)
		if !ok {
			var err error
			if s, err = f(&e.config, e.known(w)); err != nil {
				s = hole
			}
		}
		all = append(all, s)
	}
	return all
}

// known returns a word with marks in the places of what is not evaluated.
func (e *evaluator) known(w *syntax.Word) *syntax.Word { return &syntax.Word{Parts: e.parts(w.Parts)} }

func (e *evaluator) parts(list []syntax.WordPart) (all []syntax.WordPart) {
	for _, p := range list {
		if value, ok := e.mark(p); ok {
			p = &syntax.SglQuoted{Value: value}
		} else if x, ok := p.(*syntax.DblQuoted); ok {
			p = &syntax.DblQuoted{Parts: e.parts(x.Parts)}
		}
		all = append(all, p)
	}
	return all
}

// mark returns the text that stands for a part of a word that is not evaluated.
func (e *evaluator) mark(p syntax.WordPart) (string, bool) {
	switch x := p.(type) {
	case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		return "", false
	case *syntax.ParamExp:
		plain := x.Exp == nil && x.Slice == nil && x.Repl == nil
		assigned := x.Param != nil && x.Param.Value == "IFS" && len(e.vars["IFS"].values) > 0
		if !assigned && !x.Excl && x.Names == 0 && !x.Length && (plain || x.Param != nil && !slices.ContainsFunc(e.vars[x.Param.Value].values, partial)) {
			return "", false
		}
		if x.Length {
			return "0", true
		}
	case *syntax.ArithmExp:
		return "0", true
	case *syntax.ProcSubst:
		return "/dev/fd/63", true
	case *syntax.CmdSubst:
		if s, ok := e.substituted[x]; ok {
			return s, true
		}
	}
	return hole, true
}

// partial reports whether a part of a value may be another than that of the real one.
func partial(value string) bool { return strings.ContainsAny(value, hole+measured) }
