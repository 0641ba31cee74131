// Package command parses slash commands and runs them from one table.
//
// From the table come the dispatcher, /help, the platforms' menus and the list
// in the docs.
package command

import (
	"context"
	"slices"
	"strings"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// A Command is one row of the table.
type Command struct {
	Name    string
	Aliases []string
	Args    string // as shown in help: "[title]"
	Help    string // one line
	Level   access.Level
	// Immediate commands do not wait for the turn that runs.
	Immediate bool
	// Run runs the command.
	Run func(ctx context.Context, env Env, c Call) (Result, error)
}

// A Call is one use of a command.
type Call struct {
	Name      string // of the command that runs, aliases resolved
	Args      string
	Inbound   chat.Inbound
	Principal access.Principal
	Key       session.Key
	Session   session.Record // the zero Record if there is none yet

	i18n.Printer // says what the caller reads
}

// A Result is what a command wants to be done, at once or not at all.
type Result struct {
	Text string // Markdown, said in the chat
	// Open starts a new session for the key, named Title.
	Open  bool
	Title string
	// Stop ends the turn that runs and cancels what waits for it.
	Stop bool
	// Buttons stand under Text. Each holds a command, and pressing it is to give
	// that command.
	Buttons [][]chat.Button
	// Restart has the daemon start again.
	Restart bool
	// Settings, if set, become those of the session; one that is not there yet is
	// opened with them.
	Settings *session.Settings
	// Compress has the conversation made smaller, and Focus says what is to be kept
	// best. What came of it is said instead of Text.
	Compress bool
	Focus    string
	// Undo takes the last exchanges out of the conversation, as many as it says;
	// they are archived. Retry gives the agent the last message again then.
	Undo  int
	Retry bool
	// Resume makes the conversation go on in an earlier session.
	Resume session.ID
	// Branch makes it go on in a copy, named Title.
	Branch bool
	// Forget deletes the session.
	Forget bool
	// AfterCommit, if set, is done once the command is marked done and its Text is on its
	// way.
	AfterCommit func()
	// Rebuild, if set, has the prompt of the session built anew, and says why the
	// prefix changes: "reload", "model_switch".
	Rebuild string
}

// Env is what commands may ask the daemon.
type Env interface {
	// Status describes the conversation and the daemon, as Markdown.
	Status(ctx context.Context, c Call) (string, error)
	// Busy returns whether a turn runs for key, and how many messages wait.
	Busy(key session.Key) (running bool, waiting int)
	// Sessions returns the sessions of the conversation, newest first.
	Sessions(ctx context.Context, c Call) ([]session.Record, error)
	// SetTitle names a session.
	SetTitle(ctx context.Context, id session.ID, title string) error
	// Why tells what became of a message of this conversation, as Markdown.
	Why(ctx context.Context, c Call, id string) (string, error)
	// Version is the daemon's version in one line.
	Version() string
	// Personalities returns the names that /personality knows, in order.
	Personalities() []string
	// Models returns the models that people may choose, as provider/name, the
	// configured one first.
	Models() []string
	// Model returns which model answers in a session, as provider/name.
	Model(session.Record) string
	// Resolve finds the model that a person names; "" is the configured one. Its
	// error says why not.
	Resolve(name string) (provider, model string, err error)
	// SwitchCost says in a sentence what it costs that another model goes on with
	// the session; "" if nothing is known of it.
	SwitchCost(ctx context.Context, from, to session.Record) string
	// Context tells what fills the model's context in a conversation, as Markdown.
	Context(ctx context.Context, c Call) (string, error)
	// Usage tells what the model calls of a conversation came to, as Markdown.
	Usage(ctx context.Context, c Call) (string, error)
	// Memory tells how full the memories are that whoever calls has, as Markdown.
	Memory(ctx context.Context, c Call) (string, error)
	// Skills lists what is offered in a conversation, as Markdown; to owners also
	// what is not, and why.
	Skills(ctx context.Context, c Call) (string, error)
	// Decide answers a question of a running turn of the conversation; leave: one
	// for leave. It says in words what comes of it, and returns what makes it so.
	Decide(c Call, id string, leave bool, d Decision) (text string, then func())
	// BusyMode and Progress are how it is configured what a message does while a
	// turn runs, and how tool calls are shown.
	BusyMode() string
	Progress() string
	// Background returns how many commands run in the background of a session, and
	// what ends them.
	Background(id session.ID) (running int, end func())
	// NoVoice says why answers cannot be spoken; "" if they can.
	NoVoice() string
	// Pause stops new turns everywhere, or lets them begin again, and says in words
	// what came of it.
	Pause(ctx context.Context, c Call, on bool) string
	// SetHome makes a chat the home channel of its platform.
	SetHome(ctx context.Context, at chat.Address) error
	// Cron does what /cron says about scheduled prompts, and tells what came of it,
	// as Markdown.
	Cron(ctx context.Context, c Call) (string, error)
	// CanRestart reports whether the daemon can start itself again.
	CanRestart() bool
}

// Parse splits text into a command's name and its arguments. ok is false if
// text is not a command: it does not start with a slash, or its first word is a
// path.
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
	if !isName(word) {
		return "", "", false
	}
	// Clients of some phones turn two hyphens into dashes.
	rest = strings.NewReplacer("—", "--", "–", "-").Replace(rest)
	return strings.ToLower(strings.ReplaceAll(word, "_", "-")), strings.TrimSpace(rest), true
}

