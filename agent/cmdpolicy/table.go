package cmdpolicy

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed table.txt
var builtInText string

// A Rule says why a command needs an approval or is blocked.
type Rule struct {
	Name        string
	Decision    Decision
	Description string // text for the user: "it …"
}

// A Table says which commands are known, and how their options and operands are treated.
// Its rows are described in table.txt. A Table is never changed.
type Table struct {
	rows     map[string][]*row // by program; the longest first
	rules    []*Rule
	patterns map[string]*regexp.Regexp
	sets     map[string][]string
	members  map[[2]string]bool // set and word
	texts    []text
}

// A text is an expression that no command line may match. What it matches contains one of
// parts, which are cheaper to search for.
type text struct {
	rule  string
	parts []string
	re    *regexp.Regexp
}

func (t text) in(line string) bool {
	return slices.ContainsFunc(t.parts, func(p string) bool { return strings.Contains(line, p) }) && t.re.MatchString(line)
}

// in reports whether a set has a word.
func (t *Table) in(set, word string) bool { return t.members[[2]string{set, word}] }

// A row is one known command.
type row struct {
	words    []string // subcommand words after the program
	kind     string
	rule     string // of the kinds ask and block: why; of others: why a refused option needs an approval
	attrs    map[string][]string
	patterns map[string]*regexp.Regexp
	takes    map[string]string // options with a value, and the attribute that names them
	letters  string            // the short ones of these
	allowed  []string          // options; nil: all
	refused  []string          // options
}

func (r *row) is(attribute string) bool { return r != nil && r.attrs[attribute] != nil }

func (r *row) lists(attribute, option string) bool {
	return slices.Contains(r.attrs[attribute], option)
}

// valued reports whether an option is followed by a value.
func (r *row) valued(o string) bool { return r.takes[o] != "" }

// matches reports whether a word matches a pattern of the row; any does if it has none.
func (r *row) matches(pattern, word string) bool {
	re := r.patterns[pattern]
	return re == nil || re.MatchString(word)
}

var builtIn = sync.OnceValue(func() *Table {
	t := &Table{rows: map[string][]*row{}, patterns: map[string]*regexp.Regexp{}, sets: map[string][]string{}, members: map[[2]string]bool{}}
	for line := range strings.Lines(builtInText) {
		if err := t.add(line); err != nil {
			panic("cmdpolicy: table.txt: " + err.Error())
		}
	}
	return t
})

// NewTable returns the built-in table with additional rows. A row replaces a built-in one
// for the same program and subcommand. The error names the row.
func NewTable(rows []string) (*Table, error) {
	b := builtIn()
	t := &Table{rows: make(map[string][]*row, len(b.rows)), rules: b.rules, patterns: b.patterns, sets: b.sets, members: b.members, texts: b.texts}
	for program, rs := range b.rows {
		t.rows[program] = slices.Clone(rs)
	}
	for _, line := range rows {
		if verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); slices.Contains([]string{"rule", "pattern", "set", "text"}, verb) {
			return nil, fmt.Errorf("row %q: only commands can be added, not a %s", line, verb)
		}
		if err := t.add(line); err != nil {
			return nil, fmt.Errorf("row %q: %w", line, err)
		}
	}
	for program, rs := range b.rows {
		for _, r := range rs {
			if r.kind == "block" && !slices.Contains(t.rows[program], r) {
				return nil, fmt.Errorf("%s: what never runs cannot be changed", strings.Join(append([]string{program}, r.words...), " "))
			}
		}
	}
	return t, nil
}

// rule returns the rule with a name; nil if there is none.
func (t *Table) rule(name string) *Rule {
	if i := slices.IndexFunc(t.rules, func(r *Rule) bool { return r.Name == name }); i >= 0 {
		return t.rules[i]
	}
	return nil
}

