package cmdpolicy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"hermesd/agent/protected"
)

// A kind says what is known of a text that flows from one command to another.
type kind int

const (
	none     kind = iota // there is no text: nothing was connected
	known                // s is the text, holes aside
	anything             // it is not known
)

// A text flows through a pipe, a redirection or a file.
type text struct {
	s    string
	kind kind
	net  bool // it may come from the network
}

// join is what two texts are, one after the other.
func (t text) join(u text) text {
	if u.kind == none {
		return t
	}
	if t.kind == none {
		return u
	}
	out := text{kind: max(t.kind, u.kind), net: t.net || u.net}
	if out.s = t.s + u.s; len(out.s) > maxText {
		out.s, out.kind = "", anything
	}
	return out
}

// A evaluator walks through a script as a shell would run it, on all branches.
type evaluator struct {
	families []family
	printers map[string]printer
	place    place

	hits    []hit
	ran     []string        // commands with their arguments; see Result.Denied
	seen    map[string]bool // what is in ran
	ranSize int             // bytes of all commands, each time that they were found
	named   addressFinder

	once  bool
	steps int
	depth int

	vars   map[string][]string   // all the values that are given to a variable
	picked map[string]int        // which of them is looked at now
	arrays map[string][]string   // the elements of arrays
	funcs  map[string][]function // all the definitions of functions
	active map[string]bool       // functions that are being judged, by their text
	src    string                // the script that is being judged
	called map[string]bool       // functions that are called by name
	alias  map[string]string
	files  map[string]text // what the script has written to files
	dirs   []string        // where the script may stand, the likely one last
	args   []string        // $1, $2, …
	zero   string          // $0
	open   bool            // $1, $2, … are not known

	quoted  bool // evaluates within double quotes
	unsure  bool // a value was taken that depends on the environment
	fetched bool // a substitution printed something from the network
}

func newEvaluator(p Place) *evaluator {
	return &evaluator{
		families: families(), printers: printers(), place: newPlace(p),
		steps: maxSteps, vars: map[string][]string{}, picked: map[string]int{}, arrays: map[string][]string{},
		funcs: map[string][]function{}, active: map[string]bool{}, called: map[string]bool{}, alias: map[string]string{}, files: map[string]text{}, dirs: []string{"."}, zero: "sh",
	}
}

// again forgets what was found, and keeps what was learned.
func (j *evaluator) again() {
	j.hits, j.once, j.steps, j.depth, j.dirs = nil, false, maxSteps, 0, []string{"."}
	j.args, j.zero, j.open, j.quoted = nil, "sh", false, false
	j.named.found = nil
	clear(j.picked)
	clear(j.active)
}

// step counts; false means that there was enough.
func (j *evaluator) step() bool {
	if j.steps--; j.steps < 0 {
		j.hit("too-involved", "", "")
		return false
	}
	return true
}

// charge counts what is long as more than one step.
func (j *evaluator) charge(text string) { j.steps -= len(text) / 256 }

// deeper runs f one level deeper, if there is one.
func (j *evaluator) deeper(f func()) {
	if j.depth >= maxDepth {
		j.hit("too-involved", "", "")
		return
	}
	j.depth++
	f()
	j.depth--
}

// script judges a script that reads in, and returns what it prints.
func (j *evaluator) script(src string, in text) (out text) {
	if j.charge(src); !j.step() {
		return text{kind: anything}
	}
	j.deeper(func() {
		if strings.ContainsRune(src, hole) {
			j.hit("unknown-command", "", "")
			src = strings.ReplaceAll(src, string(hole), "$__unknown__")
		}
		src = strings.NewReplacer(string(many), "*", string(one), "?").Replace(src)
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
		if err != nil {
			file, err = syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(src), "")
		}
		if err != nil {
			j.hit("unreadable", "", "")
			j.scanText(src)
			out = text{kind: anything}
			return
		}
		was := j.src
		j.src = src
		out = j.stmts(file.Stmts, in)
		j.src = was
	})
	return out
}

// subshell judges what runs in a shell of its own: what it does to variables of the
// caller stays, where it stands does not.
func (j *evaluator) subshell(src string, in text, zero string, args []string) text {
	dirs, a, z, o, q := j.dirs, j.args, j.zero, j.open, j.quoted
	j.args, j.zero, j.open, j.quoted = args, zero, false, false
	out := j.script(src, in)
	j.dirs, j.args, j.zero, j.open, j.quoted = dirs, a, z, o, q
	return out
}

func (j *evaluator) stmts(stmts []*syntax.Stmt, in text) text {
	var out text
	for _, s := range stmts {
		out = out.join(j.stmt(s, in))
	}
	return out
}

// stmt judges a statement with its redirections.
func (j *evaluator) stmt(s *syntax.Stmt, in text) (out text) {
	if s == nil || !j.step() {
		return text{kind: anything}
	}
	j.deeper(func() {
		if call, ok := s.Cmd.(*syntax.CallExpr); ok {
			nodes := make([]syntax.Node, 0, len(call.Args)+len(s.Redirs)+1)
			nodes = append(nodes, call)
			for _, r := range s.Redirs {
				nodes = append(nodes, r)
			}
			j.each(nodes, func() { out = out.join(j.redirected(s, in)) })
			return
		}
		out = j.redirected(s, in)
	})
	return out
}

