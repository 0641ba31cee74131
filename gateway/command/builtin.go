package command

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"hermesd/gateway/access"
)

// Builtin returns the daemon's own commands.
func Builtin() []Command {
	return []Command{
		{Name: "start", Help: "say hello", Level: access.Guest, Immediate: true, Do: start},
		{Name: "help", Aliases: []string{"commands"}, Args: "[command]", Help: "list the commands", Level: access.Guest, Immediate: true, Do: help},
		{Name: "new", Aliases: []string{"reset"}, Args: "[title]", Help: "start a new conversation; the old one is kept", Level: access.Guest, Immediate: true, Do: newSession},
		{Name: "status", Help: "show this conversation and the daemon", Level: access.Guest, Immediate: true, Do: status},
		{Name: "stop", Help: "stop the running turn and cancel what waits", Level: access.Guest, Immediate: true, Do: stop},
		{Name: "title", Args: "[name]", Help: "show or set the name of this conversation", Level: access.Guest, Do: title},
		{Name: "sessions", Args: "[search]", Help: "list earlier conversations of this chat", Level: access.Guest, Immediate: true, Do: sessions},
		{Name: "why", Args: "[message id]", Help: "what became of a message", Level: access.Guest, Immediate: true, Do: why},
		{Name: "whoami", Help: "show your id and what you may do", Level: access.Guest, Immediate: true, Do: whoami},
		{Name: "version", Help: "show the version of the daemon", Level: access.Guest, Immediate: true, Do: version},
	}
}

func start(_ context.Context, _ Env, c Call) (Result, error) {
	return Result{Text: "Hello. Write me a message and I answer. `/help` lists the commands."}, nil
}

func help(_ context.Context, _ Env, c Call) (Result, error) {
	table := NewTable(Builtin()...)
	if name := strings.TrimPrefix(strings.ToLower(c.Args), "/"); name != "" {
		cmd, ok := table.Lookup(name)
		if !ok {
			return Result{Text: table.unknown(name)}, nil
		}
		return Result{Text: line(cmd)}, nil
	}
	var b strings.Builder
	b.WriteString("**Commands**\n\n")
	for _, cmd := range table.All() {
		if cmd.Level <= c.By.Level {
			b.WriteString("- " + line(cmd) + "\n")
		}
	}
	return Result{Text: b.String()}, nil
}

func line(c Command) string {
	s := "`/" + c.Name
	if c.Args != "" {
		s += " " + c.Args
	}
	s += "` " + c.Help
	if len(c.Aliases) > 0 {
		s += " (also `/" + strings.Join(c.Aliases, "`, `/") + "`)"
	}
	return s
}

func newSession(_ context.Context, env Env, c Call) (Result, error) {
	text := "A new conversation begins."
	if c.Session.ID != "" {
		text += fmt.Sprintf(" The old one is kept as `%s`.", c.Session.ID)
	}
	if running, waiting := env.Busy(c.Key); running || waiting > 0 {
		text += " " + stopped(running, waiting)
	}
	return Result{Text: text, Open: true, Title: cleanTitle(c.Args), Stop: true}, nil
}

func stop(_ context.Context, env Env, c Call) (Result, error) {
	running, waiting := env.Busy(c.Key)
	if !running && waiting == 0 {
		return Result{Text: "Nothing is running."}, nil
	}
	return Result{Text: stopped(running, waiting), Stop: true}, nil
}

func stopped(running bool, waiting int) string {
	var parts []string
	if running {
		parts = append(parts, "the running turn is stopped")
	}
	switch {
	case waiting == 1:
		parts = append(parts, "1 waiting message is cancelled")
	case waiting > 1:
		parts = append(parts, fmt.Sprintf("%d waiting messages are cancelled", waiting))
	}
	s := strings.Join(parts, ", ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func status(ctx context.Context, env Env, c Call) (Result, error) {
	text, err := env.Status(ctx, c)
	return Result{Text: text}, err
}

// maxTitle is the most characters of a title.
const maxTitle = 100

func cleanTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxTitle {
		s = strings.TrimSpace(string(r[:maxTitle]))
	}
	return s
}

func title(ctx context.Context, env Env, c Call) (Result, error) {
	if c.Session.ID == "" {
		return Result{Text: "There is no conversation yet. Write something first, or use `/new <title>`."}, nil
	}
	name := cleanTitle(c.Args)
	if name == "" {
		if c.Session.Title == "" {
			return Result{Text: "This conversation has no name. `/title <name>` gives it one."}, nil
		}
		return Result{Text: "This conversation is called " + quote(c.Session.Title) + "."}, nil
	}
	if err := env.SetTitle(ctx, c.Session.ID, name); err != nil {
		return Result{}, err
	}
	return Result{Text: "This conversation is now called " + quote(name) + "."}, nil
}

// quote shows a person's own text as code, so that it cannot become markup.
func quote(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

// maxListed is the most sessions in one list.
const maxListed = 20

func sessions(ctx context.Context, env Env, c Call) (Result, error) {
	list, err := env.Sessions(ctx, c)
	if err != nil {
		return Result{}, err
	}
	var b strings.Builder
	n := 0
	for _, r := range list {
		if !strings.Contains(strings.ToLower(r.Title+" "+string(r.ID)), strings.ToLower(c.Args)) {
			continue
		}
		if n++; n > maxListed {
			break
		}
		fmt.Fprintf(&b, "- `%s` %s, %d messages", r.ID, r.Updated.Format("2006-01-02 15:04"), r.Messages)
		if r.Title != "" {
			b.WriteString(", " + quote(r.Title))
		}
		if r.ID == c.Session.ID {
			b.WriteString(" (this one)")
		}
		b.WriteString("\n")
	}
	if n == 0 {
		return Result{Text: "No conversation found."}, nil
	}
	return Result{Text: "**Conversations of this chat**\n\n" + b.String()}, nil
}

func why(ctx context.Context, env Env, c Call) (Result, error) {
	id := c.Args
	if id == "" && c.In.ReplyTo != nil {
		id = c.In.ReplyTo.ID
	}
	if id == "" {
		return Result{Text: "Say which: `/why <message id>`, or reply with `/why` to the message."}, nil
	}
	text, err := env.Why(ctx, c, id)
	return Result{Text: text}, err
}

func whoami(_ context.Context, _ Env, c Call) (Result, error) {
	s := fmt.Sprintf("You are %s on %s, level **%s**.", quote(c.By.ID), c.By.Platform, c.By.Level)
	if c.In.From.Chat != "" {
		s += fmt.Sprintf(" This chat is %s.", quote(c.In.From.String()))
	}
	return Result{Text: s}, nil
}

func version(_ context.Context, env Env, _ Call) (Result, error) {
	return Result{Text: env.Version()}, nil
}
