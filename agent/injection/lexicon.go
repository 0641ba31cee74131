package injection

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

var (
	//go:embed lexicon.txt
	lexiconText string
	//go:embed rules.txt
	rulesText string
)

// A set is a set of word classes.
type set [7]uint64

func (s *set) add(n int) { s[n/64] |= 1 << (n % 64) }

func (s *set) intersects(o *set) bool {
	return s[0]&o[0]|s[1]&o[1]|s[2]&o[2]|s[3]&o[3]|s[4]&o[4]|s[5]&o[5]|s[6]&o[6] != 0
}

// union returns the union of both sets; it changes neither.
func (s *set) union(o *set) *set {
	out := *s
	for i := range out {
		out[i] |= o[i]
	}
	return &out
}

// A phrase is a sequence of words that is looked up by the last one.
type phrase struct {
	before  []string
	classes set
}

// A slot is one keyword of a rule.
type slot struct {
	classes set
	gap     int // maximum number of words between it and the previous slot
}

// A rule is a sequence of keywords that makes a finding.
type rule struct {
	id         string
	slots      []slot
	first      int  // index of its first slot among the slots of all rules
	imperative bool // applies only at the beginning of a sentence, or after phrases such as "you must"
	negatable  int  // a negation at most this many words before cancels the match
	flags      map[string]bool
}

type lexicon struct {
	numbers   map[string]int
	words     map[string]*set
	none      *set                // classes of a word without classes
	phrases   map[string][]phrase // by last word
	rules     []rule
	byLetters map[[16]byte]string // keywords by sortedLetters
	buffers   sync.Pool           // of *buffer
	slots     int                 // number of slots of all rules
	uses      [][3]uint64         // by class: bit set of the rules that use it
	paths     map[string]bool     // words that may be part of the path of a secret file
	report    set
	caution   set
	foreign   set
	neg       set
	between   set
	lead      set
	secret    set
	key       set
}

// loadLexicon parses the embedded lexicon and rules once. Both are part of the program, so
// a mistake in them is a broken invariant.
var loadLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{numbers: map[string]int{}, words: map[string]*set{}, none: &set{}, phrases: map[string][]phrase{}, paths: map[string]bool{}, byLetters: map[[16]byte]string{}}
	for line := range strings.Lines(lexiconText) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, list, ok := strings.Cut(line, " = ")
		if !ok {
			panic("injection: lexicon.txt: " + line)
		}
		for w := range strings.FieldsSeq(list) {
			l.addWord(name, w)
		}
	}
	for line := range strings.Lines(rulesText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			l.rules = append(l.rules, l.rule(line))
		}
	}
	l.index()
	for _, class := range []string{"STRONG", "PRIOR", "INSTR", "SAFETY"} {
		n := l.numbers[class]
		for w, c := range l.words {
			if key, ok := sortedLetters(w); ok && c[n/64]>>(n%64)&1 != 0 {
				l.byLetters[key] = w
			}
		}
	}
	for _, w := range strings.Fields("env credentials netrc pgpass npmrc pypirc rsa ed25519 ecdsa dsa shadow hosts secrets secret keys config private production local mcp ssh aws gnupg docker kube") {
		l.paths[w] = true
	}
	for name, s := range map[string]*set{
		"REPORT": &l.report, "CAUTION": &l.caution, "FOREIGN": &l.foreign, "NEG": &l.neg, "BETWEEN": &l.between, "LEAD": &l.lead,
		"SECRETFILE": &l.secret, "KEYFILE": &l.key,
	} {
		s.add(l.number(name))
	}
	return l
})

// index numbers the slots and records which rules use which class.
func (l *lexicon) index() {
	l.uses = make([][3]uint64, 64*len(set{}))
	if len(l.rules) > 64*len(l.uses[0]) {
		panic("injection: too many rules")
	}
	for n := range l.rules {
		l.rules[n].first = l.slots
		l.slots += len(l.rules[n].slots)
		for _, s := range l.rules[n].slots {
			for class := range l.uses {
				if s.classes[class/64]>>(class%64)&1 != 0 {
					l.uses[class][n/64] |= 1 << (n % 64)
				}
			}
		}
	}
}

