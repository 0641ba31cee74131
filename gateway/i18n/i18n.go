// Package i18n says the daemon's own sentences in the language of the people
// who read them.
//
// A sentence is named by its English text, so the code can be read in place; the
// others stand in one file for each language, beside this one. What a file does
// not have is said in English. Only what people read in a chat goes through here:
// what models, logs and the command line read is English.
package i18n

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

//go:embed *.yaml
var files embed.FS

// A Printer says sentences in one language. The zero Printer speaks English. It
// may be used by any number of goroutines.
type Printer struct{ in *message.Printer }

// For returns the Printer of a language: "en", or one that has a file.
func For(name string) (Printer, error) {
	if name == "" || name == "en" {
		return Printer{}, nil
	}
	raw, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return Printer{}, fmt.Errorf("words: there are no sentences in the language %q", name)
	}
	tag, err := language.Parse(name)
	if err != nil {
		return Printer{}, fmt.Errorf("words: %q: %w", name, err)
	}
	c, err := read(tag, raw)
	if err != nil {
		return Printer{}, fmt.Errorf("words: %s.yaml: %w", name, err)
	}
	return Printer{message.NewPrinter(tag, message.Catalog(c))}, nil
}

// T says an English sentence in the Printer's language. Its verbs are those of
// package fmt; numbers are written as the language writes them, and errors are
// said as Why says them.
func (p Printer) T(english string, args ...any) string { return p.say(english, args) }

func (p Printer) say(english string, args []any) string {
	if p.in == nil {
		return fmt.Sprintf(english, args...)
	}
	said := slices.Clone(args)
	for i, a := range args {
		if err, ok := a.(error); ok {
			said[i] = p.LocalizeError(err)
		}
	}
	return p.in.Sprintf(english, said...)
}

// LocalizeError says an error of Errorf in the Printer's language, and any other as it is.
// What wraps such an error without a word of its own is said like it, and so is
// what joins some.
func (p Printer) LocalizeError(err error) string {
	if p.in == nil {
		return err.Error()
	}
	var e *failure
	if errors.As(err, &e) && e.Error() == err.Error() {
		return p.say(e.english, e.args)
	}
	all, ok := err.(interface{ Unwrap() []error })
	if joined := ok && len(all.Unwrap()) > 0 && errors.Join(all.Unwrap()...).Error() == err.Error(); !joined {
		return err.Error()
	}
	var said []string
	for _, e := range all.Unwrap() {
		said = append(said, p.LocalizeError(e))
	}
	return strings.Join(said, "\n")
}

// Errorf returns an error that people may read: its text is English, and Why says
// it in their language. What is among args and is an error is wrapped.
func Errorf(english string, args ...any) error { return &failure{english, args} }

type failure struct {
	english string
	args    []any
}

func (e *failure) Error() string { return fmt.Sprintf(e.english, e.args...) }

func (e *failure) Unwrap() (all []error) {
	for _, a := range e.args {
		if err, ok := a.(error); ok {
			all = append(all, err)
		}
	}
	return all
}

// Translate says a sentence that stands in a table of the code (see N). It has no
// verbs.
func (p Printer) Translate(english string) string {
	if p.in == nil || strings.Contains(english, "%") {
		return english
	}
	return p.in.Sprintf(message.Key(english, english))
}

// N marks a sentence that is said elsewhere, by Text, and returns it as it is.
func N(english string) string { return english }

// A sentence is what a file says for an English one: a text or, where its numbers
// matter, a text with names in ${} and what each stands for.
type sentence struct {
	Text  string           `yaml:"text"`
	Forms map[string]forms `yaml:",inline"`
}

// forms are the words that go with the number of an argument, counted from 1.
type forms struct {
	Arg   int    `yaml:"arg"`
	One   string `yaml:"one"`
	Other string `yaml:"other"`
}

// UnmarshalYAML takes a text alone too.
func (s *sentence) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&s.Text)
	}
	type plain sentence
	return n.Decode((*plain)(s))
}

func read(tag language.Tag, raw []byte) (catalog.Catalog, error) {
	var all map[string]sentence
	if err := yaml.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	c := catalog.NewBuilder(catalog.Fallback(tag))
	for english, s := range all {
		var m []catalog.Message
		for name, f := range s.Forms {
			m = append(m, catalog.Var(name, plural.Selectf(f.Arg, "%d", plural.One, f.One, plural.Other, f.Other)))
		}
		if err := c.Set(tag, english, append(m, catalog.String(s.Text))...); err != nil {
			return nil, fmt.Errorf("%q: %w", english, err)
		}
	}
	return c, nil
}
