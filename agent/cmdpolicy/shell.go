package cmdpolicy

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const (
	hole     = "\x1a"     // something unknown in the value of a word
	fed      = hole + " " // unknown input of a pipe or a file
	measured = "\x1d"     // unknown, but no path: the output of hostname, for example
	linked   = "link"     // the text of a symbolic link
	moved    = "move"     // the text of what was moved away
	listed   = "0"        // the name of a file that another command lists
)

// printed is what commands print, by the value of prints.
var printed = map[string]string{"word": measured, "number": listed, "temporary": "/tmp/" + listed, "job": "%0"}

// A variable has one of the values, or all of them if it is an array.
type variable struct {
	values []string
	array  bool
	read   bool
}

// A where is the directory in which the script is, and what is not sure about it.
type where struct {
	dir   string
	doubt doubt
}

// A doubt says which relative names are unknown, because a change of the directory may have
// failed.
type doubt int

const (
	noName doubt = iota
	dotDot       // names with ".."
	anyName
)

// set adds a value to a variable.
func (e *evaluator) set(name, value string) {
	v := e.vars[name]
	if len(v.values) >= maxValues || len(value) > maxValue {
		value = hole
	}
	if v.array || !slices.Contains(v.values, value) {
		e.again = e.again || v.read
		v.values = append(v.values, value)
		e.vars[name] = v
	}
}

// Get returns the value of a variable that counts now. It makes e an expand.Environ.
func (e *evaluator) Get(name string) expand.Variable {
	v := e.vars[name]
	user, home := strings.CutPrefix(name, "HOME ")
	if e.variants = max(e.variants, len(v.values)); !v.read {
		v.read = true
		e.vars[name] = v
	}
	switch {
	case name == "IFS": // what is assigned to it may not count: words are split as by default
		return expand.Variable{Set: true, Kind: expand.String, Str: " \t\n"}
	case name == "PWD":
		return expand.Variable{Set: true, Kind: expand.String, Str: e.dir}
	case home:
		return expand.Variable{Set: true, Kind: expand.String, Str: "/home/" + user}
	case len(v.values) == 0:
		return expand.Variable{Set: true, Kind: expand.String, Str: hole}
	case v.array:
		return expand.Variable{Set: true, Kind: expand.Indexed, List: v.values}
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: v.values[min(e.variant, len(v.values)-1)]}
}

// Each makes e an expand.Environ.
func (e *evaluator) Each(func(string, expand.Variable) bool) {}

// script examines a script. It is walked twice if there is something to learn first: values of
// variables, functions, and the directories that loops change to.
func (e *evaluator) script(text string) {
	if e.depth++; e.depth > maxDepth {
		e.find("too-involved", "", "")
		return
	}
	defer func() { e.depth-- }()
	file, err := e.parser.Parse(strings.NewReader(text), "")
	if err != nil {
		e.find("unreadable", "", "")
		return
	}
	source, bytes, saves, start := e.source, e.bytes, e.saves, e.where
	defer func() { e.source, e.bytes, e.saves = source, bytes, saves }()
	e.source, e.bytes, e.saves = text, []byte(text), sync.OnceValue(func() bool { return e.table.patterns["keeps"].MatchString(text) })
	e.walk(file)
	if e.depth == 1 && e.again {
		e.made, e.targets, e.loads = nil, nil, nil
		e.findings, e.commands, e.network, e.downloads, e.loopback, e.unconfined, e.own, e.count, e.recorded = e.findings[:0], nil, false, false, nil, nil, nil, 0, 0
		clear(e.seen)
		e.where = start
		e.walk(file)
	}
}

// text examines a script that is the value of a word.
func (e *evaluator) text(script string) {
	if strings.Contains(script, hole) {
		e.find("unknown-command", "", "")
		return
	}
	e.script(script)
}

// walk examines a node and all below it, in the order of the text.
func (e *evaluator) walk(n syntax.Node) {
	syntax.Walk(n, e.visitor)
}

// visit examines a node. It returns false if what is below it has been examined, too.
func (e *evaluator) visit(n syntax.Node) bool {
	switch x := n.(type) {
	case *syntax.Stmt:
		e.statement(x)
		return false
	case *syntax.Assign:
		exports := e.exports
		syntax.Walk(x, func(n syntax.Node) bool { return n == x || n != nil && e.visit(n) })
		e.exports = exports
		e.assign(x)
		return false
	case *syntax.CmdSubst:
		e.output = hole
		read, piping := e.read, e.piping
		e.read, e.piping = map[string]int{}, false
		if e.apart(x.Stmts); len(x.Stmts) == 1 {
			e.substituted[x] = e.output
		}
		e.read, e.piping = read, piping // it ends before the command begins
		return false
	case *syntax.ProcSubst:
		if e.apart(x.Stmts); e.table.patterns["written"].MatchString(e.piece(x)) {
			e.find("run-code", "", "")
		}
		return false
	case *syntax.WordIter:
		for _, w := range x.Items {
			e.walk(w)
		}
		for _, words := range e.words(x.Items...) {
			for _, v := range words {
				e.set(x.Name.Value, v)
			}
		}
		return false
	case *syntax.UnaryArithm:
		e.counts(x.X)
	case *syntax.BinaryArithm:
		e.counts(x.X)
	}
	return true
}

