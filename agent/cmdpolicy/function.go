package cmdpolicy

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// A function is one definition of a function: its body, the text of it, and the
// script that it stands in.
type function struct {
	text, src string
	body      *syntax.Stmt
}

// define keeps a function for its calls. One that is never called by name is
// judged as if it were called with anything.
func (j *evaluator) define(c *syntax.FuncDecl) text {
	if c.Name == nil || c.Body == nil {
		j.hit("unreadable", "", "")
		return text{kind: anything}
	}
	name := c.Name.Value
	j.charge(j.textOf(c.Body))
	if j.steps > 0 && bomb(c.Body, name) {
		j.hit("fork-bomb", "", "")
	}
	f := function{text: j.textOf(c.Body), src: j.src, body: c.Body}
	fs := j.funcs[name]
	switch {
	case slices.ContainsFunc(fs, func(g function) bool { return g.text == f.text }):
	case len(fs) == maxValues:
		j.hit("too-involved", "", "")
	default:
		j.funcs[name] = append(fs[:len(fs):len(fs)], f)
	}
	if !j.called[name] {
		j.enter(f, nil, true, text{kind: anything})
	}
	return text{kind: known}
}

// textOf returns the source of a statement of the script that is being judged.
func (j *evaluator) textOf(s *syntax.Stmt) string {
	from, to := int(s.Pos().Offset()), int(s.End().Offset())
	if from > to || to > len(j.src) {
		return j.src
	}
	return j.src[from:to]
}

// invoke judges all the bodies that a function may have: nobody knows which of
// them is defined when it is called.
func (j *evaluator) invoke(name string, args []string, in text) text {
	var out text
	for _, f := range j.funcs[name] {
		out = out.join(j.enter(f, args, slices.Contains(args, unknown), in))
	}
	return out
}

// enter judges the body of a function. open says that its arguments are not
// known.
func (j *evaluator) enter(f function, args []string, open bool, in text) text {
	if j.active[f.text] {
		return text{kind: anything} // it calls itself: its body is being judged
	}
	a, o, q, src := j.args, j.open, j.quoted, j.src
	j.args, j.open, j.quoted, j.src = args, open, false, f.src
	j.active[f.text] = true
	out := j.stmt(f.body, in)
	delete(j.active, f.text)
	j.args, j.open, j.quoted, j.src = a, o, q, src
	return out
}

const maxLooks = 500_000 // nodes that are looked at for one function

// bomb reports whether a function starts itself beside itself. In a body that is
// so long that it takes too many looks, it may miss that.
func bomb(body *syntax.Stmt, name string) bool {
	found, looks := false, 0
	calls := func(n syntax.Node) int {
		c := 0
		syntax.Walk(n, func(n syntax.Node) bool {
			if looks++; looks > maxLooks {
				return false
			}
			if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == name {
				c++
			}
			return true
		})
		return c
	}
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			found = found || n.Op == syntax.Pipe && calls(n.X) > 0 && calls(n.Y) > 0
		case *syntax.Stmt:
			found = found || n.Background && calls(n) > 0
		}
		return true
	})
	return found
}

// declare judges export, local, declare and their like.
func (j *evaluator) declare(c *syntax.DeclClause) {
	for _, a := range c.Args {
		j.assign(a)
	}
}

// assign gives a variable the value of an assignment.
func (j *evaluator) assign(a *syntax.Assign) {
	if a.Index != nil {
		j.inside(a.Index)
	}
	switch {
	case a.Name == nil:
		j.single(a.Value)
		return
	case a.Naked:
		return
	case a.Array != nil:
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			words = append(words, e.Value)
			if e.Index != nil {
				j.inside(e.Index)
			}
		}
		fs := j.fields(words...)
		if a.Append {
			fs = append(slices.Clone(j.arrays[a.Name.Value]), fs...)
		}
		j.arrays[a.Name.Value] = fs[:min(len(fs), maxFields)]
		return
	case a.Index != nil:
		v := j.single(a.Value)
		j.arrays[a.Name.Value] = append(slices.Clone(j.arrays[a.Name.Value]), v)[:min(len(j.arrays[a.Name.Value])+1, maxFields)]
		return
	}
	nodes := []syntax.Node{a}
	if a.Value == nil {
		nodes = nil
	}
	j.each(nodes, func() { j.given(a) })
}

func (j *evaluator) given(a *syntax.Assign) {
	name, v := a.Name.Value, j.single(a.Value)
	j.setting(name, v)
	if !a.Append {
		j.set(name, v)
		return
	}
	before := slices.Clone(j.vars[name])
	if len(before) == 0 {
		before = []string{""}
	}
	for _, b := range before {
		j.set(name, b+v)
	}
}
