// Package cmdpolicy classifies command lines before they run: allowed, dangerous (an
// approval is needed) or blocked. The main function is Evaluate. It reads a command as a
// shell would, through quotes, variables, pipes, substitutions and programs that run other
// programs, and returns the reasons as texts for the user.
//
// Only the text is examined. What a script or a program does once it runs is unknown, so an
// allowed command is not a safe command: isolation is the task of the sandbox, not of this
// package. A command that cannot be determined in advance is dangerous.
//
// A result applies to the exact bytes of the command; no rewritten command is returned.
// Evaluate always returns, is deterministic and bounded in time for any input, and may be
// called from any goroutine.
package cmdpolicy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Class is the classification of a command. Higher values are more restrictive.
type Class int

// The classes.
const (
	Allowed   Class = iota // runs
	Dangerous              // runs only with a user's approval
	Blocked                // never runs
)

func (c Class) String() string {
	switch c {
	case Allowed:
		return "allowed"
	case Dangerous:
		return "dangerous"
	case Blocked:
		return "blocked"
	}
	return "unknown class"
}

// A Result is the classification of a command. It contains everything that was found, the
// most restrictive first, then in the order of Rules.
type Result struct {
	Class   Class
	Reasons []string // texts for the user, one for each of Rules; WithAddresses adds addresses
	Rules   []string // names of Rules()
	// ApprovalKey identifies the commands covered by an approval for the session or for
	// always: those with the same key. "": an approval covers only this command, once.
	ApprovalKey string
	// Addresses lists the addresses that the command names and that are not public. They
	// have no influence on the other fields; see WithAddresses.
	Addresses []Address
	// Commands are the commands that were found, with their arguments and without quotes, as
	// far as they are known; see Denied.
	Commands []string
}

// Limits of one evaluation. A command that exceeds them is dangerous.
const (
	MaxLength  = 64 << 10 // bytes of a command
	maxSteps   = 10_000   // syntax nodes that are examined
	maxDepth   = 24       // nested shells and functions
	maxValues  = 8        // values of one variable
	maxChoices = 48       // combinations of values in one command
	maxFields  = 96       // words to which one word expands
	maxText    = 64 << 10 // bytes of any value that is tracked
	maxKey     = 300      // bytes of a key
)

// Evaluate classifies a command that would be passed to sh or bash in p. Names of files are
// resolved against p; symbolic links are not followed.
func Evaluate(command string, p Place) Result {
	if len(command) > MaxLength {
		j := newEvaluator(p)
		j.hit("too-long", "", "")
		j.scanText(command[:MaxLength])
		return j.verdict()
	}
	j := newEvaluator(p)
	clean, hidden := visible(command)
	run := func() {
		if hidden {
			j.hit("hidden-characters", "", "")
		}
		j.safely(clean)
	}
	run() // once to learn the variables, functions and files
	j.again()
	run()
	return j.verdict()
}

// visible returns the command without the characters that we use as marks, and
// whether it holds characters that a person does not see as what they are.
func visible(command string) (string, bool) {
	hidden := !utf8.ValidString(command)
	clean := strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) && r != '\n' && r != '\t') || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) ||
			(unicode.IsSpace(r) && r > unicode.MaxASCII) {
			hidden = true
		}
		if r <= one {
			return -1
		}
		return r
	}, command)
	return clean, hidden
}

// safely judges a script. A fault of the reader itself is something that cannot
// be told, not the end of the program.
func (j *evaluator) safely(script string) {
	defer func() {
		if recover() != nil {
			j.hit("unreadable", "", "")
			j.scanText(script)
		}
	}()
	j.script(script, text{kind: none})
}

// A hit is one thing that was found.
type hit struct {
	rule    int // index into rules
	program string
	detail  string // what leave is bound to, beyond the program
}

// hit notes that a rule holds. program and detail narrow down what leave covers.
func (j *evaluator) hit(rule, program, detail string) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == rule })
	if i < 0 {
		i = 0 // a slip of ours: the rule for what cannot be told
	}
	h := hit{i, program, printable(detail)}
	if strings.ContainsRune(detail, hole) {
		j.once = true
	}
	if len(j.hits) < maxFields && !slices.Contains(j.hits, h) {
		j.hits = append(j.hits, h)
	}
}

func (j *evaluator) verdict() Result {
	slices.SortStableFunc(j.hits, func(a, b hit) int {
		if c := int(rules[b.rule].Class) - int(rules[a.rule].Class); c != 0 {
			return c
		}
		return a.rule - b.rule
	})
	v := Result{Commands: j.ran}
	var keys []string
	once := j.once
	for _, h := range j.hits {
		r := rules[h.rule]
		v.Class = max(v.Class, r.Class)
		if !slices.Contains(v.Rules, r.Name) {
			v.Rules, v.Reasons = append(v.Rules, r.Name), append(v.Reasons, r.Description)
		}
		key := r.Name + ":" + h.program
		switch r.Scope {
		case ThisCommand:
			once = true
		case SameTargets:
			key += ":" + h.detail
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if key := strings.Join(keys, "\n"); v.Class == Dangerous && !once && len(key) <= maxKey {
		v.ApprovalKey = key
	}
	v.Addresses = j.named.addresses()
	return v
}
