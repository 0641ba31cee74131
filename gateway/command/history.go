package command

import (
	"context"
	"strconv"
	"strings"

	"hermesd/gateway/chat"
)

const noConversation = "There is no conversation here yet."

// undo removes the last exchanges from the transcript; they are archived.
func undo(_ context.Context, c Call) (Result, error) {
	n := 1
	if c.Args != "" {
		var err error
		if n, err = strconv.Atoi(c.Args); err != nil || n < 1 {
			return Result{Text: c.T("Say `/undo`, or `/undo 3` for the last three exchanges.")}, nil
		}
	}
	if c.Session.Messages == 0 {
		return Result{Text: c.T(noConversation)}, nil
	}
	return Result{Undo: n}, nil
}

// retry removes the last exchange and runs its message again.
func retry(_ context.Context, c Call) (Result, error) {
	if c.Session.Messages == 0 {
		return Result{Text: c.T(noConversation)}, nil
	}
	return Result{Undo: 1, Retry: true}, nil
}

// branch continues in a copy of the session; the original is unchanged.
func branch(_ context.Context, c Call) (Result, error) {
	if c.Session.Messages == 0 {
		return Result{Text: c.T(noConversation)}, nil
	}
	return Result{Branch: true, Title: CleanTitle(c.Args)}, nil
}

// forget deletes the session permanently. It asks for confirmation first; the button
// carries session ID and time of the question.
func forget(_ context.Context, c Call) (Result, error) {
	word, asked, _ := strings.Cut(c.Args, " ")
	id, at, _ := strings.Cut(asked, " ")
	switch {
	case c.Session.ID == "":
		return Result{Text: c.T(noConversation)}, nil
	case word == "":
		stamp := QuestionTime()
		return Result{
			Text: c.T("Delete this conversation for good? %d messages, what was archived of it, its files and its place in the search: nothing of it can be had back. Press the button, or say `/forget now`.", c.Session.Messages),
			Buttons: [][]chat.Button{{
				{Label: c.T("Delete it"), Data: "/forget now " + string(c.Session.ID) + " " + stamp},
				{Label: c.T("Keep it"), Data: "/forget cancel"},
			}},
		}, nil
	case word == "cancel":
		return Result{Text: c.T("It is kept.")}, nil
	case word != "now":
		return Result{Text: c.T("I know `/forget` and `/forget now`.")}, nil
	case at != "" && !IsQuestionValid(at):
		return Result{Text: c.T("That question is too old. Say `/forget` again.")}, nil
	case id != "" && id != string(c.Session.ID):
		return Result{Text: c.T("That question was about another conversation. Say `/forget` again.")}, nil
	}
	return Result{Text: c.T("I delete this conversation."), Forget: true, Stop: true}, nil
}
