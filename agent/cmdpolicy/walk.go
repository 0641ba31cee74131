package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// hole marks the place of something unknown in the value of a word. Commands cannot contain
// it.
const hole = "\x00"

// measured marks a value that is not known, but no path: the output of hostname, for example.
const measured = "\x01"

// environment is the output of a command that prints all variables: not known, as a word.
const environment = hole + "\x02"

// listed is the name of a file that another command lists, below this directory.
const listed = "0"

// script examines a script. It is walked twice: the first pass learns the values of variables,
// the functions and the directories that loops change to.
func (e *evaluator) script(text string) {
	if e.depth++; e.depth > maxDepth {
		e.find("too-involved", "", "")
		return
	}
	defer func() { e.depth-- }()
	text = strings.NewReplacer(hole, "", measured, "", "\x02", "").Replace(text)
	file, err := e.parser.Parse(strings.NewReader(text), "")
	if err != nil {
		e.find("unreadable", "", "")
		return
	}
	outer := e.source
	e.source = text
	defer func() { e.source = outer }()
	start := e.dirs
	if start == nil {
		start = []string{e.place.dir}
	}
	if e.depth == 1 {
		e.dirs = start
		e.walk(file)
		e.findings, e.commands, e.network, e.downloads, e.unconfined, e.own, e.count = e.findings[:0], nil, false, false, nil, nil, 0
	}
	e.dirs = start
	e.walk(file)
}

// walk examines a node and all below it, in the order of the text.
func (e *evaluator) walk(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.Stmt:
			e.statement(x)
			return false
		case *syntax.Assign:
			for _, c := range []syntax.Node{x.Index, x.Value, x.Array} {
				if !isNil(c) {
					e.walk(c)
				}
			}
			e.assign(x)
			return false
		case *syntax.CmdSubst:
			e.output = hole
			e.substitutions++
			if e.apart(n); len(x.Stmts) == 1 {
				e.substituted[x] = e.output
			}
			e.substitutions--
			return false
		case *syntax.ProcSubst:
			e.apart(n)
			return false
		case *syntax.SglQuoted:
			if strings.Contains(x.Value, "[$(") || strings.Contains(x.Value, "[`") { // arithmetic runs what is in an index
				e.find("unknown-command", "[", "")
			}
		case *syntax.WordIter:
			for _, w := range x.Items {
				e.walk(w)
			}
			for _, v := range e.words(x.Items) {
				e.set(x.Name.Value, v)
			}
			return false
		case *syntax.UnaryArithm:
			e.setArithmetic(x.X)
		case *syntax.BinaryArithm:
			e.setArithmetic(x.X)
		case *syntax.ParamExp: // arithmetic in an index or a slice runs substitutions
			if x.Exp != nil && (x.Exp.Op == syntax.AssignUnset || x.Exp.Op == syntax.AssignUnsetOrNull) {
				e.set(x.Param.Value, hole)
			}
			if x.Exp != nil && x.Exp.Op == syntax.OtherParamOps {
				e.find("unknown-command", "@"+x.Param.Value, "")
			}
		}
		return true
	})
}

// isNil reports whether a node is a nil pointer of its type.
func isNil(n syntax.Node) bool {
	switch x := n.(type) {
	case *syntax.Word:
		return x == nil
	case *syntax.ArrayExpr:
		return x == nil
	}
	return n == nil
}

func (e *evaluator) setArithmetic(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		if name := w.Lit(); name != "" {
			e.set(name, "0")
		}
	}
}

// apart examines what runs in a shell of its own: a change of directory in it ends with it.
func (e *evaluator) apart(n syntax.Node) {
	dirs, piped := e.dirs, e.piped
	syntax.Walk(n, func(c syntax.Node) bool {
		if c == n || c == nil {
			return true
		}
		e.walk(c)
		return false
	})
	e.dirs, e.piped = dirs, piped
}

// body examines what runs several times, or where it is not seen: in any of the directories
// to which the script changes.
func (e *evaluator) body(n ...syntax.Node) {
	for _, d := range e.loopDirs {
		e.dirs = addTo(e.dirs, d)
	}
	for _, c := range n {
		e.walk(c)
	}
}

