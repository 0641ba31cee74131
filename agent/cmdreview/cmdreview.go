// Package cmdreview asks a model whether a command needs a person's leave. It only
// ever spares people a question: what it does not call harmless in exactly one
// word, and what goes wrong, is for a person to decide.
package cmdreview

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"hermesd/agent/llm"
)

//go:embed review.md
var task string

const (
	defaultTimeout = 30 * time.Second
	maxCommand     = 4000 // bytes; what is longer is for a person
	maxOut         = 200  // tokens
	harmless       = "harmless"
)

// A Reviewer asks Provider. Its methods may be called from any goroutine.
type Reviewer struct {
	Provider llm.Provider
	Model    string
	Timeout  time.Duration // of one call; 0: 30 seconds
	// Mask hides secrets in what is sent; nil hides none.
	Mask func(string) string
}

// IsHarmless reports whether the model calls a command harmless, and what the call
// cost, also where it failed. why are the reasons for which a person would be
// asked. A command that is long, or that tries to look like the end of what the
// model is shown, is not sent.
func (r Reviewer) IsHarmless(ctx context.Context, command string, why []string) (bool, llm.Usage, error) {
	if len(command) > maxCommand || strings.Contains(command, "</") {
		return false, llm.Usage{}, nil
	}
	if r.Mask != nil {
		command = r.Mask(command)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultTimeout))
	defer cancel()
	text := fmt.Sprintf("%s\n\n<reasons>\n%s\n</reasons>\n<command>\n%s\n</command>", strings.TrimSpace(task), strings.Join(why, "\n"), command)
	q := &llm.Request{Model: r.Model, Transcript: llm.NewTranscript(llm.UserText(text)), MaxTokens: maxOut, NoTools: true, Effort: "none"}
	for ev, err := range r.Provider.Stream(ctx, q) {
		if err != nil {
			return false, llm.Usage{}, fmt.Errorf("review: %w", err)
		}
		if done, ok := ev.(llm.Done); ok {
			return done.Stop == llm.EndTurn && strings.ToLower(strings.TrimSpace(done.Message.Text())) == harmless, done.Usage, nil
		}
	}
	return false, llm.Usage{}, fmt.Errorf("review: the model broke off")
}
