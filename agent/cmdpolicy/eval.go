package cmdpolicy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A word of a command becomes fields. Where its text is not known a field holds
// one of these marks; no command holds them itself, visible sees to it.
const (
	hole = '\x00' // any text
	many = '\x01' // an active *: any text without a slash
	one  = '\x02' // an active ? or [...]: one character
)

// unknown is a text of which nothing is known.
const unknown = string(hole)

// printable puts what stands for the marks into a text.
func printable(s string) string {
	return strings.NewReplacer(string(hole), "…", string(many), "*", string(one), "?").Replace(s)
}

// A splitter gathers the fields that words become.
type splitter struct {
	out  []string
	cur  strings.Builder
	open bool // cur is a field, even if it is empty
}

func (s *splitter) add(t string) {
	if s.cur.Len()+len(t) <= maxText {
		s.cur.WriteString(t)
	} else {
		s.cur.WriteByte(hole)
	}
	s.open = true
}

func (s *splitter) end() {
	if s.open && len(s.out) < 4*maxFields {
		s.out = append(s.out, s.cur.String())
	}
	s.cur.Reset()
	s.open = false
}

// fields returns what words become in a command: braces and variables are
// expanded, and what is not quoted is split.
func (j *evaluator) fields(words ...*syntax.Word) []string {
	var s splitter
	for _, w := range words {
		if w == nil {
			continue
		}
		split := *w // the tree stays as it was read
		syntax.SplitBraces(&split)
		n := 0
		for each, err := range expand.BracesSeq(nil, &split) {
			if n++; err != nil || n > maxFields {
				s.out = append(s.out, unknown)
				break
			}
			j.parts(&s, each.Parts, false)
			s.end()
		}
	}
	return s.out
}

// single returns what a word becomes where it is not split: after = and < and in
// a here-document.
func (j *evaluator) single(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var s splitter
	j.parts(&s, w.Parts, true)
	s.end()
	return strings.Join(s.out, " ")
}

// parts adds the parts of a word. whole says that expansions are not split, as
// within double quotes.
func (j *evaluator) parts(s *splitter, parts []syntax.WordPart, whole bool) {
	for _, p := range parts {
		if !j.step() {
			s.add(unknown)
			return
		}
		switch p := p.(type) {
		case *syntax.Lit:
			j.named.note(p.Value)
			s.add(unescape(p.Value, j.quoted))
		case *syntax.SglQuoted:
			s.add(single(p))
		case *syntax.DblQuoted:
			was := j.quoted
			j.quoted = true
			s.open = s.open || !onlyAll(p.Parts)
			j.parts(s, p.Parts, true)
			j.quoted = was
		case *syntax.ParamExp:
			j.param(s, p, whole)
		case *syntax.CmdSubst:
			j.expanded(s, j.output(p.Stmts), whole)
		case *syntax.ProcSubst:
			s.add(j.procedure(p))
		case *syntax.ArithmExp:
			j.inside(p)
			s.add(arithmetic(p.X))
		case *syntax.ExtGlob:
			s.add(string(many))
		default:
			s.add(unknown)
		}
	}
}

// onlyAll reports whether quotes hold nothing but "$@" or "${a[@]}", which may
// become no field at all.
func onlyAll(parts []syntax.WordPart) bool {
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && (p.Param != nil && p.Param.Value == "@" || every(p.Index) == "@")
}

func single(p *syntax.SglQuoted) string {
	if !p.Dollar {
		return p.Value
	}
	out, _, err := expand.Format(nil, strings.ReplaceAll(p.Value, "%", "%%"), nil)
	if err != nil {
		return unknown
	}
	out, _, _ = strings.Cut(out, "\x00")
	return unmark(out)
}

// unmark takes out of a text that was decoded what we use as marks.
func unmark(s string) string {
	return strings.NewReplacer(string(many), unknown, string(one), unknown).Replace(s)
}

// unescape returns what a literal stands for. Outside of quotes *, ? and [...]
// become marks.
func unescape(v string, quoted bool) string {
	if !strings.ContainsAny(v, "\\*?[") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '\\' && i+1 < len(v):
			i++
			switch {
			case v[i] == '\n':
			case quoted && !strings.ContainsRune("$`\"\\", rune(v[i])):
				b.WriteByte('\\')
				b.WriteByte(v[i])
			default:
				b.WriteByte(v[i])
			}
		case quoted:
			b.WriteByte(c)
		case c == '*':
			b.WriteByte(many)
		case c == '?':
			b.WriteByte(one)
		case c == '[' && strings.IndexByte(v[i+1:], ']') > 0:
			b.WriteByte(one)
			i += 1 + strings.IndexByte(v[i+1:], ']')
			if i+1 < len(v) && v[i+1] == ']' { // []] is one class
				i++
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// expanded adds a text that came out of an expansion.
func (j *evaluator) expanded(s *splitter, t string, whole bool) {
	if whole {
		s.add(t)
		return
	}
	j.charge(t)
	separators := j.separators()
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case strings.IndexByte(separators, c) >= 0:
			s.end()
		case c == '*':
			s.add(string(many))
		case c == '?':
			s.add(string(one))
		default:
			s.add(t[i : i+1])
		}
	}
}

// separators are the characters at which expansions are split.
func (j *evaluator) separators() string { return " \t\n" + strings.Join(j.vars["IFS"], "") }

// arithmetic is known if it is a plain number.
func arithmetic(x syntax.ArithmExpr) string {
	if w, ok := x.(*syntax.Word); ok {
		if _, err := strconv.ParseInt(w.Lit(), 10, 64); err == nil {
			return w.Lit()
		}
	}
	return unknown
}

// procedure judges a process substitution and returns the name of its file.
func (j *evaluator) procedure(p *syntax.ProcSubst) string {
	name := "/dev/fd/s" + strconv.Itoa(int(p.Pos().Offset()))
	if p.Op == syntax.CmdOut { // >(…): what reads there gets text we do not follow
		j.stmts(p.Stmts, text{kind: anything})
		return name
	}
	j.files[name] = j.stmts(p.Stmts, text{kind: none})
	return name
}

// output judges the statements of a command substitution and returns what they
// print, as far as it is known.
func (j *evaluator) output(stmts []*syntax.Stmt) string {
	was, quoted := j.dirs, j.quoted
	j.quoted = false
	out := j.stmts(stmts, text{kind: none})
	j.dirs, j.quoted = was, quoted
	switch {
	case out.kind == anything && out.net:
		j.fetched = true
		return unknown
	case out.kind == anything:
		return unknown
	}
	return strings.TrimRight(out.s, "\n")
}
