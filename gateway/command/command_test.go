package command_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/session"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text, name, args string
		ok               bool
	}{
		{"/help", "help", "", true},
		{"  /help  ", "help", "", true},
		{"/new A fresh start", "new", "A fresh start", true},
		{"/new@hermes_bot title", "new", "title", true},
		{"/New", "new", "", true},
		{"/my_skill x", "my-skill", "x", true},
		{"/title two\nlines", "title", "two\nlines", true},
		{"/title\nnext line", "title", "next line", true},
		{"/cron —every 2h – now", "cron", "--every 2h - now", true},
		{"/path/like", "", "", false},
		{"/etc/passwd is a file", "", "", false},
		{"//comment", "", "", false},
		{"/", "", "", false},
		{"/ help", "", "", false},
		{"/émile", "", "", false},
		{"help", "", "", false},
		{"say /help", "", "", false},
		{"", "", "", false},
		{"/" + strings.Repeat("a", 65), "", "", false},
	}
	for _, tt := range tests {
		name, args, ok := command.Parse(tt.text)
		if name != tt.name || args != tt.args || ok != tt.ok {
			t.Errorf("Parse(%q) = %q, %q, %v; want %q, %q, %v", tt.text, name, args, ok, tt.name, tt.args, tt.ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/help", "/new@bot x", "/a/b", "/\x00", "/title \xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, _, ok := command.Parse(s)
		if ok && (name == "" || strings.ContainsAny(name, "/@ \n") || name != strings.ToLower(name)) {
			t.Errorf("Parse(%q) gives the name %q", s, name)
		}
		if ok && !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "/") {
			t.Errorf("Parse(%q) takes text for a command", s)
		}
	})
}

// newTable returns the table of the daemon, in which the commands of its parts reply with
// their name and arguments.
func newTable() *command.Table {
	others := make(map[string]command.Handler)
	for _, spec := range command.Specs() {
		if command.HasOwnHandler(spec.Name) {
			continue
		}
		others[spec.Name] = command.ReplyWith(func(_ context.Context, c command.Call) (string, error) {
			return strings.TrimSpace("ran " + c.Name + " " + c.Args), nil
		})
	}
	return command.NewTable(command.Specs(), others)
}

func call(text string) command.Call {
	name, args, _ := command.Parse(text)
	return command.Call{
		Name: name, Args: args, Principal: access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Member},
		Inbound: chat.Inbound{Address: chat.Address{Platform: chat.Telegram, Chat: "7"}},
	}
}

func TestCommandsReply(t *testing.T) {
	table := newTable()
	rec := session.Record{ID: "20260101_100000_0123abcd", Title: "Trip", Messages: 4}
	tests := []struct{ text, want string }{
		{"/start", "Hello"},
		{"/help", "`/new [title]` start a new conversation"},
		{"/help stop", "stop the running turn"},
		{"/help /stop", "stop the running turn"},
		{"/help stpo", "Did you mean `/stop`?"},
		{"/commands", "**Commands**"},
		{"/sta", "`/sta`"}, // ambiguous: start or status
		{"/vers", "ran version"},
		{"/version", "ran version"},
		{"/whoami", "You are `7` on telegram, level **member**. This chat is `telegram:7`."},
		{"/reset Trip", "ran new Trip"},
		{"/start deeplink", "Hello"},
		{"/skills install foo", "`/skills` takes nothing after it, so nothing was done."},
		{"/retry in English", "`/retry` takes nothing after it"},
		{"/reasoning", "as configured"},
		{"/reasoning HIGH", "thinks: high"},
		{"/reasoning much", "I know the levels none, minimal, low"},
		{"/reasoning default", "thinks: default"},
		{"/reload", "are read again"},
		{"/compress the trip", ""},
		{"/memory", "requires level owner"},
		{"/restart", "requires level owner"},
		{"/pause", "requires level owner"},
		{"/sethome", "requires level owner"},
		{"/queue", "answered after the running turn"},
		{"/steer", "told to the running turn"},
		{"/bg", "in a conversation of its own"},
		{"/cron list", "ran cron list"},
		{"/undo", ""},
		{"/undo x", "Say `/undo`"},
		{"/retry", ""},
		{"/branch", ""},
		{"/forget", "Delete this conversation for good? 4 messages"},
		{"/forget cancel", "It is kept."},
		{"/forget now", "I delete"},
		{"/forget now 20250101 zz", "too old"},
		{"/forget it", "I know `/forget`"},
		{"/delete", "Delete this conversation for good? 4 messages"},
		{"/delete now", "I delete"},
		{"/hlep", "Did you mean `/help`?"},
		{"/nwe", "Did you mean `/new`?"},
		{"/s", "Did you mean `/start`, `/status`, `/stop`, `/sessions`, `/skills`, `/steer`?"},
		{"/re", "Did you mean `/reset`, `/reasoning`, `/reload`, `/retry`, `/resume`?"},
		{"/z", "There is no command `/z`. `/help` lists"},
		{"/xy", "There is no command `/xy`. `/help` lists"},
		{"/nw", "Did you mean `/new`?"},
		{"/zzzzzzzz", "There is no command `/zzzzzzzz`. `/help` lists"},
	}
	for _, tt := range tests {
		c := call(tt.text)
		c.Session = rec
		r, err := table.Run(t.Context(), c)
		if err != nil || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s says %q, %v; want %q", tt.text, r.Text, err, tt.want)
		}
	}
}

