package yamlconf_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/internal/secret"
)

type kind string

// everything has a key of each type.
type everything struct {
	Text    string            `yaml:"text" default:"a b" doc:"A text."`
	Choice  kind              `yaml:"choice" default:"one" enum:"one|two|off" doc:"A choice."`
	Truth   bool              `yaml:"truth" default:"true" doc:"A truth."`
	Int     int               `yaml:"int" default:"3" range:"..10" doc:"A number."`
	Int64   int64             `yaml:"int64" range:"-5.." doc:"A number."`
	Float   float64           `yaml:"float" default:"0.5" range:"0..1" doc:"A share."`
	Span    time.Duration     `yaml:"span" default:"90s" range:"1s..1h" doc:"A time."`
	Hidden  secret.Value      `yaml:"hidden" doc:"A secret."`
	Words   []string          `yaml:"words" default:"x,y" doc:"Words."`
	Kinds   []kind            `yaml:"kinds" enum:"one|two" alias:"sorts|types" doc:"Choices."`
	Pairs   map[string]string `yaml:"pairs" doc:"Pairs."`
	Section part              `yaml:"section" short:"n"`
	List    []part            `yaml:"list" doc:"Parts."`
	Table   map[string]part   `yaml:"table" doc:"Parts."`
	Left    string            // has no key
	Out     string            `yaml:"-"`
}

type Inline struct {
	M int `yaml:"m" doc:"A number."`
}

type part struct {
	Inline `yaml:",inline"`
	Base   Inline `yaml:"base"`
	N      int    `yaml:"n" default:"2" own:"true" doc:"A number."`
}

// Validate rejects 13, and 14 with two errors.
func (p part) Validate() error {
	switch p.N {
	case 13:
		return errors.New("n: not 13, please")
	case 14:
		return errors.Join(errors.New("n: not 14"), errors.New("nor this"))
	}
	return nil
}

func load(t *testing.T, doc string) (*everything, *yamlconf.Loader) {
	t.Helper()
	e := new(everything)
	l := yamlconf.New(e, yamlconf.Options{
		File: "f", LookupEnv: func(string) (string, bool) { return "", false }, Path: func(s string) string { return s },
		Moved:   map[string]string{"old.words": "words", "elsewhere": "section"},
		Foreign: func(path string) (string, bool) { return "is foreign", strings.HasSuffix(path, "alien") },
	})
	l.Decode([]byte(doc))
	l.Validate()
	return e, l
}

func said(ps []yamlconf.Problem) string {
	var ss []string
	for _, p := range ps {
		ss = append(ss, p.String())
	}
	return strings.Join(ss, "\n")
}

func TestEveryType(t *testing.T) {
	want := everything{Text: "a b", Choice: "one", Truth: true, Int: 3, Float: 0.5, Span: 90 * time.Second, Words: []string{"x", "y"}, Section: part{N: 2}}
	e, l := load(t, "")
	if d := cmp.Diff(want, *e); d != "" || len(l.Problems)+len(l.Warnings)+len(l.Origins) > 0 {
		t.Errorf("defaults differ: %s\n%s", said(l.Problems), d)
	}
	e, l = load(t, `
text: ""
choice: two
truth: off
int: -99
int64: 9007199254740993
float: 1e-1
span: 2.5
hidden: 0123
words: []
types: one, two
pairs: {1: 2, b: null}
elsewhere: 5
list: [{n: 1}, {m: 1, base: {m: 9}}]
table: {a: {n: 3}, b: }
alien: {x: y}
`)
	want = everything{
		Choice: "two", Int: -99, Int64: 9007199254740993, Float: 0.1, Span: 2500 * time.Millisecond, Hidden: "0123", Kinds: []kind{"one", "two"}, Pairs: map[string]string{"1": "2"},
		Section: part{N: 5}, List: []part{{N: 1}, {Inline: Inline{1}, Base: Inline{9}, N: 2}}, Table: map[string]part{"a": {N: 3}, "b": {N: 2}},
	}
	if d := cmp.Diff(want, *e); d != "" || len(l.Problems) > 0 {
		t.Errorf("values differ: %s\n%s", said(l.Problems), d)
	}
	if got := said(l.Warnings); got != "f:16:1: alien: Hermes has this key, hermesd does not: it has no effect: x; is foreign" {
		t.Errorf("warnings %q", got)
	}
}

