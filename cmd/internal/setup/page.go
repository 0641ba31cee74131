package setup

import (
	"context"
	"errors"
)

// ErrAborted is returned when the person does not want to go on. Nothing is
// written then.
var ErrAborted = errors.New("left without writing anything")

// A Kind says how a field is answered.
type Kind int

// The kinds of fields.
const (
	Select      Kind = iota // one of the options
	MultiSelect             // any of the options
	Text                    // a line
	Secret                  // a line that nobody sees
)

// An Option is one of those to choose from.
type Option struct{ Value, Label string }

// A Field is one question. What it proposes and what was answered is in Value,
// for Some in Values.
type Field struct {
	Kind        Kind
	Title, Help string
	Options     []Option
	Value       string
	Values      []string
	Check       func(string) error // of a line; nil: anything
}

// A Page is what is asked at once.
type Page struct {
	Title, Text string
	Fields      []*Field
}

// An Asker leads the conversation with a person.
type Asker interface {
	// Ask returns once every field is answered. It returns ErrAborted if the
	// person, or the end of the input, ends the conversation.
	Ask(ctx context.Context, p Page) error
	// Say tells something that stays in sight.
	Say(text string)
	// Wait shows what is being waited for while do runs.
	Wait(ctx context.Context, what string, do func(context.Context)) error
}

// one asks for one of several options and returns its value.
func (i *interview) one(ctx context.Context, title, text string, options ...Option) (string, error) {
	f := &Field{Kind: Select, Title: title, Options: options, Value: options[0].Value}
	err := i.a.Ask(ctx, Page{Text: text, Fields: []*Field{f}})
	return f.Value, err
}
