// Package cmdpolicy decides what happens before a command line runs: it runs, a user is
// asked, or it never runs. The main function is Evaluate.
//
// The command line is parsed, not evaluated. Each command in it is looked up in a table
// (table.txt): the table says which options and operands stay harmless. What the table does
// not know needs an approval, unless a sandbox confines it: then it runs without network. A
// word whose value only the shell can tell is unknown.
//
// The sandbox is the protection. Only words are examined here; what a program does once it
// runs is not known. Symbolic links are not followed, names of hosts are not resolved.
//
// Evaluate is deterministic, takes time linear in the length of the command, returns for any
// input, and may be called from any goroutine.
package cmdpolicy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A Decision is what happens before a command. Higher values are more restrictive.
type Decision int

// The decisions.
const (
	Run   Decision = iota // it runs
	Ask                   // it runs only with a user's approval
	Block                 // it never runs
)

var decisions = []string{"run", "ask", "block"}

func (d Decision) String() string { return decisions[d] }

// A Sandbox is what confines commands.
type Sandbox int

// The kinds of sandboxes.
const (
	NoSandbox Sandbox = iota
	Landlock          // restricts which files are opened; no mount namespace
	Full              // a mount namespace, and a network namespace for each command
)

var sandboxes = []string{"none", "landlock", "full"}

func (s Sandbox) String() string { return sandboxes[s] }

// ParseSandbox returns the kind of sandbox with a name: none, landlock or full.
func ParseSandbox(name string) (Sandbox, error) {
	if i := slices.Index(sandboxes, name); i >= 0 {
		return Sandbox(i), nil
	}
	return 0, fmt.Errorf("unknown sandbox %q: use none, landlock or full", name)
}

// A Place says where a command runs, what confines it, and what was approved. All paths are
// absolute. The zero Place is a directory of which nothing is known, without a sandbox.
type Place struct {
	Dir       string   // the directory in which the command runs
	Workspace []string // names of the directory in which commands work, the one without symbolic links first; nil: Dir
	Homes     []string // names of the user's home directory; "~" is the first one
	// Own lists files and directories of the daemon. What is in Workspace is excepted from a
	// directory that contains Workspace.
	Own []string
	// Readable lists directories outside the workspace that commands may read.
	Readable []string
	// Instructs reports whether agents read the file at a path as instructions, so that a
	// change needs an approval; nil: no file.
	Instructs func(path string) bool

	Sandbox   Sandbox
	NoNetwork bool // no command has the network, whatever the result says
	// NeedsNetwork says that the command was announced to need the network: a program that
	// would run without it needs an approval.
	NeedsNetwork bool
	// Listening reports whether a background process of the conversation listens on a port of
	// this machine; nil: none does.
	Listening func(port uint16) bool
	// Approved reports whether a shape was approved; nil: none was.
	Approved func(shape string) bool
	Table    *Table // nil: the built-in table
}

// A Result is the decision about a command line, with everything that led to it.
type Result struct {
	Decision Decision
	Rules    []string // names of Rules, the most restrictive first
	Reasons  []string // texts for the user, one for each of Rules
	Details  []string // the programs, files and addresses that Reasons are about
	// Shapes says what an approval covers: later commands all of whose shapes were approved.
	// Empty: an approval covers only this command, once.
	Shapes []string
	// Network reports whether the command has the network when it runs.
	Network bool
	// Commands lists the commands that were found, without quotes, as far as their words are
	// known; see Denied.
	Commands []string
}

// Limits of one evaluation.
const (
	MaxLength   = 64 << 10 // bytes of a command; a longer one needs an approval
	maxCommands = 2000     // commands that are examined in one command line
	maxDepth    = 6        // scripts within scripts
	maxValues   = 16       // values of one word
	maxValue    = 1 << 10  // bytes of a value
	maxShape    = 300      // bytes of a shape
	maxDetails  = 8
)

// Evaluate decides about a command line that is given to bash in p.
func Evaluate(command string, p Place) Result {
	e := newEvaluator(p)
	if len(command) > MaxLength {
		e.find("too-long", "", "")
		return e.result()
	}
	e.script(command)
	for _, t := range e.table.texts {
		if t.in(command) {
			e.find(t.rule, "", "")
		}
	}
	if hasHiddenCharacters(command) {
		e.find("hidden-characters", "", "")
	}
	return e.result()
}

// hasHiddenCharacters reports whether text holds characters that a person does not see as
// what they are.
func hasHiddenCharacters(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		if r <= unicode.MaxASCII {
			return (r < ' ' || r == 0x7f) && r != '\n' && r != '\t'
		}
		return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || unicode.IsSpace(r)
	})
}

// A finding is one thing that needs an approval or is blocked.
type finding struct {
	rule   *Rule
	detail string
	shape  string // "": only this command, once
}

// A pending is a command that needs an approval if it has the network.
type pending struct {
	*call
	late bool // the command line has downloaded something before
}

