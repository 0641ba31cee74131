// Package i18n translates the daemon's own sentences into the language of the users.
//
// The key of a sentence is its English text; the translations are in one YAML file per
// language in this directory. A sentence without translation stays English. en.yaml has
// the plural forms of the English sentences themselves. Only text shown in a chat is
// translated: text for models, logs and the command line is English.
// The main type is Printer, which is safe for concurrent use.
package i18n

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed *.yaml
var files embed.FS

// A Printer translates sentences into one language. The zero Printer uses English. A
// Printer is safe for concurrent use.
type Printer struct{ in *catalog }

// A catalog has the sentences of one language, by their English text. It is immutable.
type catalog struct {
	sentences map[string]sentence
	sprintf   func(format string, args ...any) string // formats numbers for the language
}

// For returns the Printer of a language: "en" (also "") or one that has a file.
func For(name string) (Printer, error) {
	if name == "" || name == "en" {
		return Printer{}, nil
	}
	sentences, err := load(name)
	if err != nil {
		return Printer{}, err
	}
	tag, err := language.Parse(name)
	if err != nil {
		return Printer{}, fmt.Errorf("i18n: parse language %q: %w", name, err)
	}
	numbers := message.NewPrinter(tag)
	return Printer{&catalog{sentences, func(format string, args ...any) string { return numbers.Sprintf(format, args...) }}}, nil
}

func load(name string) (map[string]sentence, error) {
	raw, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("i18n: no translations for language %q", name)
	}
	var all map[string]sentence
	if err := yaml.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("i18n: parse %s.yaml: %w", name, err)
	}
	return all, nil
}

// english returns the catalog of the zero Printer.
var english = sync.OnceValue(func() *catalog {
	sentences, err := load("en")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return &catalog{sentences, fmt.Sprintf}
})

// T translates an English sentence and formats it with args. The verbs are those of
// package fmt; numbers are formatted for the language, and errors are translated by
// LocalizeError.
func (p Printer) T(english string, args ...any) string { return p.format(english, args) }

func (p Printer) format(text string, args []any) string {
	c := p.in
	if c == nil {
		c = english()
	} else {
		args = slices.Clone(args)
		for i, a := range args {
			if err, ok := a.(error); ok {
				args[i] = p.LocalizeError(err)
			}
		}
	}
	s, ok := c.sentences[text]
	if ok {
		text = s.choose(args)
	}
	if len(s.Forms) > 0 && !strings.Contains(text, "%") {
		return text // the form for one does not contain the number
	}
	return c.sprintf(text, args...)
}

// LocalizeError returns the text of an error of Errorf in the Printer's language, and
// that of any other error unchanged. It also translates an error that wraps one of
// Errorf without changing its text, and errors joined by errors.Join.
func (p Printer) LocalizeError(err error) string {
	if p.in == nil {
		return err.Error()
	}
	var e *localizedError
	if errors.As(err, &e) && e.Error() == err.Error() {
		return p.format(e.english, e.args)
	}
	all, ok := err.(interface{ Unwrap() []error })
	if joined := ok && len(all.Unwrap()) > 0 && errors.Join(all.Unwrap()...).Error() == err.Error(); !joined {
		return err.Error()
	}
	var texts []string
	for _, e := range all.Unwrap() {
		texts = append(texts, p.LocalizeError(e))
	}
	return strings.Join(texts, "\n")
}

// Errorf returns an error that may be shown to users: its text is English, and
// LocalizeError translates it. Errors among args are wrapped.
func Errorf(english string, args ...any) error { return &localizedError{english, args} }

type localizedError struct {
	english string
	args    []any
}

func (e *localizedError) Error() string { return Printer{}.format(e.english, e.args) }

func (e *localizedError) Unwrap() (all []error) {
	for _, a := range e.args {
		if err, ok := a.(error); ok {
			all = append(all, err)
		}
	}
	return all
}

// Translate translates a sentence marked by N. The sentence must not contain verbs; one
// with a percent sign is returned unchanged.
func (p Printer) Translate(english string) string {
	if p.in == nil || strings.Contains(english, "%") {
		return english
	}
	return p.format(english, nil)
}

// N marks a sentence that Translate translates elsewhere, and returns it unchanged.
func N(english string) string { return english }

// A sentence is the translation of an English sentence: a text or, for plural forms, a
// text with names in ${} and the forms of each name.
type sentence struct {
	Text  string           `yaml:"text"`
	Forms map[string]forms `yaml:",inline"`
}

// forms are the plural forms for the number in argument Arg, counted from 1.
type forms struct {
	Arg   int    `yaml:"arg"`
	One   string `yaml:"one"`
	Other string `yaml:"other"`
}

// UnmarshalYAML also accepts a plain text.
func (s *sentence) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&s.Text)
	}
	type plain sentence
	return n.Decode((*plain)(s))
}

// choose returns the text with the forms for the numbers in args.
func (s sentence) choose(args []any) string {
	text := s.Text
	for name, f := range s.Forms {
		form := f.Other
		if f.Arg <= len(args) && fmt.Sprint(args[f.Arg-1]) == "1" {
			form = f.One
		}
		text = strings.ReplaceAll(text, "${"+name+"}", form)
	}
	return text
}
