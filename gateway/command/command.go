// Package command parses chat commands and runs them from one Table. Dispatch, /help,
// the menus of the platforms and the list in the docs use the same specs. The parts of
// the daemon give the handlers of their commands, which return what is to be changed as a
// Result; the package stores nothing. A Table is immutable and safe for concurrent use.
package command

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/similar"
)

// A Spec is what users see of a command, and who may use it.
type Spec struct {
	Name    string
	Aliases []string
	Args    string       // as shown in help: "[title]"
	Help    string       // one line
	Level   access.Level // the lowest level that may use it
	// SharedLevel is the lowest level that may use it in a conversation that several
	// people share, if that is higher than Level.
	SharedLevel access.Level
	// IgnoresArgs is set if a command without Args runs although there is text after it.
	IgnoresArgs bool
	// Immediate commands do not wait for the running turn.
	Immediate bool
}

// A Handler runs a command. The caller has checked the level.
type Handler func(ctx context.Context, c Call) (Result, error)

// minLevel returns the lowest level that may use the command in the conversation of call.
func (s Spec) minLevel(call Call) access.Level {
	if call.Shared {
		return max(s.Level, s.SharedLevel)
	}
	return s.Level
}

// A Call is one invocation of a command.
type Call struct {
	Name      string // of the command, aliases resolved
	Args      string
	Inbound   chat.Inbound
	Principal access.Principal
	Key       session.Key
	Session   session.Record // the zero Record if there is none yet
	Shared    bool           // several people share the conversation
	// Allowed are the names of the commands that users below owner may run here, besides
	// help; empty: those of their level.
	Allowed []string

	i18n.Printer // translates texts for the caller
}

// A Result lists the changes that a command requests. All of them are made in one
// commit, or none.
type Result struct {
	Text string // Markdown, sent to the chat
	// Open starts a new session for the key, named Title.
	Open  bool
	Title string
	// Stop ends the running turn and, unless KeepWaiting is set, cancels waiting messages.
	Stop        bool
	KeepWaiting bool
	// Buttons are shown under Text. The data of each is a command, which a press runs.
	Buttons [][]chat.Button
	// Settings, if set, replace those of the session. If there is no session yet, one is
	// opened with them.
	Settings *session.Settings
	// Compress runs a compaction; Focus says what the summary must keep. The result of
	// the compaction is sent instead of Text.
	Compress bool
	Focus    string
	// Undo is the number of last exchanges to remove from the transcript; they are
	// archived. With Retry the agent then gets the last message again.
	Undo  int
	Retry bool
	// Resume continues the conversation in an earlier session.
	Resume session.ID
	// Branch continues the conversation in a copy of the session, named Title.
	Branch bool
	// Forget deletes the session.
	Forget bool
	// AfterCommit, if set, is called once the command is committed and Text is enqueued.
	AfterCommit func()
	// Rebuild, if set, rebuilds the prompt of the session. It is the reason of the
	// prefix break: "reload", "model_switch".
	Rebuild string
}

// Parse splits text into the name and the arguments of a command. ok is false if text
// is not a command: it does not start with a slash, or its first word is a path.
func Parse(text string) (name, args string, ok bool) {
	text = strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(text, "/") {
		return "", "", false
	}
	word, rest, _ := strings.Cut(text[1:], " ")
	if i := strings.IndexAny(word, "\n\t\r"); i >= 0 {
		word, rest = word[:i], word[i:]+" "+rest
	}
	word, _, _ = strings.Cut(word, "@")
	if !commandName().MatchString(word) {
		return "", "", false
	}
	// Clients of some phones turn two hyphens into dashes.
	rest = strings.NewReplacer("—", "--", "–", "-").Replace(rest)
	return strings.ToLower(strings.ReplaceAll(word, "_", "-")), strings.TrimSpace(rest), true
}

var commandName = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

// A Table is an immutable list of commands with their handlers.
type Table struct {
	specs    []Spec
	byName   map[string]int
	handlers map[string]Handler
}

// NewTable returns a table of commands, in the order of /help, with handlers by name of
// command. It panics if two commands share a name or alias, a command does not have exactly
// one handler, or a handler has no command.
func NewTable(specs []Spec, handlers ...map[string]Handler) *Table {
	t := &Table{specs: specs, byName: make(map[string]int), handlers: make(map[string]Handler)}
	for i, s := range specs {
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if _, twice := t.byName[n]; twice {
				panic("command: two commands are called " + n)
			}
			t.byName[n] = i
		}
	}
	for _, of := range handlers {
		for name, h := range of {
			i, ok := t.byName[name]
			if !ok || specs[i].Name != name || t.handlers[name] != nil {
				panic("command: " + name + " is no command, or has two handlers")
			}
			t.handlers[name] = h
		}
	}
	own := t.ownHandlers()
	for _, s := range specs {
		if t.handlers[s.Name] == nil {
			t.handlers[s.Name] = own[s.Name]
		}
		if t.handlers[s.Name] == nil {
			panic("command: " + s.Name + " has no handler")
		}
	}
	return t
}

// Localized returns a copy of the specs with their help in the language of p.
func Localized(p i18n.Printer, specs []Spec) []Spec {
	localized := slices.Clone(specs)
	for i, s := range specs {
		localized[i].Help = p.Translate(s.Help)
	}
	return localized
}

// Menu returns the commands that users of a level may use, for the menus of platforms.
func Menu(specs []Spec, level access.Level) []chat.CommandInfo {
	var items []chat.CommandInfo
	for _, s := range specs {
		if s.Level <= level {
			items = append(items, chat.CommandInfo{Name: s.Name, Help: s.Help})
		}
	}
	return items
}

// All returns the commands in the order of /help. The caller must not modify the slice.
func (t *Table) All() []Spec { return t.specs }

