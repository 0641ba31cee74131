package command

import (
	"context"
	"strings"
	"unicode"

	"hermesd/gateway/access"
	"hermesd/gateway/i18n"
)

// Builtin returns the commands of the daemon, in the order of /help.
func Builtin() []Command {
	return []Command{
		{Name: "start", Help: "say hello", Level: access.Guest, IgnoresArgs: true, Immediate: true, Run: start},
		{Name: "help", Aliases: []string{"commands"}, Args: "[command]", Help: "list the commands", Level: access.Guest, Immediate: true, Run: help},
		{Name: "new", Aliases: []string{"reset"}, Args: "[title]", Help: "start a new conversation; the old one is kept", Level: access.Guest, SharedLevel: access.Member, Immediate: true, Run: newSession},
		{Name: "status", Help: "show this conversation and the daemon", Level: access.Guest, Immediate: true, Run: status},
		{Name: "stop", Help: "stop the running turn and cancel what waits", Level: access.Guest, IgnoresArgs: true, Immediate: true, Run: stop},
		{Name: "title", Args: "[name]", Help: "show or set the name of this conversation", Level: access.Guest, SharedLevel: access.Member, Run: title},
		{Name: "sessions", Args: "[search]", Help: "list earlier conversations of this chat", Level: access.Guest, Immediate: true, Run: sessions},
		{Name: "compress", Args: "[focus]", Help: "summarise the older part of this conversation; it is archived, not deleted", Level: access.Guest, SharedLevel: access.Member, Run: compress},
		{Name: "model", Args: "[name]", Help: "show or change the model of this conversation", Level: access.Member, Run: model},
		{Name: "reasoning", Args: "[level]", Help: "show or set how much the model thinks", Level: access.Member, Run: reasoning},
		{Name: "personality", Args: "[name]", Help: "show or set how this conversation is answered", Level: access.Guest, SharedLevel: access.Member, Run: personality},
		{Name: "reload", Help: "read memories, skills, context files and tools again", Level: access.Member, Run: reload},
		{Name: "context", Help: "show what fills the model's context: prompt, tools, messages, what was archived", Level: access.Guest, Immediate: true, Run: replyWith(Env.Context, i18n.N(noSessionYet))},
		{Name: "usage", Help: "show tokens, reuse and cost of this conversation", Level: access.Member, Immediate: true, Run: replyWith(Env.Usage, i18n.N(noSessionYet))},
		{Name: "memory", Help: "show how full the memories are; only in a direct chat", Level: access.Owner, Immediate: true, Run: memory},
		{Name: "skills", Help: "list the skills; each can be used as a command", Level: access.Guest, Immediate: true, Run: replyWith(Env.Skills, "")},
		{Name: "retry", Help: "retry the last message", Level: access.Guest, SharedLevel: access.Member, Run: retry},
		{Name: "undo", Args: "[number]", Help: "take back the last exchange; it is archived", Level: access.Guest, SharedLevel: access.Member, Run: undo},
		{Name: "resume", Args: "<name>", Help: "go back to an earlier conversation of this chat", Level: access.Guest, SharedLevel: access.Member, Immediate: true, Run: resume},
		{Name: "branch", Args: "[name]", Help: "go on in a copy of this conversation", Level: access.Guest, SharedLevel: access.Member, Run: branch},
		{Name: "forget", Aliases: []string{"delete"}, Args: "[now]", Help: "delete this conversation for good; asks first", Level: access.Guest, SharedLevel: access.Owner, Immediate: true, Run: forget},
		{Name: "queue", Args: "<text>", Help: "say something that waits for the running turn", Level: access.Guest, Immediate: true, Run: replyUsage(i18n.N("`/queue <text>` says something that is answered after the running turn."))},
		{Name: "steer", Args: "<text>", Help: "add a message to the running turn", Level: access.Guest, Immediate: true, Run: replyUsage(i18n.N("`/steer <text>` is told to the running turn after its next tool; without one it is a message like any other."))},
		{Name: "bg", Aliases: []string{"background"}, Args: "<prompt>", Help: "work on something beside this conversation", Level: access.Guest, Immediate: true, Run: replyUsage(i18n.N("`/bg <prompt>` is worked on beside this conversation, with none of its history; the answer comes here."))},
		{Name: "busy", Args: "[mode]", Help: "what a message does while a turn runs: interrupt, queue or steer", Level: access.Guest, SharedLevel: access.Member, Run: busy},
		{Name: "approve", Args: "[id] [session|always]", Help: "allow what a turn asks to run", Level: access.Guest, Immediate: true, Run: approve},
		{Name: "deny", Args: "[id]", Help: "refuse what a turn asks to run", Level: access.Guest, Immediate: true, Run: deny},
		{Name: "approvals", Args: "[remove <number>]", Help: "list the remembered approvals, or remove one", Level: access.Owner, Immediate: true, Run: replyWith(Env.Approvals, "")},
		{Name: "answer", Args: "<question> <text>", Help: "answer a question of a running turn", Level: access.Guest, Immediate: true, Run: answer},
		{Name: "verbose", Args: "[off|new|all|verbose]", Help: "show tool calls while a turn runs", Level: access.Guest, SharedLevel: access.Member, Run: verbose},
		{Name: "voice", Args: "[on|off]", Help: "speak answers too", Level: access.Guest, SharedLevel: access.Member, Run: voice},
		{Name: "cron", Args: "[add|show|pause|resume|run|remove|history]", Help: "list and change the scheduled prompts of this chat", Level: access.Member, Immediate: true, Run: replyWith(Env.Cron, "")},
		{Name: "pause", Args: "[off]", Help: "pause or resume the daemon", Level: access.Owner, Immediate: true, Run: pause},
		{Name: "sethome", Help: "make this chat the home channel of its platform", Level: access.Owner, Immediate: true, Run: setHome},
		{Name: "why", Args: "[message id]", Help: "what became of a message", Level: access.Guest, Immediate: true, Run: why},
		{Name: "whoami", Help: "show your id and what you may do", Level: access.Guest, Immediate: true, Run: whoami},
		{Name: "restart", Args: "[now]", Help: "restart the daemon; asks first", Level: access.Owner, Immediate: true, Run: restart},
		{Name: "version", Help: "show the version of the daemon", Level: access.Guest, Immediate: true, Run: version},
	}
}