func (l *lexicon) rulesFor(classes *set) (rules [3]uint64) {
	for i, some := range classes {
		for ; some != 0; some &= some - 1 {
			u := &l.uses[i*64+bits.TrailingZeros64(some)]
			rules[0] |= u[0]
			rules[1] |= u[1]
			rules[2] |= u[2]
		}
	}
	return rules
}

// number returns the number of a class; an unknown name gets a new number.
func (l *lexicon) number(name string) int {
	n, ok := l.numbers[name]
	if !ok {
		n = len(l.numbers)
		if n >= 64*len(set{}) {
			panic("injection: too many classes")
		}
		l.numbers[name] = n
	}
	return n
}

// addWord adds a word, or a phrase with underscores, to a class.
func (l *lexicon) addWord(class, w string) {
	n := l.number(class)
	parts := strings.Split(w, "_")
	last := parts[len(parts)-1]
	if len(parts) == 1 {
		if l.words[w] == nil {
			l.words[w] = &set{}
		}
		l.words[w].add(n)
		return
	}
	p := phrase{before: parts[:len(parts)-1]}
	p.classes.add(n)
	l.phrases[last] = append(l.phrases[last], p)
	if _, ok := l.words[last]; !ok {
		l.words[last] = &set{}
	}
}

// rule parses "id [imp] [neg=N] [flag]: SLOT SLOT<gap …", in which a slot is the name of a
// class, a word in lower case, or several of them separated by |.
func (l *lexicon) rule(line string) rule {
	head, body, ok := strings.Cut(line, ": ")
	if !ok {
		panic("injection: rules.txt: " + line)
	}
	f := strings.Fields(head)
	r := rule{id: f[0], negatable: 1, flags: map[string]bool{}}
	for _, opt := range f[1:] {
		switch value, isNeg := strings.CutPrefix(opt, "neg="); {
		case opt == "imp":
			r.imperative = true
		case isNeg:
			r.negatable, _ = strconv.Atoi(value)
		default:
			r.flags[opt] = true
		}
	}
	for w := range strings.FieldsSeq(body) {
		name, gap, ok := strings.Cut(w, "<")
		s := slot{gap: 8}
		if ok {
			n, err := strconv.Atoi(gap)
			if err != nil {
				panic(fmt.Sprintf("injection: rules.txt: %s: %v", line, err))
			}
			s.gap = n
		}
		for alt := range strings.SplitSeq(name, "|") {
			if alt == strings.ToLower(alt) {
				l.addWord("'"+alt, alt)
				alt = "'" + alt
			} else if _, ok := l.numbers[alt]; !ok && alt != "SECRETFILE" && alt != "KEYFILE" && alt != "URL" {
				panic("injection: rules.txt: no class " + alt)
			}
			s.classes.add(l.number(alt))
		}
		r.slots = append(r.slots, s)
	}
	return r
}

// classify sets the classes of word i, including those of phrases that end with it.
func (s *scan) classify(i int) {
	w := &s.list[i]
	w.classes = s.lex.none
	c, known := s.lex.words[w.text]
	if !known {
		if p, ok := undisguise(w.text); ok {
			w.text = p
			c, known = s.lex.words[p]
		}
	}
	if !known {
		if key, ok := sortedLetters(w.text); ok {
			if p, ok := s.lex.byLetters[key]; ok {
				c, known = s.lex.words[p], true
				w.text = p
			}
		}
	}
	if known {
		w.classes = c
		for _, p := range s.lex.phrases[w.text] {
			if s.follows(i, p.before) {
				w.classes = w.classes.union(&p.classes)
				w.from = min(w.from, i-len(p.before))
			}
		}
	}
	if s.lex.paths[w.text] {
		s.secretPath(w)
	}
}

// follows reports whether word i directly follows the words before, without an end of a
// sentence between them.
func (s *scan) follows(i int, before []string) bool {
	n := len(before)
	if i < n || s.list[i].pos-s.list[i-n].pos != n {
		return false
	}
	for k, b := range before {
		if s.list[i-n+k].text != b {
			return false
		}
	}
	return true
}

// Version identifies the patterns that Scan looks for: results of another version may
// differ.
func Version() string {
	sum := sha256.Sum256([]byte(lexiconText + rulesText))
	return hex.EncodeToString(sum[:8])
}