// counts notes that a variable is a number.
func (e *evaluator) counts(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && w.Lit() != "" {
		e.set(w.Lit(), "0")
	}
}

// apart examines what runs in a shell of its own: a change of directory in it ends with it.
func (e *evaluator) apart(list []*syntax.Stmt) {
	at, piped := e.where, e.piped
	for _, s := range list {
		e.statement(s)
	}
	e.where, e.piped = at, piped
}

// body examines what runs several times, or where it is not seen.
func (e *evaluator) body(n syntax.Node) {
	if text := e.piece(n); (strings.Contains(text, "cd ") || strings.Contains(text, "pushd")) && changes.MatchString(text) {
		e.doubt = anyName
	}
	e.walk(n)
}

// changes matches what changes the directory, but not for a subshell only.
var changes = regexp.MustCompile(`(?:[;&|{\n]|\bdo|\bthen)\s*(?:cd|pushd|popd)\b`)

// pauses matches what makes a loop wait or end.
var pauses = regexp.MustCompile(`\b(?:break|exit|return|wait|read)\b|\bsleep [^&\n]*(?:&&|;|\n|$)`)

// statement examines a statement: its redirections, then its command.
func (e *evaluator) statement(s *syntax.Stmt) {
	at, piped, outer := e.where, e.piped, e.flow
	if !e.piping {
		e.flow = flow{before: e.reads}
	}
	script, targets := e.redirects(s.Redirs)
	switch x := s.Cmd.(type) {
	case *syntax.CallExpr:
		e.exports = len(x.Args) > 0
		for _, a := range x.Assigns {
			e.walk(a)
		}
		for _, w := range x.Args {
			if w.Lit() == "" {
				e.walk(w)
			}
		}
		e.output = hole
		for i, argv := range e.words(x.Args...) {
			if len(argv) > 0 && (i == 0 || argv[0] != "cd") {
				e.command(argv, script)
			}
		}
	case *syntax.BinaryCmd:
		e.binary(x)
	case *syntax.Subshell:
		e.apart(x.Stmts)
	case *syntax.FuncDecl:
		e.function(x)
	case *syntax.WhileClause:
		if text := e.piece(x); endless.MatchString(text) && !pauses.MatchString(text) {
			e.find("flood", "", "")
		}
		e.body(x)
	case *syntax.ForClause:
		if l, ok := x.Loop.(*syntax.CStyleLoop); ok && l.Cond == nil && !pauses.MatchString(e.piece(x)) {
			e.find("flood", "", "")
		}
		e.body(x)
	case nil:
	case *syntax.DeclClause:
		e.exports = x.Variant.Value != "local" && x.Variant.Value != "readonly"
		e.walk(x)
	default:
		e.walk(x)
	}
	e.keep(s, script, targets)
	if !e.piping {
		e.overwritten()
		e.flow = outer
	}
	if e.piped = piped; s.Background || s.Coprocess {
		e.background = true
		e.where = at
	}
}

// function examines the declaration of a function; it may have no name.
func (e *evaluator) function(x *syntax.FuncDecl) {
	if x.Name != nil {
		e.functions[x.Name.Value], e.again = true, true
		name := regexp.QuoteMeta(x.Name.Value)
		if again := regexp.MustCompile(`(?:^|[\s{;|&(])` + name + `\s*(?:\|[^|]|&(?:[^&]|$))`); again.MatchString(e.piece(x.Body)) {
			e.find("fork-bomb", "", "")
		}
	}
	e.body(x.Body)
}

// endless matches loops that do not end by themselves.
var endless = regexp.MustCompile(`^(?:while\s+(?:true|:|\[\s*\S+\s*\]|\(\(\s*\w+\s*\)\))|until\s+(?:false|\[\s*\]))\s*[;\n]`)

// piece returns the text of a node.
func (e *evaluator) piece(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	return e.source[min(from, len(e.source)):max(min(to, len(e.source)), min(from, len(e.source)))]
}

// input and output are the commands that redirections count as.
var input, output = &call{argv: []string{"<"}}, &call{argv: []string{">"}}

// redirects examines redirections. It returns the text of a here-document, and the files that
// are written.
func (e *evaluator) redirects(list []*syntax.Redirect) (script string, targets []string) {
	for _, r := range list {
		word, document := r.Word, r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc
		if document {
			word = cmp.Or(r.Hdoc, &syntax.Word{})
		}
		if word.Lit() == "" {
			e.walk(word)
		}
		if document || r.Op == syntax.WordHdoc {
			script = strings.Join(e.values(word, expand.Document), "\n")
			e.piped = hole
			continue
		}
		for _, t := range e.values(word, expand.Literal) {
			if r.Op == syntax.RdrIn {
				if e.piped = fed; t == "/dev/null" {
					e.piped = ""
				} else if _, ok := word.Parts[0].(*syntax.ProcSubst); ok {
					e.piped = e.output
				}
				if a, ok := e.device(t); ok && a.loopback {
					continue // whether a port is open
				}
				e.use(input, reads, t)
			} else if strings.Trim(t, "0123456789-") != "" {
				e.use(output, writes, t)
				p := e.resolve(t)
				targets = append(targets, p)
				if r.Op == syntax.AppOut || r.Op == syntax.AppAll {
					e.flow.appends = append(e.flow.appends, p)
				} else {
					e.flow.empties = append(e.flow.empties, p)
				}
				if path.Base(t) == listed && !strings.HasPrefix(t, "/") || strings.Contains(t, "*") {
					e.find("unknown-target", "", "")
				}
			}
		}
	}
	return script, targets
}