// redirected judges a statement for one choice of values.
func (j *evaluator) redirected(s *syntax.Stmt, in text) text {
	var targets []string
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = text{s: j.document(r), kind: known}
		case syntax.WordHdoc:
			in = text{s: j.single(r.Word) + "\n", kind: known}
		case syntax.RdrIn:
			name := j.single(r.Word)
			j.named.redirect(name)
			in = j.read(name)
		case syntax.DplIn, syntax.DplOut:
			if t := j.single(r.Word); r.Op == syntax.DplOut && t != "-" && !isNumber(t) {
				targets = append(targets, t)
			}
		case syntax.RdrInOut:
			targets = append(targets, j.single(r.Word))
			in = text{kind: anything}
		default:
			targets = append(targets, j.single(r.Word))
		}
	}
	out := j.command(s.Cmd, in)
	if s.Cmd == nil { // $(<file)
		out = in.connected()
	}
	for _, t := range targets {
		j.named.redirect(t)
		j.write("redirect", t)
		for _, p := range j.resolve(t) {
			if out.kind == known && protected.Manifest(p, nil, []byte(out.s)) != "" {
				j.hit("write-startup", "redirect", p)
			}
			j.files[p] = j.files[p].join(out)
		}
	}
	if len(targets) > 0 {
		return text{kind: known}
	}
	return out
}

// document returns the text of a here-document.
func (j *evaluator) document(r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return ""
	}
	for _, p := range r.Word.Parts {
		if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, `\`) { // a quoted end: nothing is expanded
			return r.Hdoc.Lit()
		}
	}
	was := j.quoted
	j.quoted = true
	t := j.single(r.Hdoc)
	j.quoted = was
	return t
}

// each calls f for every combination of the values that the variables in nodes
// may have.
func (j *evaluator) each(nodes []syntax.Node, f func()) {
	var names []string
	for _, n := range nodes {
		syntax.Walk(n, func(n syntax.Node) bool {
			if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil && len(j.vars[p.Param.Value]) > 1 && !slices.Contains(names, p.Param.Value) {
				names = append(names, p.Param.Value)
			}
			return true
		})
	}
	if len(names) == 0 {
		f()
		return
	}
	was := maps.Clone(j.picked)
	for i := range maxChoices + 1 {
		rest := i
		for _, n := range names {
			j.picked[n] = rest % len(j.vars[n])
			rest /= len(j.vars[n])
		}
		if rest > 0 { // all were seen
			break
		}
		if i == maxChoices {
			j.hit("too-involved", "", "")
			break
		}
		f()
	}
	j.picked = was
}

// command judges a command, simple or compound, and returns what it prints.
func (j *evaluator) command(c syntax.Command, in text) text {
	switch c := c.(type) {
	case nil:
		return text{kind: known}
	case *syntax.CallExpr:
		return j.simple(c, in)
	case *syntax.BinaryCmd:
		out := j.stmt(c.X, in)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			return j.stmt(c.Y, out.connected())
		}
		return out.join(j.stmt(c.Y, in))
	case *syntax.Subshell:
		was := j.dirs
		out := j.stmts(c.Stmts, in)
		j.dirs = was
		return out
	case *syntax.Block:
		return j.stmts(c.Stmts, in)
	case *syntax.IfClause:
		var out text
		for i := c; i != nil; i = i.Else {
			out = out.join(j.stmts(i.Cond, in)).join(j.stmts(i.Then, in))
		}
		return out
	case *syntax.WhileClause:
		out := j.stmts(c.Cond, in).join(j.stmts(c.Do, in))
		return text{kind: anything, net: out.net}
	case *syntax.ForClause:
		return j.loop(c, in)
	case *syntax.CaseClause:
		return j.cases(c, in)
	case *syntax.TimeClause:
		return j.stmt(c.Stmt, in)
	case *syntax.CoprocClause:
		j.stmt(c.Stmt, text{kind: anything})
		return text{kind: known}
	case *syntax.FuncDecl:
		return j.define(c)
	case *syntax.DeclClause:
		j.declare(c)
		return text{kind: known}
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
		j.inside(c)
		return text{kind: known}
	}
	j.hit("unreadable", "", "")
	return text{kind: anything}
}

// connected is the text as a pipe hands it on.
func (t text) connected() text {
	if t.kind == none {
		t.kind = known
	}
	return t
}

func (j *evaluator) loop(c *syntax.ForClause, in text) text {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		items := j.fields(l.Items...)
		if !l.InPos.IsValid() {
			items = j.args
		}
		for _, v := range items {
			j.set(l.Name.Value, v)
		}
		if len(items) == 0 || j.open || c.Select {
			j.set(l.Name.Value, unknown)
		}
	case *syntax.CStyleLoop:
		j.inside(l)
	}
	out := j.stmts(c.Do, in)
	return text{kind: anything, net: out.net}
}

func (j *evaluator) cases(c *syntax.CaseClause, in text) text {
	j.single(c.Word)
	var out text
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			j.single(p)
		}
		out = out.join(j.stmts(item.Stmts, in))
	}
	return text{kind: max(out.kind, anything), net: out.net}
}

// inside judges the commands that stand within tests and arithmetic, and forgets
// the variables that arithmetic changes.
func (j *evaluator) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			j.output(n.Stmts)
			return false
		case *syntax.ProcSubst:
			j.procedure(n)
			return false
		case *syntax.SglQuoted:
			j.indexed(n.Value)
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && syntax.ValidName(w.Lit()) && strings.HasSuffix(n.Op.String(), "=") {
				j.set(w.Lit(), "1")
			}
		}
		return true
	})
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}
