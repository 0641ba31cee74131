package setup

import (
	"context"
	"errors"
)

// ErrAborted is returned when the user quits. Nothing is written then.
var ErrAborted = errors.New("left without writing anything")

// A Kind is the type of a field.
type Kind int

// Kinds of fields.
const (
	Select      Kind = iota // one of the options
	MultiSelect             // any of the options
	Text                    // a line
	Secret                  // a line without echo
)

// An Option is a choice of a Select or MultiSelect field.
type Option struct{ Value, Label string }

// A Field is one question. Value, or Values for a MultiSelect, holds the default and
// then the answer.
type Field struct {
	Kind        Kind
	Title, Help string
	Options     []Option
	Value       string
	Values      []string
	Check       func(string) error // validates a line; nil accepts anything
}

// A Page is a group of fields that are asked together.
type Page struct {
	Title, Text string
	Fields      []*Field
}

// An Asker asks the user.
type Asker interface {
	// Ask returns once every field is answered. It returns ErrAborted if the user quits
	// or the input ends.
	Ask(ctx context.Context, p Page) error
	// Say prints text that remains visible.
	Say(text string)
	// Wait shows what while do runs. It returns ErrAborted if the user quits.
	Wait(ctx context.Context, what string, do func(context.Context)) error
}

// selectOne asks for one of several options and returns its value.
func (i *interview) selectOne(ctx context.Context, title, text string, options ...Option) (string, error) {
	f := &Field{Kind: Select, Title: title, Options: options, Value: options[0].Value}
	err := i.a.Ask(ctx, Page{Text: text, Fields: []*Field{f}})
	return f.Value, err
}