// add adds one line of a table.
func (t *Table) add(line string) error {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return nil
	}
	fields := strings.Fields(line)
	switch {
	case len(fields) == 0:
		return nil
	case fields[0] == "rule":
		d := slices.Index(decisions, fields[2])
		t.rules = append(t.rules, &Rule{fields[1], Decision(d), strings.Join(fields[3:], " ")})
		return nil
	case fields[0] == "set":
		t.sets[fields[1]] = append(t.sets[fields[1]], fields[2:]...)
		for _, word := range fields[2:] {
			t.members[[2]string{fields[1], word}] = true
		}
		return nil
	case fields[0] == "pattern":
		expr := strings.Join(fields[2:], " ")
		if inner, ok := strings.CutPrefix(expr, ".*"); ok && (inner == "" || strings.HasSuffix(inner, ".*")) {
			expr = "(?s)" + strings.TrimSuffix(inner, ".*")
		} else {
			expr = "(?s)^(?:" + expr + ")$"
		}
		re, err := regexp.Compile(expr)
		t.patterns[fields[1]] = re
		return err
	case fields[0] == "text":
		re, err := regexp.Compile(strings.Join(fields[3:], " "))
		t.texts = append(t.texts, text{fields[1], strings.Split(fields[2], ","), re})
		return err
	}
	return t.addRow(fields)
}

var kinds = []string{"print", "list", "read", "write", "delete", "build", "script", "wrap", "shell", "ask", "block", "global"}

func (t *Table) addRow(fields []string) error {
	i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, ":") && !strings.HasSuffix(f, ":") })
	if i < 1 {
		return errors.New("it has no kind: write PROGRAM [SUBCOMMAND] :KIND [OPTION]…, for example \"kubectl get :read net\"")
	}
	r := &row{kind: fields[i][1:], attrs: map[string][]string{}, patterns: map[string]*regexp.Regexp{}, takes: map[string]string{}}
	if !slices.Contains(kinds, r.kind) {
		return fmt.Errorf("unknown kind %q: use one of %s", r.kind, strings.Join(kinds, ", "))
	}
	for _, f := range fields[i+1:] {
		if err := t.attribute(r, f); err != nil {
			return err
		}
	}
	for _, key := range []string{"val", "text", "query"} {
		for _, o := range r.attrs[key] {
			if r.takes[o] = key; utf8.RuneCountInString(o) == 2 && o[0] == '-' {
				r.letters += o[1:]
			}
		}
	}
	if r.patterns["value"] == nil {
		r.patterns["value"] = t.patterns["query"]
	}
	if (r.kind == "ask" || r.kind == "block") && r.rule == "" {
		if r.rule = "listed"; r.kind == "block" {
			r.rule = "forbidden"
		}
	}
	combinations := [][]string{nil}
	for _, f := range fields[:i] {
		var next [][]string
		for _, word := range strings.Split(f, ",") {
			for _, c := range combinations {
				next = append(next, append(slices.Clone(c), word))
			}
		}
		combinations = next
	}
	for _, c := range combinations {
		one := *r
		one.words = c[1:]
		rows := slices.DeleteFunc(t.rows[c[0]], func(o *row) bool {
			return slices.Equal(o.words, one.words) && (o.kind == "global") == (one.kind == "global")
		})
		rows = append(rows, &one)
		slices.SortStableFunc(rows, func(a, b *row) int { return len(b.words) - len(a.words) })
		t.rows[c[0]] = rows
	}
	return nil
}

// attribute reads what follows the kind of a row.
func (t *Table) attribute(r *row, f string) error {
	key, value, _ := strings.Cut(f, "=")
	switch {
	case strings.HasPrefix(f, "!-"):
		r.refused = append(r.refused, f[1:])
	case strings.HasPrefix(f, "-"):
		r.allowed = append(r.allowed, f)
	case t.in("tests", key):
		if r.patterns[key] = t.patterns[value]; r.patterns[key] == nil {
			return fmt.Errorf("unknown pattern %q", value)
		}
	case key == "rule" || key == "root":
		if t.rule(value) == nil {
			return fmt.Errorf("unknown rule %q", value)
		}
		if r.attrs[key] = []string{value}; key == "rule" {
			r.rule = value
		}
	case t.in("attributes", key):
		r.attrs[key] = strings.Split(value, ",")
	default:
		return fmt.Errorf("unknown word %q after the kind", f)
	}
	return nil
}

var dryRun = regexp.MustCompile(`^--dry-?run(=client|=server|=true)?$`)

