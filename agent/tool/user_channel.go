package tool

import (
	"context"
	"errors"
)

// A UserChannel holds the functions with which a tool reaches the users of its turn. The
// zero UserChannel reaches nobody.
type UserChannel struct {
	// Ask sends a question to the user whose message started the turn, and waits for the
	// answer. nil: the turn runs unattended.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Approve requests permission to run what r describes, and returns nil once it is
	// granted. The model reads the text of the error. nil: the turn runs unattended,
	// everything is denied.
	Approve func(ctx context.Context, r ApprovalRequest) error
	// Send sends a message to another chat, or to this one in addition to the answer. It
	// returns when the message is durably queued, with a text that says where it goes. nil:
	// nothing can be sent.
	Send func(ctx context.Context, m Message) (string, error)
}

// A Question is sent to the user while a tool waits for the Answer.
type Question struct {
	Text    string   // Markdown
	Choices []string // answers that a button or a number selects; none: any text
}

// An Answer is the user's reply to a Question. Choice is the index of the chosen answer
// from 0 on, -1 if the reply is none of them.
type Answer struct {
	Text   string
	Choice int
}

// An ApprovalRequest asks the user for permission to run a command or to change files.
type ApprovalRequest struct {
	Tool    string
	Command string   // byte for byte the command that will run, or the files and their changes
	Reasons []string // why it is dangerous, as texts for people
	// Shapes are what a grant for the session or for always covers: later requests all of
	// whose shapes are covered; empty: once only.
	Shapes []string
}

// A Message is sent by a tool to a target.
type Message struct {
	To    string // a target: "origin", "telegram", "telegram:123", "discord:#general", comma lists
	Text  string // Markdown
	Files []string
}

// ErrUnattended is returned for questions and approval requests in a turn without a user.
var ErrUnattended = errors.New("nobody is there to answer: this turn runs unattended")

// AskUser asks q, or returns ErrUnattended if nobody can be asked.
func (p UserChannel) AskUser(ctx context.Context, q Question) (Answer, error) {
	if p.Ask == nil {
		return Answer{Choice: -1}, ErrUnattended
	}
	return p.Ask(ctx, q)
}

// RequestApproval requests an approval, or returns ErrUnattended if nobody can grant it.
func (p UserChannel) RequestApproval(ctx context.Context, r ApprovalRequest) error {
	if p.Approve == nil {
		return ErrUnattended
	}
	return p.Approve(ctx, r)
}
