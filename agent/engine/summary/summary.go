// Package summary asks a model for a summary of a conversation with fixed
// sections, and validates the answer. The main types are Writer, which writes
// one summary, and Completer, which calls a model.
//
// The model's answer is untrusted text. It is accepted only with the sections
// and in the script of the user; text that looks like a secret is removed, and
// it is cut to its budget between lines. Text before the first section is
// dropped.
package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/agent/llm"
)

// A Request is a request for one text.
type Request struct {
	Prompt    string
	MaxTokens int // of the answer
}

// An Answer is the text and its token usage.
type Answer struct {
	Text  string
	Usage llm.Usage
	Model string
}

// A Completer answers a request with one model call. Its methods may be called
// from any goroutine.
type Completer interface {
	Complete(ctx context.Context, r Request) (Answer, error)
	// Window returns the context length of the model in tokens; 0 if unknown.
	Window() int
}

// DefaultTimeout limits one model call.
const DefaultTimeout = 120 * time.Second

// NewCompleter returns a Completer that calls model of p. A timeout of 0 is
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

// Errors for unusable answers of a model.
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
