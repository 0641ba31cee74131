// Package clarify implements the tool with which a model asks the user a question and waits
// for the answer.
//
// The tool is pure: a question that was pending when the process died has no answer, so it
// is asked again. The user sees it twice; there is no other effect.
package clarify

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "clarify"

//go:embed clarify.md clarify.json
var texts embed.FS

const (
	maxChoices  = 4
	maxChoice   = 100  // characters
	maxQuestion = 2000 // characters
	maxAnswer   = 20_000
)

// New returns the tool. It asks through the UserChannel of the call.
func New() tool.Tool {
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.Pure, MaxResult: maxAnswer,
	}, run)
}

type input struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices"`
}

func run(ctx context.Context, c tool.Call, in input) (string, error) {
	q := tool.Question{Text: strings.TrimSpace(in.Question)}
	for _, choice := range in.Choices {
		q.Choices = append(q.Choices, strings.Join(strings.Fields(choice), " "))
	}
	if err := check(q); err != nil {
		return "", err
	}
	a, err := c.User.Ask(ctx, q)
	switch {
	case errors.Is(err, tool.ErrUnattended):
		return "", fmt.Errorf("%w. Decide yourself, and say in your answer what you assumed", err)
	case err != nil:
		return "", fmt.Errorf("there is no answer: %w", err)
	case a.Choice >= 0 && a.Choice < len(q.Choices):
		return fmt.Sprintf("The person chose %d: %s", a.Choice+1, q.Choices[a.Choice]), nil
	case strings.TrimSpace(a.Text) == "":
		return "The person answered with an empty message.", nil
	}
	return "The person answered: " + strings.TrimSpace(a.Text), nil
}

// check returns why a question cannot be asked, nil if it can.
func check(q tool.Question) error {
	switch {
	case q.Text == "":
		return errors.New("the question is empty")
	case utf8.RuneCountInString(q.Text) > maxQuestion:
		return fmt.Errorf("the question has more than %d characters; ask it shorter", maxQuestion)
	case len(q.Choices) > maxChoices:
		return fmt.Errorf("there are %d choices; the most is %d. Any other text can be answered too", len(q.Choices), maxChoices)
	}
	seen := map[string]bool{}
	for i, choice := range q.Choices {
		switch {
		case choice == "":
			return fmt.Errorf("choice %d is empty", i+1)
		case utf8.RuneCountInString(choice) > maxChoice:
			return fmt.Errorf("choice %d has more than %d characters; put the details into the question", i+1, maxChoice)
		case seen[strings.ToLower(choice)]:
			return fmt.Errorf("the choice %q is there twice", choice)
		}
		seen[strings.ToLower(choice)] = true
	}
	return nil
}