// noSessionYet is the reply of commands that need a session if there is none.
const noSessionYet = "There is no conversation yet. Write something first."

// start greets. Links to a bot on Telegram put text after the command.
func start(_ context.Context, _ Env, c Call) (Result, error) {
	return Result{Text: c.T("Hello. Write me a message and I answer. `/help` lists the commands.")}, nil
}

func help(_ context.Context, _ Env, c Call) (Result, error) {
	table := NewTable(Localized(c.Printer, Builtin()...)...)
	if name := strings.TrimPrefix(strings.ToLower(c.Args), "/"); name != "" {
		cmd, ok := table.Lookup(name)
		if !ok {
			return Result{Text: table.unknownReply(c, name)}, nil
		}
		return Result{Text: formatHelpLine(c, cmd)}, nil
	}
	var b strings.Builder
	b.WriteString(c.T("**Commands**") + "\n\n")
	for _, cmd := range table.All() {
		if cmd.minLevel(c) <= c.Principal.Level {
			b.WriteString("- " + formatHelpLine(c, cmd) + "\n")
		}
	}
	return Result{Text: b.String()}, nil
}

func formatHelpLine(c Call, cmd Command) string {
	s := "`/" + cmd.Name
	if cmd.Args != "" {
		s += " " + cmd.Args
	}
	s += "` " + cmd.Help
	if len(cmd.Aliases) > 0 {
		s += " " + c.T("(also %s)", "`/"+strings.Join(cmd.Aliases, "`, `/")+"`")
	}
	return s
}

func newSession(_ context.Context, env Env, c Call) (Result, error) {
	text := c.T("A new conversation begins.")
	if c.Session.ID != "" {
		text += " " + c.T("The old one is kept as `%s`.", c.Session.ID)
	}
	if running, waiting := env.Busy(c.Key); running || waiting > 0 {
		text += " " + formatStopped(c, running, waiting)
	}
	n, end := env.Background(c.Session.ID)
	if n > 0 {
		text += " " + c.T("The %d commands that it runs in the background are ended.", n)
	}
	return Result{Text: text, Open: true, Title: CleanTitle(c.Args), Stop: true, AfterCommit: end}, nil
}