// keep remembers the text that a statement writes into files.
func (e *evaluator) keep(s *syntax.Stmt, script string, files []string) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if len(files) == 0 || !ok && s.Cmd != nil {
		return
	}
	program, empties := ":", false
	if ok && len(call.Args) > 0 {
		if program = call.Args[0].Lit(); program == "cat" && len(call.Args) == 2 && call.Args[1].Lit() == "/dev/null" {
			program, script = ":", ""
		}
	}
	switch program {
	case "cat", "tee":
		empties = script == "" && slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc })
	case "echo", "printf":
		script = strings.Join(e.words(call.Args[1:]...)[0], " ")
		empties = strings.Trim(script, " \t\n{}[]") == ""
	case ":", "true":
		script, empties = "", true
	default:
		script = hole
	}
	for _, p := range files {
		if empties && slices.Contains(e.flow.empties, p) && !strings.Contains(e.source, ">>") {
			e.empty(p)
		}
		if e.written[p] = script; script != hole && e.table.in("loads", path.Base(p)) {
			e.loads = append(e.loads, script)
		}
		if script != hole && e.table.patterns["written"].MatchString(script) && !e.table.in("prose", path.Ext(p)) {
			e.find("run-code", e.place.shown(p), "")
		}
	}
}

func (e *evaluator) binary(x *syntax.BinaryCmd) {
	at, piped, piping := e.where, e.piped, e.piping
	e.piping = piping || x.Op == syntax.Pipe || x.Op == syntax.PipeAll
	e.statement(x.X)
	doubt := e.doubt
	switch x.Op {
	case syntax.Pipe, syntax.PipeAll:
		e.where = at
		if e.piped = e.output; e.piped == hole {
			e.piped = fed
		}
		e.statement(x.Y)
		e.piped, e.where, e.piping = piped, at, piping
	case syntax.AndStmt: // Y runs only if X has changed the directory
		if e.doubt = at.doubt; entered(x.X) && !strings.Contains(e.dir, hole) {
			e.doubt = noName
		}
		e.statement(x.Y)
		e.doubt = max(e.doubt, doubt)
	case syntax.OrStmt:
		e.statement(x.Y)
		if c, ok := x.Y.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 && (c.Args[0].Lit() == "exit" || c.Args[0].Lit() == "return") {
			e.doubt = at.doubt
		}
	}
}

// entered reports whether a statement ends with a change to a directory that does not depend
// on the one before.
func entered(s *syntax.Stmt) bool {
	switch x := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		return x.Op == syntax.AndStmt && entered(x.Y)
	case *syntax.CallExpr:
		if n := len(x.Args); n == 2 && x.Args[0].Lit() == "cd" {
			return absolute(x.Args[1].Lit())
		}
	}
	return false
}

// assign examines the assignment to a variable. Some variables decide what programs run.
func (e *evaluator) assign(a *syntax.Assign) {
	if a.Name == nil || a.Naked {
		return
	}
	name := a.Name.Value
	if a.Value == nil && a.Array == nil {
		e.set(name, "")
		return
	}
	if a.Array != nil {
		v := variable{array: true, read: e.vars[name].read}
		e.again = e.again || v.read
		for _, el := range a.Array.Elems {
			if el.Value != nil {
				v.values = append(v.values, e.words(el.Value)[0]...)
			}
		}
		if e.vars[name] = v; len(v.values) > 0 {
			e.variable(name, v.values[0])
		}
		return
	}
	for _, v := range e.values(a.Value, expand.Literal) {
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
	case e.table.patterns["setting-of-variable"].MatchString(name + "=" + v):
	case e.table.in("environment", name), e.table.patterns["variable"].MatchString(name + "=" + v),
		e.exports && !e.table.patterns["data-of-variable"].MatchString(name+"="+v) && name+"="+v != "HOME="+e.place.home && e.foreign(v):
		e.find("environment", name, "")
	case ok && !at.public && lower != "no_proxy" && (!at.loopback || strings.HasSuffix(lower, "_proxy")):
		e.find("address", at.String(), "")
	}
}

// foreign reports whether a value names a file outside the workspace, where others may have put
// it.
func (e *evaluator) foreign(value string) bool {
	return slices.ContainsFunc(pathsIn(value), func(name string) bool {
		p := e.resolve(name)
		return absolute(name) && e.written[p] == "" && !slices.Contains(e.made, p) && (e.ruleOf(p, reads) != "" || underAny(p, e.table.sets["temporary"]) || under(p, "/opt"))
	})
}