// Lookup returns the command with that name or alias, else the only command whose name
// has it as a prefix of at least two letters.
func (t *Table) Lookup(name string) (Spec, bool) {
	if i, ok := t.byName[name]; ok {
		return t.specs[i], true
	}
	found := -1
	for i, c := range t.specs {
		if len(name) >= 2 && strings.HasPrefix(c.Name, name) {
			if found >= 0 {
				return Spec{}, false
			}
			found = i
		}
	}
	if found < 0 {
		return Spec{}, false
	}
	return t.specs[found], true
}

// isIn reports whether names contains the command by its name or an alias, with or
// without a slash.
func (s Spec) isIn(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		n = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(n), "/"))
		return n == s.Name || slices.Contains(s.Aliases, n)
	})
}

// Run runs the command that c names. If it does not exist, the level of the user is too
// low, or there is text after a command that takes none, the Result is a reply that
// says so.
func (t *Table) Run(ctx context.Context, c Call) (Result, error) {
	cmd, ok := t.Lookup(c.Name)
	switch {
	case !ok:
		return Result{Text: t.unknownReply(c, c.Name)}, nil
	case c.Principal.Level >= cmd.Level && c.Principal.Level < cmd.minLevel(c):
		return Result{Text: c.T("Several people share this conversation. Here `/%s` requires level %s; yours is %s.", cmd.Name, cmd.SharedLevel, c.Principal.Level)}, nil
	case c.Principal.Level < cmd.Level:
		return Result{Text: c.T("You cannot use `/%s`: it requires level %s, yours is %s.", cmd.Name, cmd.Level, c.Principal.Level)}, nil
	case len(c.Allowed) > 0 && c.Principal.Level < access.Owner && cmd.Name != "help" && !cmd.isIn(c.Allowed):
		return Result{Text: c.T("You cannot use `/%s` here: the operator does not allow it.", cmd.Name)}, nil
	case c.Args != "" && cmd.Args == "" && !cmd.IgnoresArgs:
		return Result{Text: c.T("`/%s` takes nothing after it, so nothing was done. Say `/%s` alone.", cmd.Name, cmd.Name)}, nil
	}
	c.Name = cmd.Name
	return t.handlers[cmd.Name](ctx, c)
}

// Immediate reports whether the command called name does not wait for the running
// turn. Unknown commands are immediate: they are answered at once.
func (t *Table) Immediate(name string) bool {
	cmd, ok := t.Lookup(name)
	return !ok || cmd.Immediate
}

func (t *Table) unknownReply(c Call, name string) string {
	s := c.T("There is no command `/%s`.", name)
	if near := t.suggest(c, name); len(near) > 0 {
		s += " " + c.T("Did you mean %s?", "`/"+strings.Join(near, "`, `/")+"`")
	}
	return s + " " + c.T("`/help` lists what there is. To send text that begins with a slash, put a space and a word before it.")
}

// suggest returns the commands that the caller may use and whose names begin with
// name, in the order of /help; if there are none, the name or alias that differs least
// from it, in at most half of its letters and three.
func (t *Table) suggest(c Call, name string) []string {
	var begin []string
	best, bestDistance := "", min(len(name)/2, 3)+1
	for _, cmd := range t.specs {
		if c.Principal.Level < cmd.minLevel(c) {
			continue
		}
		for _, n := range append([]string{cmd.Name}, cmd.Aliases...) {
			if strings.HasPrefix(n, name) {
				begin = append(begin, n)
				break
			}
			if d := similar.Distance(name, n); d < bestDistance {
				best, bestDistance = n, d
			}
		}
	}
	if len(begin) == 0 && best != "" {
		return []string{best}
	}
	return begin
}

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

// confirmTimeout is how long a confirmation question is valid. Older buttons do
// nothing, so that a press on an old message has no unintended effect.
const confirmTimeout = 5 * time.Minute

// QuestionTime returns the current time in the form that the button of a confirmation
// question carries: base 36 Unix seconds.
func QuestionTime() string { return strconv.FormatInt(time.Now().Unix(), 36) }

// IsQuestionValid reports whether a question of that QuestionTime is still valid.
func IsQuestionValid(asked string) bool {
	at, err := strconv.ParseInt(asked, 36, 64)
	return err == nil && time.Since(time.Unix(at, 0)).Abs() < confirmTimeout
}

// effortLevels returns the levels of reasoning effort, in ascending order.
func effortLevels() []string {
	return []string{"none", "minimal", "low", "medium", "high", "xhigh"}
}

// reasoning shows or sets the reasoning effort of the model.
func reasoning(_ context.Context, c Call) (Result, error) {
	level := strings.ToLower(c.Args)
	set := c.Session.Settings
	switch {
	case level == "":
		now := set.Effort
		if now == "" {
			now = c.T("as configured")
		}
		return Result{Text: c.T("The model thinks: %s. `/reasoning <level>` sets it for this conversation: %s, or `default`.", now, strings.Join(effortLevels(), ", "))}, nil
	case level == "default":
		set.Effort = ""
	case !slices.Contains(effortLevels(), level):
		return Result{Text: c.T("I know the levels %s, and `default`.", strings.Join(effortLevels(), ", "))}, nil
	default:
		set.Effort = level
	}
	return Result{Text: c.T("From the next message on the model thinks: %s.", level), Settings: &set}, nil
}

// reload rebuilds the prompt of the session from the current files.
func reload(_ context.Context, c Call) (Result, error) {
	return Result{Text: c.T("Memories, skills, context files and tools are read again."), Rebuild: "reload"}, nil
}

// compress runs a compaction of the session.
func compress(_ context.Context, c Call) (Result, error) {
	return Result{Compress: true, Focus: c.Args}, nil
}
