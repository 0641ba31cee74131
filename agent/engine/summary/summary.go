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
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
	timeout = cmp.Or(max(timeout, 0), DefaultTimeout)
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

// Limits of the entries of a summary without a model, by kind.
const (
	maxAsks       = 8
	maxActions    = 12
	maxFiles      = 12
	maxErrors     = 5
	maxEntryChars = 300 // code points
)

// WithoutModel returns a summary that is made without a model: the user's last
// requests, the tools that were used, and the files and errors that were named.
// previous is kept as far as the budget allows. The same input gives the same
// text.
func WithoutModel(previous string, ms []llm.Message, budget int) string {
	s, err := parse(previous)
	if err != nil {
		s = sections{}
		for line := range strings.Lines(strings.ToValidUTF8(previous, "\uFFFD")) {
			s[critical] += stripMarkup(strings.TrimRight(line, " \t\r\n")) + "\n"
		}
	}
	f := gatherFacts(ms)
	add := func(i int, entries []string, most int) {
		s[i] = strings.TrimSpace(strings.TrimPrefix(s[i], emptySection))
		for _, e := range entries[max(0, len(entries)-most):] {
			e = strings.ToValidUTF8(strings.Join(strings.Fields(e), " "), "\uFFFD")
			s[i] += "\n- " + clip(e, maxEntryChars)
		}
		s[i] = strings.TrimSpace(s[i])
	}
	add(goal, f.asks, maxAsks)
	add(done, f.actions, maxActions)
	add(blocked, f.errors, maxErrors)
	add(files, f.files, maxFiles)
	note := "This summary was made without a model; it names what was asked and done last and leaves out the rest."
	if !strings.Contains(s[critical], note) {
		add(critical, []string{note}, 1)
	}
	return s.truncateTo(budget).String()
}

// Indexes of the headings that WithoutModel fills.
const (
	done     = 3
	blocked  = 5
	files    = 7
	critical = 9
)

type facts struct{ asks, actions, errors, files []string }

var pathPattern = regexp.MustCompile(`(?:[\w.~-]*/)+[\w.-]+\.\w{1,8}\b|\b[\w-]+\.(?:go|py|js|ts|md|json|ya?ml|toml|txt|sh|c|h|rs|java|html|css|sql)\b`)

func gatherFacts(ms []llm.Message) facts {
	var f facts
	name := func(text string) {
		for _, p := range pathPattern.FindAllString(clip(text, maxBody), maxFiles) {
			f.files = slices.DeleteFunc(f.files, func(q string) bool { return p == q })
			f.files = append(f.files, p)
		}
	}
	for _, m := range ms {
		for _, b := range m.Blocks {
			switch b.Type {
			case llm.Text:
				if m.Role == llm.User && strings.TrimSpace(b.Text) != "" {
					f.asks = append(f.asks, "Asked: "+b.Text)
				}
				name(b.Text)
			case llm.ToolUse:
				f.actions = append(f.actions, fmt.Sprintf("%s %s", b.Name, clip(string(b.Input), 200)))
				name(string(b.Input))
			case llm.ToolResult:
				if b.Failed {
					f.errors = append(f.errors, "Failed: "+b.Text)
				}
			}
		}
	}
	return f
}