func addTo(list []string, s string) []string {
	switch {
	case slices.Contains(list, s):
		return list
	case len(list) >= maxValues:
		return append(slices.Clone(list[:maxValues-1]), hole)
	}
	return append(slices.Clip(list), s)
}

// statement examines a statement: its redirections, then its command.
func (e *evaluator) statement(s *syntax.Stmt) {
	e.changed = nil
	script, input := e.redirects(s.Redirs)
	if input {
		piped := e.piped
		e.piped = hole
		defer func() { e.piped = piped }()
	}
	dirs := e.dirs
	switch x := s.Cmd.(type) {
	case *syntax.CallExpr:
		for _, a := range x.Assigns {
			if e.walk(a); a.Name != nil && a.Name.Value == "IFS" && len(x.Args) == 0 && a.Value != nil && strings.Trim(e.word(a.Value)[0], " \t\n") != "" {
				e.find("environment", "IFS", "")
			}
		}
		for _, w := range x.Args {
			e.walk(w)
		}
		e.call(x, script)
	case *syntax.BinaryCmd:
		e.binary(x)
	case *syntax.Subshell:
		e.apart(x)
	case *syntax.FuncDecl:
		e.functions[x.Name.Value] = true
		if callsItself(x) {
			e.find("fork-bomb", "", "")
		}
		e.body(x.Body)
	case *syntax.WhileClause:
		e.endless(x)
		e.body(x)
	case *syntax.ForClause:
		if c, ok := x.Loop.(*syntax.CStyleLoop); ok && c.Cond == nil && !pauses(x.Do) {
			e.find("flood", "for", "")
		}
		e.body(x)
	case *syntax.DeclClause:
		if x.Variant.Value == "alias" || x.Variant.Value == "nameref" {
			e.find("unknown-command", x.Variant.Value, "")
		}
		e.walk(x)
	case nil:
	default:
		e.walk(x)
	}
	e.keep(s, script)
	if s.Background || s.Coprocess {
		e.background = true
		e.dirs = dirs
	}
}

// redirects examines redirections. It returns the text of a here-document, and whether the
// command reads from something else than the pipe.
func (e *evaluator) redirects(list []*syntax.Redirect) (script string, input bool) {
	for _, r := range list {
		if r.Hdoc == nil && r.Op != syntax.WordHdoc {
			e.walk(r.Word)
			e.redirect(r)
			input = input || r.Op == syntax.RdrIn
			continue
		}
		body := r.Hdoc
		if body == nil {
			body = r.Word
		}
		e.walk(body)
		script, input = strings.Join(e.word(body), "\n"), true
	}
	return script, input
}

// keep remembers the text that a statement writes into a file.
func (e *evaluator) keep(s *syntax.Stmt, script string) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	switch call.Args[0].Lit() {
	case "cat", "tee":
	case "yes":
		if len(s.Redirs) > 0 {
			e.find("flood", "yes", "")
		}
		return
	case "echo", "printf":
		script = strings.Join(e.words(call.Args[1:]), " ")
	default:
		script = hole
	}
	bare := strings.Join(strings.Fields(script), "")
	harmful := slices.ContainsFunc(e.table.sets["written"], func(w string) bool { return strings.Contains(bare, w) })
	for _, r := range s.Redirs {
		if r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrClob {
			for _, p := range e.place.resolve(e.word(r.Word)[0], e.dirs) {
				e.written[p] = script
				if harmful && !slices.Contains(e.table.sets["prose"], path.Ext(p)) {
					e.find("run-code", e.place.shown(p), "")
				}
			}
		}
	}
}

func (e *evaluator) binary(x *syntax.BinaryCmd) {
	switch x.Op {
	case syntax.Pipe, syntax.PipeAll:
		dirs, piped := e.dirs, e.piped
		e.output = hole
		e.walk(x.X)
		e.piped, e.dirs = e.output, dirs
		e.walk(x.Y)
		e.piped, e.dirs = piped, dirs
		e.changed = nil
	case syntax.AndStmt: // Y runs only if X has changed the directory
		e.walk(x.X)
		changed := e.changed
		if changed != nil {
			e.dirs = changed
		}
		e.walk(x.Y)
		if e.changed == nil {
			e.changed = changed
		}
	case syntax.OrStmt:
		e.walk(x.X)
		changed := e.changed
		e.walk(x.Y)
		if c, ok := x.Y.Cmd.(*syntax.CallExpr); ok && changed != nil && len(c.Args) > 0 && slices.Contains([]string{"exit", "return"}, c.Args[0].Lit()) {
			e.dirs = changed
		}
	}
}

