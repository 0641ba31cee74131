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
	for _, p := range list {
		part := ""
		switch x := p.(type) {
		case *syntax.Lit:
			if part = x.Value; strings.ContainsAny(part, `\~{`) && (!quoted || strings.Contains(part, `\`)) {
				return "", false
			}
		case *syntax.SglQuoted:
			if part = x.Value; x.Dollar {
				return "", false
			}
		case *syntax.DblQuoted:
			if part, ok = e.plain(x.Parts, true); !ok || x.Dollar {
				return "", false
			}
		case *syntax.ParamExp:
			if !quoted || x.Exp != nil || x.Slice != nil || x.Repl != nil || x.Excl || x.Length || x.Width || x.Index != nil || x.Names != 0 || x.Param == nil || slices.Contains([]string{"@", "*", "IFS"}, x.Param.Value) {
				return "", false
			}
			v := e.Get(x.Param.Value)
			if part = v.Str; v.Kind != expand.String {
				return "", false
			}
		default:
			return "", false
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
		value := hole
		switch x := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
			all = append(all, p)
			continue
		case *syntax.DblQuoted:
			all = append(all, &syntax.DblQuoted{Parts: e.parts(x.Parts)})
			continue
		case *syntax.ParamExp:
			plain := x.Exp == nil && x.Slice == nil && x.Repl == nil
			assigned := x.Param != nil && x.Param.Value == "IFS" && len(e.vars["IFS"].values) > 0
			if !assigned && !x.Excl && x.Names == 0 && !x.Length && (plain || x.Param != nil && !slices.ContainsFunc(e.vars[x.Param.Value].values, partial)) {
				all = append(all, p)
				continue
			}
			if x.Length {
				value = "0"
			}
		case *syntax.ArithmExp:
			value = "0"
		case *syntax.ProcSubst:
			value = "/dev/fd/63"
		case *syntax.CmdSubst:
			if s, ok := e.substituted[x]; ok {
				value = s
			}
		}
		all = append(all, &syntax.SglQuoted{Value: value})
	}
	return all
}

// partial reports whether a part of a value may be another than that of the real one.
func partial(value string) bool { return strings.ContainsAny(value, hole+measured) }
