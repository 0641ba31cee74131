package command

import (
	"context"
	"strings"
	"unicode"

	"hermesd/gateway/access"
	"hermesd/gateway/i18n"
)

// Specs returns the commands of the daemon, in the order of /help.
func Specs() []Spec {
	return []Spec{
		{Name: "start", Help: "say hello", Level: access.Guest, IgnoresArgs: true, Immediate: true},
		{Name: "help", Aliases: []string{"commands"}, Args: "[command]", Help: "list the commands", Level: access.Guest, Immediate: true},
		{Name: "new", Aliases: []string{"reset"}, Args: "[title]", Help: "start a new conversation; the old one is kept", Level: access.Guest, SharedLevel: access.Member, Immediate: true},
		{Name: "status", Help: "show this conversation and the daemon", Level: access.Guest, Immediate: true},
		{Name: "stop", Help: "stop the running turn and cancel what waits", Level: access.Guest, IgnoresArgs: true, Immediate: true},
		{Name: "title", Args: "[name]", Help: "show or set the name of this conversation", Level: access.Guest, SharedLevel: access.Member},
		{Name: "sessions", Args: "[search]", Help: "list earlier conversations of this chat", Level: access.Guest, Immediate: true},
		{Name: "compress", Args: "[focus]", Help: "summarise the older part of this conversation; it is archived, not deleted", Level: access.Guest, SharedLevel: access.Member},
		{Name: "model", Args: "[name]", Help: "show or change the model of this conversation", Level: access.Member},
		{Name: "reasoning", Args: "[level]", Help: "show or set how much the model thinks", Level: access.Member},
		{Name: "personality", Args: "[name]", Help: "show or set how this conversation is answered", Level: access.Guest, SharedLevel: access.Member},
		{Name: "reload", Help: "read memories, skills, context files and tools again", Level: access.Member},
		{Name: "context", Help: "show what fills the model's context: prompt, tools, messages, what was archived", Level: access.Guest, Immediate: true},
		{Name: "usage", Help: "show tokens, reuse and cost of this conversation", Level: access.Member, Immediate: true},
		{Name: "memory", Help: "show how full the memories are; only in a direct chat", Level: access.Owner, Immediate: true},
		{Name: "skills", Help: "list the skills; each can be used as a command", Level: access.Guest, Immediate: true},
		{Name: "retry", Help: "retry the last message", Level: access.Guest, SharedLevel: access.Member},
		{Name: "undo", Args: "[number]", Help: "take back the last exchange; it is archived", Level: access.Guest, SharedLevel: access.Member},
		{Name: "resume", Args: "<name>", Help: "go back to an earlier conversation of this chat", Level: access.Guest, SharedLevel: access.Member, Immediate: true},
		{Name: "branch", Args: "[name]", Help: "go on in a copy of this conversation", Level: access.Guest, SharedLevel: access.Member},
		{Name: "forget", Aliases: []string{"delete"}, Args: "[now]", Help: "delete this conversation for good; asks first", Level: access.Guest, SharedLevel: access.Owner, Immediate: true},
		{Name: "queue", Args: "<text>", Help: "say something that waits for the running turn", Level: access.Guest, Immediate: true},
		{Name: "steer", Args: "<text>", Help: "add a message to the running turn", Level: access.Guest, Immediate: true},
		{Name: "bg", Aliases: []string{"background"}, Args: "<prompt>", Help: "work on something in a conversation of its own", Level: access.Guest, Immediate: true},
		{Name: "busy", Args: "[mode]", Help: "what a message does while a turn runs: interrupt, queue or steer", Level: access.Guest, SharedLevel: access.Member},
		{Name: "approve", Args: "[id] [session|always]", Help: "allow what a turn asks to run", Level: access.Guest, Immediate: true},
		{Name: "deny", Args: "[id]", Help: "refuse what a turn asks to run", Level: access.Guest, Immediate: true},
		{Name: "approvals", Args: "[remove <number>|add <job> <shape>]", Help: "list the remembered approvals, remove one, or add one for a job", Level: access.Owner, Immediate: true},
		{Name: "answer", Args: "<question> <text>", Help: "answer a question of a running turn", Level: access.Guest, Immediate: true},
		{Name: "verbose", Args: "[off|new|all|verbose]", Help: "show tool calls while a turn runs", Level: access.Guest, SharedLevel: access.Member},
		{Name: "voice", Args: "[on|off]", Help: "speak answers too", Level: access.Guest, SharedLevel: access.Member},
		{Name: "cron", Args: "[add|show|pause|resume|run|remove|history]", Help: "list and change the scheduled prompts of this chat", Level: access.Member, Immediate: true},
		{Name: "pause", Args: "[off]", Help: "pause or resume the daemon", Level: access.Owner, Immediate: true},
		{Name: "sethome", Help: "make this chat the home channel of its platform", Level: access.Owner, Immediate: true},
		{Name: "why", Args: "[message id]", Help: "what became of a message", Level: access.Guest, Immediate: true},
		{Name: "whoami", Help: "show your id and what you may do", Level: access.Guest, Immediate: true},
		{Name: "restart", Args: "[now]", Help: "restart the daemon; asks first", Level: access.Owner, Immediate: true},
		{Name: "version", Help: "show the version of the daemon", Level: access.Guest, Immediate: true},
	}
}