// callsItself reports whether a function starts copies of itself: in a pipe, or in the
// background.
func callsItself(f *syntax.FuncDecl) bool {
	calls, spreads := 0, false
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.CallExpr:
			if len(x.Args) > 0 && x.Args[0].Lit() == f.Name.Value {
				calls++
			}
		case *syntax.BinaryCmd:
			spreads = spreads || x.Op == syntax.Pipe || x.Op == syntax.PipeAll
		case *syntax.Stmt:
			spreads = spreads || x.Background
		}
		return true
	})
	return calls > 0 && spreads
}

// endless finds loops that never end and never wait.
func (e *evaluator) endless(w *syntax.WhileClause) {
	if len(w.Cond) != 1 {
		return
	}
	c, ok := w.Cond[0].Cmd.(*syntax.CallExpr)
	if ok && len(c.Args) > 0 && slices.Contains([]string{"true", ":", "false", "["}, c.Args[0].Lit()) && (c.Args[0].Lit() != "[" || len(c.Args) < 4) && !pauses(w.Do) {
		e.find("flood", "while", "")
	}
	if a, ok := w.Cond[0].Cmd.(*syntax.ArithmCmd); ok && !pauses(w.Do) {
		if _, ok := a.X.(*syntax.Word); ok {
			e.find("flood", "while", "")
		}
	}
}

// pauses reports whether one of the statements sleeps, or leaves a loop.
func pauses(list []*syntax.Stmt) bool {
	found := false
	for _, s := range list {
		syntax.Walk(s, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				found = found || slices.Contains([]string{"sleep", "break", "exit", "return", "wait", "read"}, c.Args[0].Lit())
			}
			return true
		})
	}
	return found
}

// set adds a value to a variable.
func (e *evaluator) set(name, value string) {
	if slices.Contains(e.vars[name], value) {
		return
	}
	if len(e.vars[name]) >= maxValues {
		value = hole
	}
	e.vars[name] = append(e.vars[name], value)
}

var nodeOptions = regexp.MustCompile(`^(?:\s*--(?:max-old-space-size=\d+|no-warnings|enable-source-maps|experimental-vm-modules|openssl-legacy-provider))*$`)

// assign examines the assignment to a variable. Some variables decide what programs run.
func (e *evaluator) assign(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	var values []string
	switch {
	case a.Array != nil:
		for _, el := range a.Array.Elems {
			values = append(values, e.word(el.Value)...)
		}
	case a.Value != nil:
		values = e.word(a.Value)
	default:
		return // of export: the variable keeps its value
	}
	for _, v := range values {
		if a.Append {
			v = hole
		}
		e.set(name, v)
		e.variable(name, v)
	}
}

// variable examines the value that a program gets in a variable.
func (e *evaluator) variable(name, v string) {
	lower := strings.ToLower(name)
	at, ok := e.address(v, strings.HasSuffix(lower, "_proxy"))
	switch {
	case strings.HasSuffix(name, "PAGER") && (v == "cat" || v == "" || v == "less"), strings.HasSuffix(name, "EDITOR") && (v == "true" || v == ":" || v == "cat"):
	case name == "NODE_OPTIONS" && nodeOptions.MatchString(v):
	case name == "PATH" && strings.HasPrefix(v, hole) && !strings.Contains(v, ".."): // $PATH:/more
	case slices.Contains(e.table.sets["environment"], name), strings.HasPrefix(name, "GIT_CONFIG_"), strings.HasPrefix(name, "BASH_FUNC_"):
		e.find("environment", name, "")
	case ok && !at.public && lower != "no_proxy" && (!at.loopback || strings.HasSuffix(lower, "_proxy")):
		e.find("address", at.String(), "")
	}
}
