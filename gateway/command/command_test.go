package command_test

import (
	"context"
	"errors"
	"strings"
	"testing"
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

// fake is a daemon with one conversation.
type fake struct {
	running bool
	waiting int
	recs    []session.Record
	titled  string
	err     error
}

func (f *fake) Status(context.Context, command.Call) (string, error) { return "all is well", f.err }
func (f *fake) Busy(session.Key) (bool, int)                         { return f.running, f.waiting }
func (f *fake) Version() string                                      { return "hermesd test" }
func (f *fake) Sessions(context.Context, command.Call) ([]session.Record, error) {
	return f.recs, f.err
}
func (f *fake) SetTitle(_ context.Context, _ session.ID, title string) error {
	f.titled = title
	return f.err
}
func (f *fake) Why(_ context.Context, _ command.Call, id string) (string, error) {
	return "because of " + id, f.err
}

func call(text string) command.Call {
	name, args, _ := command.Parse(text)
	return command.Call{
		Name: name, Args: args, By: access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Member},
		In: chat.Inbound{From: chat.Address{Platform: chat.Telegram, Chat: "7"}},
	}
}

func TestEachCommandAnswers(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	rec := session.Record{ID: "20260101_100000_0123abcd", Title: "Trip", Messages: 4, Updated: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}
	env := &fake{recs: []session.Record{rec, {ID: "20260101_090000_00000000"}}}
	tests := []struct{ text, want string }{
		{"/start", "Hello"},
		{"/help", "`/new [title]` start a new conversation"},
		{"/help stop", "stop the running turn"},
		{"/help /stop", "stop the running turn"},
		{"/help stpo", "Did you mean `/stop`?"},
		{"/commands", "**Commands**"},
		{"/status", "all is well"},
		{"/sta", "`/sta`"}, // start or status: not decided for the person
		{"/vers", "hermesd test"},
		{"/version", "hermesd test"},
		{"/whoami", "You are `7` on telegram, level **member**. This chat is `telegram:7`."},
		{"/why 12", "because of 12"},
		{"/why", "Say which"},
		{"/sessions", "`Trip` (this one)"},
		{"/sessions trip", "`20260101_100000_0123abcd` 2026-01-02 03:04, 4 messages"},
		{"/sessions nothing", "No conversation found."},
		{"/title", "is called `Trip`"},
		{"/stop", "Nothing is running."},
		{"/new", "The old one is kept as `20260101_100000_0123abcd`."},
		{"/hlep", "Did you mean `/help`?"},
		{"/zzzzzzzz", "There is no command `/zzzzzzzz`. `/help` lists"},
	}
	for _, tt := range tests {
		c := call(tt.text)
		c.Session = rec
		r, err := table.Run(t.Context(), env, c)
		if err != nil || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s says %q, %v; want %q", tt.text, r.Text, err, tt.want)
		}
	}
}

func TestStopAndNewSayWhatTheyEnd(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	env := &fake{running: true, waiting: 2}
	r, err := table.Run(t.Context(), env, call("/stop"))
	if err != nil || !r.Stop || r.Open || r.Text != "The running turn is stopped, 2 waiting messages are cancelled." {
		t.Errorf("/stop gives %+v, %v", r, err)
	}
	r, err = table.Run(t.Context(), env, call("/reset  A\x07 new\nday "))
	if err != nil || !r.Stop || !r.Open || r.Title != "A new day" || !strings.Contains(r.Text, "2 waiting messages are cancelled") {
		t.Errorf("/reset gives %+v, %v", r, err)
	}
}

func TestATitleIsCleanAndShort(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	env := &fake{}
	c := call("/title  a\u202Eb \u200B" + strings.Repeat("x", 300))
	if r, _ := table.Run(t.Context(), env, c); !strings.Contains(r.Text, "no conversation yet") || env.titled != "" {
		t.Errorf("without a conversation: %q, titled %q", r.Text, env.titled)
	}
	c.Session.ID = "20260101_100000_0123abcd"
	if _, err := table.Run(t.Context(), env, c); err != nil || env.titled != "ab "+strings.Repeat("x", 97) {
		t.Errorf("titled %q, %v", env.titled, err)
	}
}

func TestTextOfAPersonIsNotMarkup(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	c := call("/title")
	c.Session = session.Record{ID: "20260101_100000_0123abcd", Title: "`**x**` [a](http://b)"}
	r, _ := table.Run(t.Context(), &fake{}, c)
	if want := "This conversation is called `'**x**' [a](http://b)`."; r.Text != want {
		t.Errorf("got %q, want %q", r.Text, want)
	}
}

func TestWhatAPersonMayNotUseIsRefusedInWords(t *testing.T) {
	table := command.NewTable(command.Command{Name: "restart", Level: access.Owner, Do: func(context.Context, command.Env, command.Call) (command.Result, error) {
		return command.Result{Text: "restarting"}, nil
	}})
	for level, want := range map[access.Level]string{
		access.Guest:  "`/restart` is for people of level owner; you are guest.",
		access.Member: "`/restart` is for people of level owner; you are member.",
		access.Owner:  "restarting",
	} {
		c := call("/restart")
		c.By.Level = level
		if r, err := table.Run(t.Context(), &fake{}, c); err != nil || r.Text != want {
			t.Errorf("%s reads %q, %v; want %q", level, r.Text, err, want)
		}
	}
	if items := table.Menu(access.Member); len(items) != 0 {
		t.Errorf("the menu of a member shows %v", items)
	}
}

func TestFailuresAreReturned(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	broken := errors.New("disk is gone")
	for _, text := range []string{"/status", "/sessions", "/why 1", "/title x"} {
		c := call(text)
		c.Session.ID = "20260101_100000_0123abcd"
		if _, err := table.Run(t.Context(), &fake{err: broken}, c); !errors.Is(err, broken) {
			t.Errorf("%s returns %v", text, err)
		}
	}
}

func TestImmediateCommandsDoNotWait(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	for name, want := range map[string]bool{"stop": true, "status": true, "help": true, "new": true, "reset": true, "title": false, "nonsense": true} {
		if got := table.Immediate(name); got != want {
			t.Errorf("Immediate(%q) = %v", name, got)
		}
	}
}