// ownHandlers returns the handlers of the commands that need nothing of the daemon but what
// a Call has.
func (t *Table) ownHandlers() map[string]Handler {
	return map[string]Handler{
		"start": start, "help": t.help, "whoami": whoami,
		"reasoning": reasoning, "reload": reload, "compress": compress,
		"retry": retry, "undo": undo, "branch": branch, "forget": forget,
		"queue": replyUsage(i18n.N("`/queue <text>` says something that is answered after the running turn.")),
		"steer": replyUsage(i18n.N("`/steer <text>` is told to the running turn after its next tool; without one it is a message like any other.")),
		"bg":    replyUsage(i18n.N("`/bg <prompt>` runs in a conversation of its own, without the history of this one; the answer comes here.")),
	}
}

// replyUsage returns a Handler that replies with a usage text. With arguments these
// commands become messages before they reach the table.
func replyUsage(text string) Handler {
	return func(_ context.Context, c Call) (Result, error) { return Result{Text: c.Translate(text)}, nil }
}

// ReplyWith returns the Handler of a command that only replies.
func ReplyWith(reply func(context.Context, Call) (string, error)) Handler {
	return func(ctx context.Context, c Call) (Result, error) {
		text, err := reply(ctx, c)
		return Result{Text: text}, err
	}
}

// start greets. Links to a bot on Telegram put text after the command.
func start(_ context.Context, c Call) (Result, error) {
	return Result{Text: c.T("Hello. Write me a message and I answer. `/help` lists the commands.")}, nil
}

func (t *Table) help(_ context.Context, c Call) (Result, error) {
	if name := strings.TrimPrefix(strings.ToLower(c.Args), "/"); name != "" {
		cmd, ok := t.Lookup(name)
		if !ok {
			return Result{Text: t.unknownReply(c, name)}, nil
		}
		return Result{Text: formatHelpLine(c, cmd)}, nil
	}
	var b strings.Builder
	b.WriteString(c.T("**Commands**") + "\n\n")
	for _, cmd := range t.All() {
		if cmd.minLevel(c) <= c.Principal.Level {
			b.WriteString("- " + formatHelpLine(c, cmd) + "\n")
		}
	}
	return Result{Text: b.String()}, nil
}

func formatHelpLine(c Call, cmd Spec) string {
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

// Quote renders untrusted text as inline code, so that it cannot become markup.
func Quote(s string) string { return "`" + strings.ReplaceAll(s, "`", "'") + "`" }

func whoami(_ context.Context, c Call) (Result, error) {
	s := c.T("You are %s on %s, level **%s**.", Quote(c.Principal.ID), c.Principal.Platform, c.Principal.Level)
	if c.Inbound.Address.Chat != "" {
		s += " " + c.T("This chat is %s.", Quote(c.Inbound.Address.String()))
	}
	return Result{Text: s}, nil
}
