package tool

import (
	"context"
	"errors"
)

// UserChannel are how a tool reaches the people of its turn. The zero People reaches
// nobody.
type UserChannel struct {
	// Ask puts a question to the person who speaks, and waits for the answer. nil:
	// nobody is there.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Approve asks for leave to do what r says, and returns nil once it is given.
	// Its error is what the model is told. nil: nobody is there, all is denied.
	Approve func(ctx context.Context, r ApprovalRequest) error
	// Send says something elsewhere, or here beside the answer. It returns when
	// that is on its way for good, and says where in words. nil: nothing can be
	// sent.
	Send func(ctx context.Context, m Message) (string, error)
}

// A Question is put to a person while a tool waits.
type Question struct {
	Text    string   // Markdown
	Choices []string // what can be answered by a button or a number; none: any text
}

// An Answer is what the person said to a Question. Choice is the number of the
// choice from 0 on, -1 if it is none of them.
type Answer struct {
	Text   string
	Choice int
}

// A ApprovalRequest asks for leave to run something.
type ApprovalRequest struct {
	Tool    string
	Command string   // byte for byte what is going to be run
	Reasons []string // what is dangerous about it, in words
	Key     string   // names what leave for the session, or for ever, covers; "": only this once
}

// A Message is sent by a tool.
type Message struct {
	To    string // a target: "origin", "telegram", "telegram:123", "discord:#general", comma lists
	Text  string // Markdown
	Files []string
}

// ErrUnattended is why a question has no answer when no person is in the turn.
var ErrUnattended = errors.New("nobody is there to answer: this turn runs unattended")

// AskUser puts q if somebody can be asked.
func (p UserChannel) AskUser(ctx context.Context, q Question) (Answer, error) {
	if p.Ask == nil {
		return Answer{Choice: -1}, ErrUnattended
	}
	return p.Ask(ctx, q)
}

// RequestApproval asks for leave if somebody can give it.
func (p UserChannel) RequestApproval(ctx context.Context, r ApprovalRequest) error {
	if p.Approve == nil {
		return ErrUnattended
	}
	return p.Approve(ctx, r)
}