// A shared conversation can be deleted only by an owner, and a button deletes only the
// conversation that its question was about.
func TestForgetRequiresOwnerAndSession(t *testing.T) {
	table := newTable()
	stamp := strconv.FormatInt(time.Now().Unix(), 36)
	for _, tt := range []struct {
		text, want string
		shared     bool
		level      access.Level
		forgets    bool
	}{
		{"/forget now", "requires level owner", true, access.Member, false},
		{"/delete now", "requires level owner", true, access.Member, false},
		{"/forget", "requires level owner", true, access.Guest, false},
		{"/forget now", "I delete", true, access.Owner, true},
		{"/forget now", "I delete", false, access.Guest, true},
		{"/forget now s1 " + stamp, "I delete", false, access.Guest, true},
		{"/forget now s2 " + stamp, "about another conversation", false, access.Owner, false},
	} {
		c := call(tt.text)
		c.Session, c.Shared, c.Principal.Level = session.Record{ID: "s1", Messages: 4}, tt.shared, tt.level
		got, err := table.Run(t.Context(), c)
		if err != nil || !strings.Contains(got.Text, tt.want) || got.Forget != tt.forgets {
			t.Errorf("%s by a %s, shared %v: %+v, %v", tt.text, tt.level, tt.shared, got, err)
		}
	}
}

// Commands of guests that change a conversation need a member where others share it.
func TestSharedLevelOfCommands(t *testing.T) {
	table := newTable()
	for _, text := range []string{"/new", "/reset", "/title x", "/compress", "/personality poet", "/retry", "/undo", "/resume trip", "/branch", "/busy queue", "/verbose all", "/voice off"} {
		for _, shared := range []bool{false, true} {
			for _, level := range []access.Level{access.Guest, access.Member} {
				c := call(text)
				c.Session, c.Shared, c.Principal.Level = session.Record{ID: "s1", Messages: 4}, shared, level
				r, err := table.Run(t.Context(), c)
				if refused := strings.Contains(r.Text, "requires level member; yours is guest"); err != nil || refused != (shared && level == access.Guest) {
					t.Errorf("%s by a %s, shared %v: %+v, %v", text, level, shared, r, err)
				}
			}
		}
	}
}

