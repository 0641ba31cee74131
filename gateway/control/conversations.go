package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hermesd/gateway/access"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// busy reports whether a turn runs for key, and how many messages wait.
func (ctl *Control) busy(key session.Key) (running bool, waiting int) {
	l := inbox.LaneOf(key)
	_, offered := ctl.parts.Runtime.Turns.OfferedClaim(l)
	return offered || ctl.parts.Runtime.Lanes.Active(l), ctl.parts.Store.Waiting(l)
}

// newSession starts a new conversation.
func (ctl *Control) newSession(_ context.Context, c command.Call) (command.Result, error) {
	text := c.T("A new conversation begins.")
	if c.Session.ID != "" {
		text += " " + c.T("The old one is kept as `%s`.", c.Session.ID)
	}
	if running, waiting := ctl.busy(c.Key); running || waiting > 0 {
		text += " " + formatStopped(c, running, waiting)
	}
	n, end := ctl.parts.Host.Background(c.Session.ID)
	if n > 0 {
		text += " " + c.T("The %d commands that it runs in the background are ended.", n)
	}
	return command.Result{Text: text, Open: true, Title: command.CleanTitle(c.Args), Stop: true, AfterCommit: end}, nil
}

// stop stops the running turn, whatever is written after the command.
func (ctl *Control) stop(_ context.Context, c command.Call) (command.Result, error) {
	running, waiting := ctl.busy(c.Key)
	ignored := ""
	if c.Args != "" {
		ignored = " " + c.T("What is written after `/stop` has no effect.")
	}
	restricted := c.Shared && c.Principal.Level < access.Member
	switch {
	case !running && waiting == 0:
		return command.Result{Text: c.T("Nothing is running.") + ignored}, nil
	case restricted && !ctl.parts.Runtime.Turns.IsOnlyAuthor(inbox.LaneOf(c.Key), c.Principal):
		return command.Result{Text: c.T("This would stop what other people asked for. They or a member can use `/stop`.")}, nil
	case restricted:
		return command.Result{Text: formatStopped(c, true, 0) + ignored, Stop: true, KeepWaiting: true}, nil
	}
	return command.Result{Text: formatStopped(c, running, waiting) + ignored, Stop: true}, nil
}

// formatStopped says what ends.
func formatStopped(c command.Call, running bool, waiting int) string {
	var parts []string
	if running {
		parts = append(parts, c.T("the running turn is stopped"))
	}
	if waiting > 0 {
		parts = append(parts, c.T("%d waiting messages are cancelled", waiting))
	}
	s := strings.Join(parts, ", ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// title shows or sets the title of the conversation.
func (ctl *Control) title(ctx context.Context, c command.Call) (command.Result, error) {
	if c.Session.ID == "" {
		return command.Result{Text: c.T("There is no conversation yet. Write something first, or use `/new <title>`.")}, nil
	}
	name := command.CleanTitle(c.Args)
	if name == "" {
		if c.Session.Title == "" {
			return command.Result{Text: c.T("This conversation has no name. `/title <name>` gives it one.")}, nil
		}
		return command.Result{Text: c.T("This conversation is called %s.", command.Quote(c.Session.Title))}, nil
	}
	if err := ctl.parts.Store.SetTitle(ctx, c.Session.ID, name); err != nil {
		return command.Result{}, err
	}
	return command.Result{Text: c.T("This conversation is now called %s.", command.Quote(name))}, nil
}

// Lists of sessions are made from at most maxScannedSessions, and show at most
// maxListedSessions.
const (
	maxScannedSessions = 1000
	maxListedSessions  = 20
)

// conversations returns the sessions of the conversation of c, newest first.
func (ctl *Control) conversations(ctx context.Context, c command.Call) ([]session.Record, error) {
	all, err := ctl.parts.Store.Sessions(ctx, session.Query{Max: maxScannedSessions})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r session.Record) bool { return r.Key != c.Key }), nil
}

// sessions lists the conversations of the chat, with the arguments as a filter.
func (ctl *Control) sessions(ctx context.Context, c command.Call) (command.Result, error) {
	list, err := ctl.conversations(ctx, c)
	if err != nil {
		return command.Result{}, err
	}
	var b strings.Builder
	n := 0
	for _, r := range list {
		if !strings.Contains(strings.ToLower(r.Title+" "+string(r.ID)), strings.ToLower(c.Args)) {
			continue
		}
		if n++; n > maxListedSessions {
			break
		}
		b.WriteString(c.T("- `%s` %s, %d messages", r.ID, r.Updated.Format("2006-01-02 15:04"), r.Messages))
		if r.Title != "" {
			b.WriteString(", " + command.Quote(r.Title))
		}
		if r.ID == c.Session.ID {
			b.WriteString(" " + c.T("(this one)"))
		}
		b.WriteString("\n")
	}
	if n == 0 {
		return command.Result{Text: c.T("No conversation found.")}, nil
	}
	return command.Result{Text: c.T("**Conversations of this chat**") + "\n\n" + b.String()}, nil
}

// resume goes back to an earlier conversation of this chat.
func (ctl *Control) resume(ctx context.Context, c command.Call) (command.Result, error) {
	if c.Args == "" {
		return command.Result{Text: c.T("Say which: `/resume <name or id>`. `/sessions` lists them.")}, nil
	}
	list, err := ctl.conversations(ctx, c)
	if err != nil {
		return command.Result{}, err
	}
	found := matchSessions(list, c.Args)
	switch {
	case len(found) == 0:
		return command.Result{Text: c.T("No conversation of this chat is called %s. `/sessions` lists them.", command.Quote(c.Args))}, nil
	case len(found) > 1:
		var b strings.Builder
		b.WriteString(c.T("%d conversations fit; say which:", len(found)) + "\n\n")
		for _, r := range found[:min(len(found), maxListedSessions)] {
			fmt.Fprintf(&b, "- `%s` %s\n", r.ID, command.Quote(r.Title))
		}
		return command.Result{Text: b.String()}, nil
	case found[0].ID == c.Session.ID:
		return command.Result{Text: c.T("That is this conversation.")}, nil
	}
	r := found[0]
	return command.Result{Text: c.T("Back in %s (`%s`, %d messages).", command.Quote(titleOrID(r)), r.ID, r.Messages), Resume: r.ID, Stop: true}, nil
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
