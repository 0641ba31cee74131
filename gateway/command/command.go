// Package command parses slash commands and runs them from one table.
//
// From the table come the dispatcher, /help, the platforms' menus and the list
// in the docs.
package command

import (
	"context"
	"strings"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
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
	// Do runs the command.
	Do func(ctx context.Context, env Env, c Call) (Result, error)
}

// A Call is one use of a command.
type Call struct {
	Name    string // of the command that runs, aliases resolved
	Args    string
	In      chat.Inbound
	By      access.Principal
	Key     session.Key
	Session session.Record // the zero Record if there is none yet
}

// A Result is what a command wants to be done, at once or not at all.
type Result struct {
	Text string // Markdown, said in the chat
	// Open starts a new session for the key, named Title.
	Open  bool
	Title string
	// Stop ends the turn that runs and cancels what waits for it.
	Stop bool
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
func (t *Table) Menu(level access.Level) []chat.MenuItem {
	var items []chat.MenuItem
	for _, c := range t.list {
		if c.Level <= level {
			items = append(items, chat.MenuItem{Name: c.Name, Help: c.Help})
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
		return Result{Text: t.unknown(c.Name)}, nil
	case c.By.Level < cmd.Level:
		return Result{Text: "`/" + cmd.Name + "` is for people of level " + cmd.Level.String() + "; you are " + c.By.Level.String() + "."}, nil
	}
	c.Name = cmd.Name
	return cmd.Do(ctx, env, c)
}

// Immediate reports whether the command called name does not wait for the turn
// that runs. Unknown commands do not: they are answered at once.
func (t *Table) Immediate(name string) bool {
	cmd, ok := t.Lookup(name)
	return !ok || cmd.Immediate
}

func (t *Table) unknown(name string) string {
	best, far := "", 4
	for n := range t.byName {
		if d := distance(name, n); d < far || d == far && n < best {
			best, far = n, d
		}
	}
	s := "There is no command `/" + name + "`."
	if best != "" {
		s += " Did you mean `/" + best + "`?"
	}
	return s + " `/help` lists what there is. To send text that begins with a slash, put a space and a word before it."
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