func TestRunDeniesLowerLevels(t *testing.T) {
	specs := []command.Spec{{Name: "restart", Level: access.Owner}}
	table := command.NewTable(specs, map[string]command.Handler{"restart": func(context.Context, command.Call) (command.Result, error) {
		return command.Result{Text: "restarting"}, nil
	}})
	for level, want := range map[access.Level]string{
		access.Guest:  "You cannot use `/restart`: it requires level owner, yours is guest.",
		access.Member: "You cannot use `/restart`: it requires level owner, yours is member.",
		access.Owner:  "restarting",
	} {
		c := call("/restart")
		c.Principal.Level = level
		if r, err := table.Run(t.Context(), c); err != nil || r.Text != want {
			t.Errorf("%s reads %q, %v; want %q", level, r.Text, err, want)
		}
	}
	if items := command.Menu(specs, access.Member); len(items) != 0 {
		t.Errorf("the menu of a member shows %v", items)
	}
}

// TestRunDeniesWhatTheOperatorDoesNotAllow: user_allowed_commands limits who is no owner.
func TestRunDeniesWhatTheOperatorDoesNotAllow(t *testing.T) {
	reply := command.ReplyWith(func(context.Context, command.Call) (string, error) { return "done", nil })
	table := command.NewTable([]command.Spec{{Name: "new", Aliases: []string{"reset"}}, {Name: "model"}, {Name: "help"}},
		map[string]command.Handler{"new": reply, "model": reply, "help": reply})
	for _, c := range []struct {
		text    string
		allowed []string
		level   access.Level
		want    string
	}{
		{"/new", nil, access.Guest, "done"},
		{"/new", []string{"/RESET"}, access.Guest, "done"},
		{"/reset", []string{"new"}, access.Member, "done"},
		{"/model", []string{"new"}, access.Member, "You cannot use `/model` here: the operator does not allow it."},
		{"/help", []string{"new"}, access.Guest, "done"},
		{"/model", []string{"new"}, access.Owner, "done"},
	} {
		in := call(c.text)
		in.Allowed, in.Principal.Level = c.allowed, c.level
		if r, err := table.Run(t.Context(), in); err != nil || r.Text != c.want {
			t.Errorf("%s as %s with %v: %q, %v; want %q", c.text, c.level, c.allowed, r.Text, err, c.want)
		}
	}
}

func TestImmediateCommandsDoNotWait(t *testing.T) {
	table := newTable()
	for name, want := range map[string]bool{"stop": true, "status": true, "help": true, "new": true, "reset": true, "title": false, "nonsense": true} {
		if got := table.Immediate(name); got != want {
			t.Errorf("Immediate(%q) = %v", name, got)
		}
	}
}

func TestNewTablePanics(t *testing.T) {
	h := command.ReplyWith(func(context.Context, command.Call) (string, error) { return "", nil })
	specs := []command.Spec{{Name: "new", Aliases: []string{"reset"}}}
	for name, make := range map[string]func(){
		"no handler": func() { command.NewTable(specs) },
		"two handlers": func() {
			command.NewTable(specs, map[string]command.Handler{"new": h}, map[string]command.Handler{"new": h})
		},
		"handler of an alias":   func() { command.NewTable(specs, map[string]command.Handler{"new": h, "reset": h}) },
		"handler of no command": func() { command.NewTable(specs, map[string]command.Handler{"new": h, "old": h}) },
		"two of one name":       func() { command.NewTable([]command.Spec{{Name: "help"}, {Name: "me", Aliases: []string{"help"}}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

func TestRunReturnsErrors(t *testing.T) {
	broken := errors.New("disk is gone")
	table := command.NewTable([]command.Spec{{Name: "status"}}, map[string]command.Handler{
		"status": command.ReplyWith(func(context.Context, command.Call) (string, error) { return "", broken }),
	})
	if _, err := table.Run(t.Context(), call("/status")); !errors.Is(err, broken) {
		t.Errorf("/status returns %v", err)
	}
}

func TestIsQuestionValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := command.QuestionTime()
		if !command.IsQuestionValid(asked) || command.IsQuestionValid("") || command.IsQuestionValid("not a time") {
			t.Error("a new question is not valid, or no question is")
		}
		time.Sleep(5 * time.Minute)
		if command.IsQuestionValid(asked) {
			t.Error("valid after five minutes")
		}
	})
}
