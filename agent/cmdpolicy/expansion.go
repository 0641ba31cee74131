package cmdpolicy

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// set gives a variable one more value. All values that a script gives to a
// variable count wherever it is used: nobody knows which branch is taken.
func (j *evaluator) set(name, value string) {
	if len(value) > maxText {
		value = unknown
	}
	j.indexed(value)
	vs := j.vars[name]
	if len(vs) == 0 && slices.Contains([]string{"HOME", "PWD", "TMPDIR", "SHELL"}, name) { // what it was counts too
		v, _ := j.value(name)
		vs = []string{v}
		j.vars[name] = vs
	}
	switch {
	case slices.Contains(vs, value):
	case len(vs) < maxValues:
		j.vars[name] = append(vs, value)
	case !slices.Contains(vs, unknown):
		j.vars[name] = append(vs, unknown)
	}
}

// indexed judges the commands in a text that a shell runs if it takes the text
// for the name of a variable with an index, as in $((x)).
func (j *evaluator) indexed(value string) {
	for _, open := range []string{"[$(", "[`"} {
		if i := strings.Index(value, open); i >= 0 {
			body, _, _ := strings.Cut(value[i+1:], "]")
			j.subshell(": "+body, text{kind: none}, j.zero, nil)
		}
	}
}

// value returns a variable's value, as it was picked. ok is false if nothing is
// known of it.
func (j *evaluator) value(name string) (v string, ok bool) {
	if vs := j.vars[name]; len(vs) > 0 {
		return vs[j.picked[name]%len(vs)], true
	}
	switch name {
	case "HOME":
		return "~", true
	case "PWD":
		return j.directory(), true
	case "OLDPWD":
		if j.place.dir == "" {
			return unknown, false
		}
		return j.place.dir, true
	case "IFS":
		return " \t\n", true
	case "TMPDIR", "TMP", "TEMP":
		return "/tmp", true
	case "SHELL", "BASH":
		return "/bin/sh", true
	case "PPID", "$", "!", "BASHPID":
		return "4242", true
	case "UID", "EUID", "RANDOM", "SECONDS", "LINENO", "#", "?", "COLUMNS", "LINES", "HOSTNAME":
		return "1", true
	case "-", "_":
		return unknown, true
	}
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case n == 0:
			return j.zero, true
		case j.open:
			return unknown, true
		case n <= len(j.args):
			return j.args[n-1], true
		}
		return "", true
	}
	return unknown, false
}

// param adds what ${…} becomes.
func (j *evaluator) param(s *splitter, p *syntax.ParamExp, whole bool) {
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil {
		s.add(unknown)
		return
	}
	name := p.Param.Value
	if !plain(p) || p.Index != nil {
		j.inside(p)
	}
	if plain(p) && (name == "@" || name == "*" || every(p.Index) != "") {
		all := j.array(name)
		if name == "@" || name == "*" {
			all = j.args
			if j.open {
				all = []string{unknown}
			}
		}
		j.spread(s, all, whole, name == "@" || every(p.Index) == "@")
		return
	}
	j.expanded(s, j.scalar(p, name), whole)
}

// spread adds the elements of "$@" or "${a[@]}", each a field of its own.
func (j *evaluator) spread(s *splitter, all []string, whole, apart bool) {
	if whole && !apart {
		s.add(strings.Join(all, " "))
		return
	}
	for i, e := range all {
		if i > 0 {
			s.end()
		}
		j.expanded(s, e, whole)
	}
}

func plain(p *syntax.ParamExp) bool {
	return !p.Excl && !p.Length && !p.Width && p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Names == 0
}

// every returns "@" or "*" if an index stands for all elements.
func every(index syntax.ArithmExpr) string {
	if w, ok := index.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return w.Lit()
	}
	return ""
}

func (j *evaluator) array(name string) []string {
	if a, ok := j.arrays[name]; ok {
		return a
	}
	v, _ := j.value(name)
	return []string{v}
}

// scalar returns what a parameter expansion becomes if it is one text.
func (j *evaluator) scalar(p *syntax.ParamExp, name string) string {
	v, ok := j.value(name)
	if p.Index != nil {
		v, ok = j.element(p, name)
	}
	switch {
	case p.Length || p.Width:
		return "1"
	case p.Excl:
		if p.Names != 0 || !ok || strings.ContainsRune(v, hole) || !syntax.ValidName(v) {
			return unknown
		}
		v, _ = j.value(v)
		return v
	case plain(p):
		return v
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word.Lit() == "P": // expanded once more
		j.subshell(`: "`+v+`"`, text{kind: none}, j.zero, j.args)
		return unknown
	case p.Exp != nil:
		if out, done := j.fallback(p, v, ok); done {
			return out
		}
	}
	if !ok || strings.ContainsAny(v, string([]rune{hole, many, one})) || p.Index != nil {
		return unknown
	}
	return j.edited(p, name, v)
}

func (j *evaluator) element(p *syntax.ParamExp, name string) (string, bool) {
	a, n := j.array(name), arithmetic(p.Index)
	if every(p.Index) != "" {
		return strings.Join(a, " "), true
	}
	if i, err := strconv.Atoi(n); err == nil && i >= 0 && i < len(a) {
		return a[i], true
	}
	return unknown, true
}

// fallback evaluates ${x:-y} and its like.
func (j *evaluator) fallback(p *syntax.ParamExp, v string, ok bool) (string, bool) {
	other := func() string { return j.single(p.Exp.Word) }
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if ok && v != "" {
			return v, true
		}
		d := other()
		j.unsure = j.unsure || !ok
		if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
			j.set(p.Param.Value, d)
		}
		return d, true
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		j.unsure = j.unsure || !ok
		if ok && v == "" {
			return "", true
		}
		return other(), true
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return v, true
	}
	return "", false
}

// edited has the library evaluate what cuts or changes a known text.
func (j *evaluator) edited(p *syntax.ParamExp, name, v string) string {
	if p.Slice != nil && (!number(p.Slice.Offset) || p.Slice.Length != nil && !number(p.Slice.Length)) {
		return unknown
	}
	cfg := &expand.Config{Env: expand.FuncEnviron(func(n string) string {
		if n == name {
			return v
		}
		w, _ := j.value(n)
		return w
	})}
	if _, err := strconv.Atoi(name); err == nil {
		return unknown
	}
	out, err := expand.Literal(cfg, &syntax.Word{Parts: []syntax.WordPart{p}})
	if err != nil {
		return unknown
	}
	return out
}

// number reports whether an offset is plain, so that to evaluate it is bounded.
func number(x syntax.ArithmExpr) bool {
	if u, ok := x.(*syntax.UnaryArithm); ok && (u.Op == syntax.Minus || u.Op == syntax.Plus) {
		x = u.X
	}
	if p, ok := x.(*syntax.ParenArithm); ok {
		return number(p.X)
	}
	return x != nil && arithmetic(x) != unknown
}