func TestRangesAndSections(t *testing.T) {
	_, l := load(t, `
int: 11
int64: -6
float: .nan
span: 2h
kinds: [one, three]
section: {n: 13}
list: [{n: 14}]
old: 3
`)
	want := `f:2:6: int: out of range: at most 10
f:3:8: int64: out of range: at least -5
f:4:8: float: want a number, not ".nan"
f:5:7: span: out of range: from 1s to 1h
f:6:8: kinds: want one of one, two, not "three"
f:9:1: old: unknown key; known here: choice, elsewhere, float, hidden, int, int64, kinds, list, pairs, section, sorts, span, …
f:7:14: section.n: not 13, please`
	if d := cmp.Diff(want, said(l.Problems)); d != "" {
		t.Error("problems differ (-want +got):\n" + d)
	}
	_, l = load(t, "section: {n: 14}\n")
	if d := cmp.Diff("f:1:14: section.n: not 14\nf:1:14: section: nor this", said(l.Problems)); d != "" {
		t.Error("problems differ (-want +got):\n" + d)
	}
}

func TestSet(t *testing.T) {
	e, l := load(t, "int: 4\nsection: {n: 1}\n")
	env := yamlconf.Origin{Kind: yamlconf.FromEnv, Name: "X"}
	l.Set("int", "5", env, yamlconf.Problem{})
	l.Set("section.base.m", "6", env, yamlconf.Problem{})
	l.Set("words", "a, b,", env, yamlconf.Problem{})
	l.Set("span", "2m", env, yamlconf.Problem{})
	if e.Int != 5 || e.Section.Base.M != 6 || !cmp.Equal(e.Words, []string{"a", "b"}) || e.Span != 2*time.Minute || len(l.Problems) > 0 {
		t.Errorf("%+v\n%s", e, said(l.Problems))
	}
	if l.Origins["int"] != env {
		t.Errorf("int comes from %v", l.Origins["int"])
	}
	at := yamlconf.Problem{File: "environment", Key: "X"}
	for _, path := range []string{"section", "pairs", "list", "table", "section.nope", "nope", "int.x"} {
		l.Set(path, "1", env, at)
	}
	l.Set("int", "12", env, at)
	l.Set("", "12", env, at)
	if n := len(l.Problems); n != 8 {
		t.Errorf("%d problems, want 8:\n%s", n, said(l.Problems))
	}
}

func TestTakeOver(t *testing.T) {
	e, l := load(t, "section: {n: 5, m: 6, base: {m: 7}}\ntable: {a: {m: 1}}\n")
	a := e.Table["a"]
	l.TakeOver("table", "a", &a, e.Section)
	if want := (part{Inline: Inline{1}, Base: Inline{7}, N: 2}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

// A struct that cannot be a configuration is rejected before anything is read.
func TestBadTagsPanic(t *testing.T) {
	for name, root := range map[string]any{
		"type": new(struct {
			C chan int `yaml:"c"`
		}),
		"default": new(struct {
			N int `yaml:"n" default:"x"`
		}),
		"default out of range": new(struct {
			N int `yaml:"n" default:"5" range:"1..3"`
		}),
		"default that is no choice": new(struct {
			S string `yaml:"s" default:"c" enum:"a|b"`
		}),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken")
				}
			}()
			yamlconf.New(root, yamlconf.Options{})
		})
	}
}

