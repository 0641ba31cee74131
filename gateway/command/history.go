package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

const noConversation = "There is no conversation here yet."

// undo removes the last exchanges from the transcript; they are archived.
func undo(_ context.Context, _ Env, c Call) (Result, error) {
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
func retry(_ context.Context, _ Env, c Call) (Result, error) {
	if c.Session.Messages == 0 {
		return Result{Text: c.T(noConversation)}, nil
	}
	return Result{Undo: 1, Retry: true}, nil
}

// resume goes back to an earlier conversation of this chat.
func resume(ctx context.Context, env Env, c Call) (Result, error) {
	if c.Args == "" {
		return Result{Text: c.T("Say which: `/resume <name or id>`. `/sessions` lists them.")}, nil
	}
	list, err := env.Sessions(ctx, c)
	if err != nil {
		return Result{}, err
	}
	found := matchSessions(list, c.Args)
	switch {
	case len(found) == 0:
		return Result{Text: c.T("No conversation of this chat is called %s. `/sessions` lists them.", quote(c.Args))}, nil
	case len(found) > 1:
		var b strings.Builder
		b.WriteString(c.T("%d conversations fit; say which:", len(found)) + "\n\n")
		for _, r := range found[:min(len(found), maxListedSessions)] {
			fmt.Fprintf(&b, "- `%s` %s\n", r.ID, quote(r.Title))
		}
		return Result{Text: b.String()}, nil
	case found[0].ID == c.Session.ID:
		return Result{Text: c.T("That is this conversation.")}, nil
	}
	r := found[0]
	return Result{Text: c.T("Back in %s (`%s`, %d messages).", quote(titleOrID(r)), r.ID, r.Messages), Resume: r.ID, Stop: true}, nil
}

func titleOrID(r session.Record) string {
	if r.Title != "" {
		return r.Title
	}
	return string(r.ID)
}

// matchSessions returns the sessions that match a name: those with that ID or title, else those
// whose ID or title begins with it, else those whose title contains it.
func matchSessions(list []session.Record, name string) []session.Record {
	name = strings.ToLower(strings.Trim(name, "`\"' "))
	for _, matches := range []func(id, title string) bool{
		func(id, title string) bool { return id == name || title == name },
		func(id, title string) bool { return strings.HasPrefix(id, name) || strings.HasPrefix(title, name) },
		func(_, title string) bool { return strings.Contains(title, name) },
	} {
		var found []session.Record
		for _, r := range list {
			if matches(strings.ToLower(string(r.ID)), strings.ToLower(r.Title)) {
				found = append(found, r)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// branch continues in a copy of the session; the original is unchanged.
func branch(_ context.Context, _ Env, c Call) (Result, error) {
	if c.Session.Messages == 0 {
		return Result{Text: c.T(noConversation)}, nil
	}
	return Result{Branch: true, Title: CleanTitle(c.Args)}, nil
}

// forget deletes the session permanently. It asks for confirmation first; the button
// carries session ID and time of the question.
func forget(_ context.Context, _ Env, c Call) (Result, error) {
	word, asked, _ := strings.Cut(c.Args, " ")
	id, at, _ := strings.Cut(asked, " ")
	switch {
	case c.Session.ID == "":
		return Result{Text: c.T(noConversation)}, nil
	case word == "":
		stamp := strconv.FormatInt(time.Now().Unix(), 36)
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
	case at != "" && !stillValid(at):
		return Result{Text: c.T("That question is too old. Say `/forget` again.")}, nil
	case id != "" && id != string(c.Session.ID):
		return Result{Text: c.T("That question was about another conversation. Say `/forget` again.")}, nil
	}
	return Result{Text: c.T("I delete this conversation."), Forget: true, Stop: true}, nil
}