var version = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)*$`)

// lookup returns the row of a command and the arguments after its subcommand words; nil if
// the table does not know it. before are the options before the subcommand.
func (t *Table) lookup(argv []string) (r *row, args, before []string) {
	rows := t.rows[path.Base(argv[0])]
	if rows == nil { // python3.12, clang-15
		rows = t.rows[version.ReplaceAllString(path.Base(argv[0]), "")]
	}
	args = argv[1:]
	if i := slices.IndexFunc(rows, func(r *row) bool { return r.kind == "global" }); i >= 0 {
		n := rows[i].leading(args)
		before, args = args[:n], args[n:]
	}
	for _, r := range rows {
		if r.kind != "global" && len(args) >= len(r.words) && slices.Equal(args[:len(r.words)], r.words) {
			if t.shows(r, argv, args) {
				if !t.in("network", r.rule) {
					return t.rows["**"][0], args, before
				}
				return t.rows["*"][0], args, before
			}
			return r, args[len(r.words):], before
		}
	}
	return nil, argv[1:], nil
}

// asks reports whether a command always asks or never runs, by whatever path it is called:
// because of its subcommand, or of an argument that its row names as harmful.
func (t *Table) asks(argv []string) bool {
	r, args, _ := t.lookup(argv)
	return r != nil && (len(r.words) > 0 && (r.kind == "ask" || r.kind == "block") || r.kind == "build" && slices.ContainsFunc(args, r.forbids))
}

// shows reports whether a program that otherwise asks only shows something.
func (t *Table) shows(r *row, argv, args []string) bool {
	if r.kind != "ask" || r.is("always") || len(r.words) > 1 || !t.in("shows", r.rule) || slices.ContainsFunc(args, t.patterns["confidential"].MatchString) {
		return false
	}
	if (r.rule == "infrastructure" || r.rule == "remote") && slices.ContainsFunc(args, dryRun.MatchString) {
		return true
	}
	words := append(slices.Clone(r.words), args...)
	shows := t.patterns["shows"].MatchString
	if len(words) > 2 && t.in("three", path.Base(argv[0])) && subcommand.MatchString(words[1]) && words[2] == "list" {
		return true
	}
	return len(words) > 0 && len(r.words) == 0 && shows(words[0]) || len(words) > 1 && t.in("two", path.Base(argv[0])) && subcommand.MatchString(words[0]) && shows(words[1])
}

// leading returns how many of args are options of the row, with their values.
func (r *row) leading(args []string) int {
	n := 0
	for n < len(args) && len(args[n]) > 1 && args[n][0] == '-' && r.permits(args[n]) {
		if n++; r.valued(args[n-1]) && n < len(args) {
			if n++; !r.matches("args", args[n-1]) {
				return 0
			}
		}
	}
	return n
}

// forbids reports whether the row names an argument as harmful.
func (r *row) forbids(arg string) bool {
	return r.patterns["never"] != nil && r.matches("never", arg) || strings.HasPrefix(arg, "-") && len(r.refused) > 0 && !r.permits(arg) && !strings.Contains(arg, hole)
}

// permits reports whether an option is one that the row allows.
func (r *row) permits(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	if strings.Contains(name, hole) {
		return len(r.allowed) == 0 && len(r.refused) == 0
	}
	long := strings.HasPrefix(name, "--")
	for _, f := range r.refused {
		switch {
		case name == f, len(f) > 2 && long && len(name) > 3 && strings.HasPrefix(f, name): // also abbreviated
			return false
		case len(f) == 2 && !long && !r.is("long") && strings.ContainsRune(r.cluster(name), rune(f[1])):
			return false
		}
	}
	if len(r.allowed) == 0 || slices.Contains(r.allowed, name) || slices.Contains(r.allowed, option) {
		return true
	}
	if long {
		return false
	}
	return !strings.ContainsFunc(r.cluster(name), func(c rune) bool {
		return !slices.Contains(r.allowed, "-"+string(c)) && (c < '0' || c > '9')
	})
}

// cluster returns the letters of a word of short options, without the value of the last one.
func (r *row) cluster(name string) string {
	letters := strings.TrimPrefix(name, "-")
	if i := strings.IndexAny(letters, r.letters); i >= 0 {
		_, n := utf8.DecodeRuneInString(letters[i:])
		return letters[:i+n]
	}
	return letters
}
