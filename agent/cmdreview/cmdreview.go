// Package cmdreview uses a model to decide whether a dangerous command can run without an
// approval. It can only save users a question: any answer other than exactly the word
// "harmless", and any failure, leaves the decision to a user.
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
	maxCommand     = 4000 // bytes; longer commands are not sent
	maxOut         = 200  // output tokens
	harmless       = "harmless"
)

// A Reviewer reviews commands with a model of Provider. Its methods may be called from any
// goroutine.
type Reviewer struct {
	Provider llm.Provider
	Model    string
	Timeout  time.Duration // of one call; 0: 30 seconds
	// Mask hides secrets in the text that is sent; nil hides none.
	Mask func(string) string
}

// IsHarmless reports whether the model considers a command harmless, and the usage of the
// call, also if it failed. why lists the reasons for which a user would be asked. A command
// that is too long, or that could imitate the end of the text shown to the model, is not
// sent.
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
			return false, llm.Usage{}, fmt.Errorf("review command: %w", err)
		}
		if done, ok := ev.(llm.Done); ok {
			return done.Stop == llm.EndTurn && strings.ToLower(strings.TrimSpace(done.Message.Text())) == harmless, done.Usage, nil
		}
	}
	return false, llm.Usage{}, fmt.Errorf("review command: stream ended without an answer")
}
