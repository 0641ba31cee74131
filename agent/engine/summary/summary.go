// Package summary has a model write down what was said in a conversation, in
// sections that are always the same, and takes no answer that is not that.
//
// What a model answers is foreign text. It is accepted only with the sections,
// in the script of the user, and without what looks like a secret; it is cut to
// its budget between lines. What stands before the first section is dropped.
package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/agent/llm"
)

// A Request asks for one text.
type Request struct {
	Prompt    string
	MaxTokens int // of the answer
}

// An Answer is the text and what it cost.
type Answer struct {
	Text  string
	Usage llm.Usage
	Model string
}

// A Completer answers one request with one call of a model. Its methods may be
// called from any goroutine.
type Completer interface {
	Complete(ctx context.Context, r Request) (Answer, error)
	// Window is how many tokens the model can take; 0 if that is not known.
	Window() int
}

// DefaultTimeout bounds one call of a model.
const DefaultTimeout = 120 * time.Second

// NewCompleter returns a Summariser that asks model of p. A timeout of 0 is
// DefaultTimeout.
func NewCompleter(p llm.Provider, model string, window int, timeout time.Duration) Completer {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return modelCompleter{p, model, window, timeout}
}

type modelCompleter struct {
	p       llm.Provider
	model   string
	window  int
	timeout time.Duration
}

func (a modelCompleter) Window() int { return a.window }

// The reasons why an answer of a model is none.
var (
	errCut     = errors.New("the summary model broke off")
	errRefused = errors.New("the summary model refused")
	errCalls   = errors.New("the summary model called a tool instead of answering")
	errEmpty   = errors.New("the summary model answered nothing")
)

func (a modelCompleter) Complete(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("the summary model took longer than %s", a.timeout))
	defer cancel()
	q := llm.Request{Model: a.model, Transcript: llm.NewTranscript(llm.UserText(r.Prompt)), MaxTokens: r.MaxTokens}
	for e, err := range a.p.Stream(ctx, &q) {
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return Answer{}, err
		}
		if d, ok := e.(llm.Done); ok {
			out := Answer{Text: d.Message.Text(), Usage: d.Usage, Model: d.Model}
			switch {
			case d.Stop == llm.Refusal:
				return out, errRefused
			case len(d.Message.ToolUses()) > 0:
				return out, errCalls
			case strings.TrimSpace(out.Text) == "":
				return out, errEmpty
			}
			return out, nil
		}
	}
	return Answer{}, errCut
}