// stop stops the running turn, whatever is written after the command.
func stop(_ context.Context, env Env, c Call) (Result, error) {
	running, waiting := env.Busy(c.Key)
	ignored := ""
	if c.Args != "" {
		ignored = " " + c.T("What is written after `/stop` has no effect.")
	}
	restricted := c.Shared && c.Principal.Level < access.Member
	switch {
	case !running && waiting == 0:
		return Result{Text: c.T("Nothing is running.") + ignored}, nil
	case restricted && !env.IsSoleAuthor(c):
		return Result{Text: c.T("This would stop what other people asked for. They or a member can use `/stop`.")}, nil
	case restricted:
		return Result{Text: formatStopped(c, true, 0) + ignored, Stop: true, KeepWaiting: true}, nil
	}
	return Result{Text: formatStopped(c, running, waiting) + ignored, Stop: true}, nil
}

func formatStopped(c Call, running bool, waiting int) string {
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

func status(ctx context.Context, env Env, c Call) (Result, error) {
	text, err := env.Status(ctx, c)
	return Result{Text: text}, err
}

// maxTitleLength is the maximum length of a title in characters.
const maxTitleLength = 100

// CleanTitle normalizes a title that a user typed: one line of at most 100 characters,
// without control and format characters.
func CleanTitle(s string) string {
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
	if r := []rune(s); len(r) > maxTitleLength {
		s = strings.TrimSpace(string(r[:maxTitleLength]))
	}
	return s
}

func title(ctx context.Context, env Env, c Call) (Result, error) {
	if c.Session.ID == "" {
		return Result{Text: c.T("There is no conversation yet. Write something first, or use `/new <title>`.")}, nil
	}
	name := CleanTitle(c.Args)
	if name == "" {
		if c.Session.Title == "" {
			return Result{Text: c.T("This conversation has no name. `/title <name>` gives it one.")}, nil
		}
		return Result{Text: c.T("This conversation is called %s.", quote(c.Session.Title))}, nil
	}
	if err := env.SetTitle(ctx, c.Session.ID, name); err != nil {
		return Result{}, err
	}
	return Result{Text: c.T("This conversation is now called %s.", quote(name))}, nil
}

// quote renders untrusted text as inline code, so that it cannot become markup.
func quote(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

// maxListedSessions is the maximum number of sessions in one list.
const maxListedSessions = 20

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
		if n++; n > maxListedSessions {
			break
		}
		b.WriteString(c.T("- `%s` %s, %d messages", r.ID, r.Updated.Format("2006-01-02 15:04"), r.Messages))
		if r.Title != "" {
			b.WriteString(", " + quote(r.Title))
		}
		if r.ID == c.Session.ID {
			b.WriteString(" " + c.T("(this one)"))
		}
		b.WriteString("\n")
	}
	if n == 0 {
		return Result{Text: c.T("No conversation found.")}, nil
	}
	return Result{Text: c.T("**Conversations of this chat**") + "\n\n" + b.String()}, nil
}

func why(ctx context.Context, env Env, c Call) (Result, error) {
	id := c.Args
	if id == "" && c.Inbound.ReplyTo != nil {
		id = c.Inbound.ReplyTo.ID
	}
	if id == "" {
		return Result{Text: c.T("Say which: `/why <message id>`, or reply with `/why` to the message.")}, nil
	}
	text, err := env.Why(ctx, c, id)
	return Result{Text: text}, err
}

func whoami(_ context.Context, _ Env, c Call) (Result, error) {
	s := c.T("You are %s on %s, level **%s**.", quote(c.Principal.ID), c.Principal.Platform, c.Principal.Level)
	if c.Inbound.Address.Chat != "" {
		s += " " + c.T("This chat is %s.", quote(c.Inbound.Address.String()))
	}
	return Result{Text: s}, nil
}

func version(_ context.Context, env Env, _ Call) (Result, error) {
	return Result{Text: env.Version()}, nil
}