func isName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
		default:
			return false
		}
	}
	return true
}

// A Table is a fixed list of commands.
type Table struct {
	list   []Command
	byName map[string]int
}

// NewTable returns a table of commands, in the order of help.
func NewTable(cmds ...Command) *Table {
	t := &Table{list: cmds, byName: make(map[string]int)}
	for i, c := range cmds {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if _, twice := t.byName[n]; twice {
				panic("command: two commands are called " + n)
			}
			t.byName[n] = i
		}
	}
	return t
}

// Localized returns commands with their help in the language of p.
func Localized(p i18n.Printer, cmds ...Command) []Command {
	said := slices.Clone(cmds)
	for i, c := range cmds {
		said[i].Help = p.Translate(c.Help)
	}
	return said
}

// All returns the commands in order.
func (t *Table) All() []Command { return t.list }

// Lookup returns the command called name: by its name or an alias, else by a
// beginning that only one command has.
func (t *Table) Lookup(name string) (Command, bool) {
	if i, ok := t.byName[name]; ok {
		return t.list[i], true
	}
	found := -1
	for i, c := range t.list {
		if len(name) >= 2 && strings.HasPrefix(c.Name, name) {
			if found >= 0 {
				return Command{}, false
			}
			found = i
		}
	}
	if found < 0 {
		return Command{}, false
	}
	return t.list[found], true
}

// Menu returns what platforms show in their clients for people of level.
func (t *Table) Menu(level access.Level) []chat.CommandInfo {
	var items []chat.CommandInfo
	for _, c := range t.list {
		if c.Level <= level {
			items = append(items, chat.CommandInfo{Name: c.Name, Help: c.Help})
		}
	}
	return items
}

// Run finds the command that c names and runs it. What the person may not use,
// or what does not exist, is answered in words.
func (t *Table) Run(ctx context.Context, env Env, c Call) (Result, error) {
	cmd, ok := t.Lookup(c.Name)
	switch {
	case !ok:
		return Result{Text: t.unknown(c, c.Name)}, nil
	case c.Principal.Level < cmd.Level:
		return Result{Text: c.T("`/%s` is for people of level %s; you are %s.", cmd.Name, cmd.Level, c.Principal.Level)}, nil
	}
	c.Name = cmd.Name
	return cmd.Run(ctx, env, c)
}

// Immediate reports whether the command called name does not wait for the turn
// that runs. Unknown commands do not: they are answered at once.
func (t *Table) Immediate(name string) bool {
	cmd, ok := t.Lookup(name)
	return !ok || cmd.Immediate
}

func (t *Table) unknown(c Call, name string) string {
	best, far := "", 4
	for n := range t.byName {
		if d := distance(name, n); d < far || d == far && n < best {
			best, far = n, d
		}
	}
	s := c.T("There is no command `/%s`.", name)
	if best != "" {
		s += " " + c.T("Did you mean `/%s`?", best)
	}
	return s + " " + c.T("`/help` lists what there is. To send text that begins with a slash, put a space and a word before it.")
}

// distance is the number of letters to insert, delete or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diag
			if a[i] != b[j] {
				next = 1 + min(diag, row[j], row[j+1])
			}
			diag, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