// An evaluator collects the findings of one command line.
type evaluator struct {
	place    place
	table    *Table
	findings []finding
	commands []string
	seen     map[string]bool // commands
	recorded int             // bytes of commands
	parser   *syntax.Parser
	visitor  func(syntax.Node) bool // visit
	config   expand.Config
	depth    int
	count    int         // of commands
	source   string      // the text of the script
	bytes    []byte      // the same
	saves    func() bool // reports whether the script saves what it downloads

	where
	vars      map[string]variable // those that the command line sets
	variant   int                 // the value of each variable that counts now
	variants  int                 // the values of the variable with the most
	functions map[string]bool
	written   map[string]string // the text that the command line writes into files
	read      map[string]int    // files, and the number of the read
	reads     int
	flow      flow // of the pipeline
	piping    bool // the statement is a part of a pipeline
	// output is what the last command prints: hole, a word, or a file below this directory.
	// piped is what the command reads of a pipe.
	output, piped string
	exports       bool                        // programs see the variable that is assigned
	substituted   map[*syntax.CmdSubst]string // the output of substitutions
	again         bool                        // the first pass has not known all that it needs
	background    bool                        // a command runs in the background
	made          []string                    // files that options of commands name as output
	targets       []string                    // of mv
	loads         []string                    // texts of new files that the next build or test loads by itself
	used          map[use]string              // the rules that hold for paths

	network    bool      // a command of the table or an approved one uses the network
	downloads  bool      // a command fetches what the next one could run
	loopback   []finding // addresses of this machine that commands of the table connect to
	unconfined []pending // programs that the table does not know, and scripts
	own        []pending // programs of the project that rows start without the network
}

func newEvaluator(p Place) *evaluator {
	e := &evaluator{place: newPlace(p), table: p.Table, parser: syntax.NewParser(syntax.Variant(syntax.LangBash)), vars: map[string]variable{}, functions: map[string]bool{}, substituted: map[*syntax.CmdSubst]string{}, written: map[string]string{}, read: map[string]int{}, used: map[use]string{}, seen: map[string]bool{}}
	if e.table == nil {
		e.table = builtIn()
	}
	for _, dir := range e.table.sets["secret"] {
		e.place.secret = append(e.place.secret, strings.Replace(dir, "~", e.place.home, 1))
	}
	e.piped, e.config.Env, e.dir, e.visitor = hole, e, e.place.dir, e.visit
	for _, v := range e.table.sets["variables"] {
		name, value, _ := strings.Cut(v, "=")
		e.set(name, value)
	}
	e.set("HOME", e.place.home)
	return e
}

// find notes that a rule holds. A shape that was approved cancels the finding.
func (e *evaluator) find(rule, detail, shape string) {
	r := e.table.rule(rule)
	if r.Decision == Block || e.table.in("once", rule) || strings.ContainsAny(shape, hole+measured) || len(shape) > maxShape {
		shape = ""
	}
	if shape != "" {
		if shape += " in " + e.place.workspace; e.place.Approved != nil && e.place.Approved(shape) {
			e.network = e.network || e.table.in("network", rule)
			return
		}
	}
	if e.place.NoNetwork && (rule == "address" || rule == "unknown-data") {
		return // nothing is reached
	}
	f := finding{rule: r, detail: shown.Replace(detail), shape: shape}
	if !slices.Contains(e.findings, f) {
		e.findings = append(e.findings, f)
	}
}

// shown replaces the marks of what is not known.
var shown = strings.NewReplacer(hole, "…", measured, "…")

// result returns the decision from the findings.
func (e *evaluator) result() Result {
	confined := e.place.Sandbox == Full
	if !confined || !e.background || e.network { // else they are those of the command's own network
		e.findings = append(e.findings, e.loopback...)
		e.network = e.network || len(e.loopback) > 0
	}
	network := !confined || e.network || e.place.NeedsNetwork || slices.ContainsFunc(e.findings, func(f finding) bool { return e.table.in("network", f.rule.Name) })
	if e.place.NeedsNetwork {
		e.unconfined = append(e.unconfined, e.own...)
	}
	for _, u := range e.unconfined {
		if u.late {
			e.find("run-downloaded", title(u.argv, u.row), "")
		} else if confined && network && !e.place.NoNetwork {
			e.find("unknown-network", title(u.argv, u.row), u.shape())
		}
	}
	slices.SortStableFunc(e.findings, func(a, b finding) int { return int(b.rule.Decision) - int(a.rule.Decision) })
	r := Result{Commands: e.commands, Network: network && !e.place.NoNetwork}
	once := false
	for _, f := range e.findings {
		r.Decision = max(r.Decision, f.rule.Decision)
		if !slices.Contains(r.Rules, f.rule.Name) {
			r.Rules, r.Reasons = append(r.Rules, f.rule.Name), append(r.Reasons, f.rule.Description)
		}
		if f.detail != "" && len(r.Details) < maxDetails && !slices.Contains(r.Details, f.detail) {
			r.Details = append(r.Details, f.detail)
		}
		if once = once || f.shape == ""; !slices.Contains(r.Shapes, f.shape) {
			r.Shapes = append(r.Shapes, f.shape)
		}
	}
	if slices.Sort(r.Shapes); once || len(r.Shapes) > maxDetails {
		r.Shapes = nil
	}
	return r
}
