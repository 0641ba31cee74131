package summary

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// A Task says what is to be summarised.
type Task struct {
	Previous string   // the summary that is updated; "" for none
	Parts    []string // what was said since, as Serial writes it
	Budget   int      // tokens of the summary
	Focus    string   // what is kept best; "" for nothing
	User     string   // a sample of what the user writes
}

// A Writer writes summaries. It is for one pass; its methods are not called
// concurrently.
type Writer struct {
	First Completer
	// Second is asked once First has failed, for the rest of the pass; nil for
	// nobody.
	Second Completer
	// Redact takes secrets out of what is sent and of what comes back.
	Redact func(string) string

	// Usage and Model tell what the pass cost so far, and who wrote last. Fault is
	// why First was given up.
	Usage llm.Usage
	Model string
	Fault error
}

// ErrNoModel says that there is no model to ask.
var ErrNoModel = errors.New("no model is configured for summaries")

// Write returns the summary: all headings, within the budget. A task that is
// larger than 80 % of the model's window is done in pieces, each of which
// updates the summary of those before.
func (w *Writer) Write(ctx context.Context, t Task) (string, error) {
	if w.First == nil {
		w.First, w.Second = w.Second, nil
	}
	if w.First == nil {
		return "", ErrNoModel
	}
	parts := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = w.Redact(p)
	}
	t.Previous, t.Focus = w.Redact(t.Previous), w.Redact(t.Focus)
	text := t.Previous
	for _, group := range groups(parts, w.room(t)) {
		out, err := w.one(ctx, t, text, group)
		if err != nil {
			return "", err
		}
		text = out
	}
	return text, nil
}

// minRoom is how many tokens of conversation are sent at least.
const minRoom = 1000

// room is how many tokens of conversation one call takes.
func (w *Writer) room(t Task) int {
	window := 0
	for _, s := range []Completer{w.First, w.Second} {
		if s != nil && s.Window() > 0 && (window == 0 || s.Window() < window) {
			window = s.Window()
		}
	}
	if window == 0 {
		window = tokens.DefaultContext
	}
	beside := tokens.Text(t.prompt("-", nil, errNoSections)) + max(tokens.Text(t.Previous), t.Budget)
	return max(window*80/100-beside, minRoom)
}

// groups puts parts, in order, into as few groups of at most room tokens as it
// takes. A part that is larger is cut in pieces.
func groups(parts []string, room int) [][]string {
	var out [][]string
	var group []string
	left := room
	for _, p := range parts {
		for p != "" {
			piece, n := p, tokens.Text(p)
			if n > room {
				piece = firstTokens(p, room)
				n = tokens.Text(piece)
			}
			if n > left && len(group) > 0 {
				out, group, left = append(out, group), nil, room
			}
			group = append(group, piece)
			left -= n
			p = p[len(piece):]
		}
	}
	if len(group) > 0 {
		out = append(out, group)
	}
	return out
}

// firstTokens is the beginning of s that has at most n tokens, whole characters.
func firstTokens(s string, n int) string {
	quarters := 0
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		quarters += 4 * tokens.Text(s[i:i+size])
		if size == 1 {
			quarters -= 3
		}
		if quarters > 4*n && i > 0 {
			return s[:i]
		}
		i += size
	}
	return s
}

// one makes one step: previous and parts become a summary.
func (w *Writer) one(ctx context.Context, t Task, previous string, parts []string) (string, error) {
	text, err := w.try(ctx, w.First, t, previous, parts)
	if err == nil || w.Second == nil || ctx.Err() != nil {
		return text, err
	}
	w.Fault = err
	w.First, w.Second = w.Second, nil
	text, second := w.try(ctx, w.First, t, previous, parts)
	if second != nil {
		return "", fmt.Errorf("%w; the main model: %w", err, second)
	}
	return text, nil
}

// try asks s, and once more if it answered something else than a summary.
func (w *Writer) try(ctx context.Context, s Completer, t Task, previous string, parts []string) (string, error) {
	var fault error
	for range 2 {
		a, err := s.Complete(ctx, Request{Prompt: t.prompt(previous, parts, fault), MaxTokens: 2 * t.Budget})
		w.Usage = w.Usage.Add(a.Usage)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			return "", err
		}
		w.Model = a.Model
		var sec sections
		if sec, fault = parse(w.Redact(a.Text)); fault == nil {
			fault = sameScript(t.User, sec)
		}
		if fault == nil {
			return sec.fit(t.Budget).String(), nil
		}
	}
	return "", fault
}