func TestExampleAndSchemaOfEveryType(t *testing.T) {
	got := string(yamlconf.Example(new(everything), "# head\n"))
	for _, want := range []string{
		"# head\n\n# A text.\n#text: a b\n", "# A choice. (one | two | off)\n#choice: one\n", "# A number. (at most 10)\n#int: 3\n", "# A number. (at least -5)\n#int64: 0\n",
		"# A time. (from 1s to 1h)\n#span: 90s\n", "#hidden: \"\"\n", "#words: [x, \"y\"]\n", "# Choices. (one | two; also sorts; also types)\n#kinds: []\n", "#pairs: {}\n",
		"section:\n  # A number.\n  #m: 0\n  base:\n    # A number.\n    #m: 0\n  # A number.\n  #n: 2\n", "# Parts. Each has:\n#   m: A number.\n", "#list: []\n", "#table: {}\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the example does not have %q:\n%s", want, got)
		}
	}
	b, err := yamlconf.Schema(new(everything), "everything")
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err != nil || json.Unmarshal(b, &s) != nil || len(s.Properties) != 17 { // 14 keys, two aliases, a file
		t.Errorf("%d properties, %v:\n%s", len(s.Properties), err, b)
	}
}

// No document causes a panic, and every problem has a position.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"text: a\nint: 5\n", "---\n---\n", "a: &a [*a]\n", "<<: {a: b}\n", "<<: [*x]\n", "? [a]\n: b\n", "text: !!binary x\n", "{", "\t", "text: |\n  b\n c", "section: &t {n: ${X:-3}}\nelsewhere: *t\n",
		"list: [{}, null, [], *a]\n", "%YAML 9.9\n---\na: b\n", "text: \"\\ud800\"\n", "words: [~, 1, [2]]", "? \n: x\n", "{a, b, c}", "- - - a", "pairs: {<<: {a: b}, ? {x: y} : z}", "\xff", "a:\x00", "float: .inf",
		"table: {a: {n: 1}, B: {}}", "hidden_file: /nowhere\n", "span: 1e9\n", "text: &l de\nchoice: *l", "old.words: [x]\nwords: y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if strings.Contains(doc, "_file") {
			return // it would be opened
		}
		e := new(everything)
		l := yamlconf.New(e, yamlconf.Options{
			File: "f", LookupEnv: func(n string) (string, bool) { return n, n == "X" }, Path: func(s string) string { return s },
			Moved: map[string]string{"elsewhere": "section"}, Foreign: func(p string) (string, bool) { return "foreign", p == "alien" },
		})
		l.Decode([]byte(doc))
		l.Validate()
		lines := 1 + strings.Count(doc, "\n") + strings.Count(doc, "\r") + strings.Count(doc, "\u0085") + strings.Count(doc, "\u2028") + strings.Count(doc, "\u2029") // as YAML counts
		for _, p := range append(l.Problems, l.Warnings...) {
			if p.File != "f" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Text == "" || !utf8.ValidString(p.String()) {
				t.Fatalf("a problem without a place in %d lines: %+v", lines, p)
			}
		}
		if len(l.Problems) == 0 && (e.Int > 10 || e.Int64 < -5 || e.Float < 0 || e.Float > 1 || e.Choice != "one" && e.Choice != "two" && e.Choice != "off") {
			t.Fatalf("values out of range were taken: %+v", e)
		}
	})
}

func TestVariables(t *testing.T) {
	type keys struct {
		Word string `yaml:"word" env:"WORD|OLD_WORD"`
		None string `yaml:"none"`
	}
	got := yamlconf.Variables(new(struct {
		Key   secret.Value    `yaml:"key" env:"KEY"`
		One   keys            `yaml:"one" prefix:"ONE_"`
		Table map[string]keys `yaml:"table"` // its elements have no variables
	}))
	want := []yamlconf.Variable{{"KEY", "key", true}, {"ONE_OLD_WORD", "one.word", false}, {"ONE_WORD", "one.word", false}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
