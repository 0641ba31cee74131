package command_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// fake is an Env with one conversation.
type fake struct {
	running bool
	waiting int
	sole    bool // the caller wrote all messages of the running turn
	recs    []session.Record
	titled  string
	err     error
	// background is the number of background commands.
	background int
}

func (f *fake) Status(context.Context, command.Call) (string, error) { return "all is well", f.err }
func (f *fake) Busy(session.Key) (bool, int)                         { return f.running, f.waiting }
func (f *fake) IsSoleAuthor(command.Call) bool                       { return f.sole }
func (f *fake) Version() string                                      { return "hermesd test" }
func (f *fake) Personalities() []string                              { return []string{"pirate", "poet"} }
func (f *fake) Models() []string                                     { return []string{"a/one", "b/two"} }
func (f *fake) Model(r session.Record) string {
	if r.Settings.Model == "" {
		return "a/one"
	}
	return r.Settings.Provider + "/" + r.Settings.Model
}
func (f *fake) Resolve(name string) (string, string, error) {
	switch name {
	case "", "a/one":
		return "", "", nil
	case "b/two":
		return "b", "two", nil
	}
	return "", "", errors.New("there is no model called " + name)
}
func (f *fake) SwitchCost(context.Context, session.Record, session.Record) string { return "It costs." }
func (f *fake) BusyMode() string                                                  { return "interrupt" }
func (f *fake) Progress() string                                                  { return "off" }
func (f *fake) Background(session.ID) (int, func())                               { return f.background, func() { f.background = 0 } }
func (f *fake) NoVoice() string                                                   { return "there is no voice" }
func (f *fake) Decide(_ context.Context, _ command.Call, id string, d command.Decision) (string, func()) {
	return fmt.Sprintf("decided %q %v %v %q %d %q", id, d.Approval, d.Allow, d.Scope, d.Choice, d.Text), nil
}
func (f *fake) Pause(_ context.Context, _ command.Call, on bool) string {
	return fmt.Sprint("paused ", on)
}
func (f *fake) SetHome(context.Context, chat.Address) error { return f.err }
func (f *fake) Cron(_ context.Context, c command.Call) (string, error) {
	return "cron " + c.Args, f.err
}
func (f *fake) Approvals(_ context.Context, c command.Call) (string, error) {
	return "approvals " + c.Args, f.err
}
func (f *fake) CanRestart() bool { return true }
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

func (f *fake) Context(context.Context, command.Call) (string, error) { return "the context", f.err }
func (f *fake) Usage(context.Context, command.Call) (string, error)   { return "the usage", f.err }
func (f *fake) Memory(context.Context, command.Call) (string, error)  { return "the memories", f.err }
func (f *fake) Skills(context.Context, command.Call) (string, error)  { return "the skills", f.err }

func call(text string) command.Call {
	name, args, _ := command.Parse(text)
	return command.Call{
		Name: name, Args: args, Principal: access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Member},
		Inbound: chat.Inbound{Address: chat.Address{Platform: chat.Telegram, Chat: "7"}},
	}
}

func TestCommandsReply(t *testing.T) {
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
		{"/sta", "`/sta`"}, // ambiguous: start or status
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
		{"/stop that", "Nothing is running. What is written after `/stop` has no effect."},
		{"/start deeplink", "Hello"},
		{"/skills install foo", "`/skills` takes nothing after it, so nothing was done."},
		{"/retry in English", "`/retry` takes nothing after it"},
		{"/new", "The old one is kept as `20260101_100000_0123abcd`."},
		{"/model", "`a/one` answers"},
		{"/model b/two", "`b/two` answers here. It costs."},
		{"/model c", "That cannot be: there is no model called c."},
		{"/model default", "answers here already"},
		{"/reasoning", "as configured"},
		{"/reasoning HIGH", "thinks: high"},
		{"/reasoning much", "I know the levels none, minimal, low"},
		{"/reasoning default", "thinks: default"},
		{"/personality", "is none. I know: pirate, poet"},
		{"/personality Poet", "is now poet"},
		{"/personality cook", "no personality called `cook`"},
		{"/personality none", "No personality"},
		{"/reload", "are read again"},
		{"/compress the trip", ""},
		{"/context", "the context"},
		{"/usage", "the usage"},
		{"/memory", "requires level owner"},
		{"/skills", "the skills"},
		{"/restart", "requires level owner"},
		{"/busy", "new messages: interrupt (as configured)"},
		{"/busy steer", "new messages while a turn runs: steer"},
		{"/busy default", "new messages while a turn runs: interrupt"},
		{"/busy loud", "I know the modes"},
		{"/approve", `decided "" true true "" 0 ""`},
		{"/approve AB12 session", `decided "ab12" true true "session" 0 ""`},
		{"/approve always ab12", `decided "ab12" true true "always" 0 ""`},
		{"/deny ab12", `decided "ab12" true false "" 0 ""`},
		{"/answer ab12 2", `decided "ab12" false false "" 1 "2"`},
		{"/answer ab12 the red one", `decided "ab12" false false "" -1 "the red one"`},
		{"/answer", "simply write your answer"},
		{"/verbose", "now shown: new (it was off)"},
		{"/verbose all", "now shown: all"},
		{"/verbose much", "can be shown: off, new, all, verbose"},
		{"/voice", "are off"},
		{"/voice on", "I cannot speak: there is no voice."},
		{"/voice off", "in writing only"},
		{"/voice loud", "I know `/voice on`"},
		{"/pause", "requires level owner"},
		{"/sethome", "requires level owner"},
		{"/queue", "answered after the running turn"},
		{"/steer", "told to the running turn"},
		{"/bg", "beside this conversation"},
		{"/cron list", "cron list"},
		{"/undo", ""},
		{"/undo x", "Say `/undo`"},
		{"/retry", ""},
		{"/branch", ""},
		{"/resume", "Say which"},
		{"/resume trip", "That is this conversation."},
		{"/resume 20260101_09", "Back in `20260101_090000_00000000`"},
		{"/resume 20260101", "2 conversations fit"},
		{"/resume moon", "No conversation of this chat is called `moon`"},
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
		r, err := table.Run(t.Context(), env, c)
		if err != nil || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s says %q, %v; want %q", tt.text, r.Text, err, tt.want)
		}
	}
}

func TestPauseKnowsItsArgument(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	for text, want := range map[string]string{"/pause": "paused true", "/pause OFF": "paused false", "/pause for an hour": "I know `/pause` and `/pause off`."} {
		c := call(text)
		c.Principal.Level = access.Owner
		if r, err := table.Run(t.Context(), &fake{}, c); err != nil || r.Text != want {
			t.Errorf("%s says %q, %v; want %q", text, r.Text, err, want)
		}
	}
}

// A shared conversation can be deleted only by an owner, and a button deletes only the
// conversation that its question was about.
func TestForgetRequiresOwnerAndSession(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
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
		got, err := table.Run(t.Context(), &fake{}, c)
		if err != nil || !strings.Contains(got.Text, tt.want) || got.Forget != tt.forgets {
			t.Errorf("%s by a %s, shared %v: %+v, %v", tt.text, tt.level, tt.shared, got, err)
		}
	}
}

// Commands of guests that change a conversation need a member where others share it.
func TestSharedLevelOfCommands(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	env := &fake{}
	for _, text := range []string{"/new", "/reset", "/title x", "/compress", "/personality poet", "/retry", "/undo", "/resume trip", "/branch", "/busy queue", "/verbose all", "/voice off"} {
		for _, shared := range []bool{false, true} {
			for _, level := range []access.Level{access.Guest, access.Member} {
				c := call(text)
				c.Session, c.Shared, c.Principal.Level = session.Record{ID: "s1", Messages: 4}, shared, level
				r, err := table.Run(t.Context(), env, c)
				if refused := strings.Contains(r.Text, "requires level member; yours is guest"); err != nil || refused != (shared && level == access.Guest) {
					t.Errorf("%s by a %s, shared %v: %+v, %v", text, level, shared, r, err)
				}
			}
		}
	}
}

// In a shared conversation a guest stops their own turn, and nothing else.
func TestStopByGuestEndsOwnTurn(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	for _, tt := range []struct {
		sole, shared bool
		level        access.Level
		stop, keep   bool
		want         string
	}{
		{false, true, access.Guest, false, false, "what other people asked for"},
		{true, true, access.Guest, true, true, "The running turn is stopped."},
		{false, true, access.Member, true, false, "2 waiting messages are cancelled."},
		{false, false, access.Guest, true, false, "2 waiting messages are cancelled."},
	} {
		c := call("/stop")
		c.Shared, c.Principal.Level = tt.shared, tt.level
		r, err := table.Run(t.Context(), &fake{running: true, waiting: 2, sole: tt.sole}, c)
		if err != nil || r.Stop != tt.stop || r.KeepWaiting != tt.keep || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%+v gives %+v, %v", tt, r, err)
		}
	}
}

func TestStopAndNewReportWhatEnds(t *testing.T) {
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
	env = &fake{background: 2}
	r, err = table.Run(t.Context(), env, call("/new"))
	if err != nil || !strings.HasSuffix(r.Text, "The 2 commands that it runs in the background are ended.") || env.background != 2 {
		t.Errorf("/new gives %+v, %v", r, err)
	}
	if r.AfterCommit(); env.background != 0 {
		t.Error("they are not ended")
	}
}

func TestCleanTitle(t *testing.T) {
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

func TestUserTextIsNotMarkup(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	c := call("/title")
	c.Session = session.Record{ID: "20260101_100000_0123abcd", Title: "`**x**` [a](http://b)"}
	r, _ := table.Run(t.Context(), &fake{}, c)
	if want := "This conversation is called `'**x**' [a](http://b)`."; r.Text != want {
		t.Errorf("got %q, want %q", r.Text, want)
	}
}

func TestRunDeniesLowerLevels(t *testing.T) {
	table := command.NewTable(command.Command{Name: "restart", Level: access.Owner, Run: func(context.Context, command.Env, command.Call) (command.Result, error) {
		return command.Result{Text: "restarting"}, nil
	}})
	for level, want := range map[access.Level]string{
		access.Guest:  "You cannot use `/restart`: it requires level owner, yours is guest.",
		access.Member: "You cannot use `/restart`: it requires level owner, yours is member.",
		access.Owner:  "restarting",
	} {
		c := call("/restart")
		c.Principal.Level = level
		if r, err := table.Run(t.Context(), &fake{}, c); err != nil || r.Text != want {
			t.Errorf("%s reads %q, %v; want %q", level, r.Text, err, want)
		}
	}
	if items := table.Menu(access.Member); len(items) != 0 {
		t.Errorf("the menu of a member shows %v", items)
	}
}

// TestRunDeniesWhatTheOperatorDoesNotAllow: user_allowed_commands limits who is no owner.
func TestRunDeniesWhatTheOperatorDoesNotAllow(t *testing.T) {
	reply := func(context.Context, command.Env, command.Call) (command.Result, error) {
		return command.Result{Text: "done"}, nil
	}
	table := command.NewTable(command.Command{Name: "new", Aliases: []string{"reset"}, Run: reply}, command.Command{Name: "model", Run: reply}, command.Command{Name: "help", Run: reply})
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
		if r, err := table.Run(t.Context(), &fake{}, in); err != nil || r.Text != c.want {
			t.Errorf("%s as %s with %v: %q, %v; want %q", c.text, c.level, c.allowed, r.Text, err, c.want)
		}
	}
}

func TestRunReturnsErrors(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	broken := errors.New("disk is gone")
	for _, text := range []string{"/status", "/sessions", "/why 1", "/title x", "/context", "/usage", "/skills"} {
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

func TestMemoryOnlyInDirectChatOfOwner(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	for _, tt := range []struct {
		level  access.Level
		kind   chat.Kind
		shared bool
		want   string
	}{
		{access.Owner, chat.DM, false, "the memories"},
		{access.Owner, chat.DM, true, "where others read along"},
		{access.Owner, chat.Group, false, "where others read along"},
		{access.Owner, chat.Thread, false, "where others read along"},
		{access.Owner, "", false, "where others read along"},
		{access.Member, chat.DM, false, "requires level owner"},
		{access.Guest, chat.Group, true, "requires level owner"},
	} {
		c := call("/memory")
		c.Principal.Level, c.Inbound.Address.Kind, c.Session.Shared = tt.level, tt.kind, tt.shared
		if r, err := table.Run(t.Context(), &fake{}, c); err != nil || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%+v: %q, %v", tt, r.Text, err)
		}
	}
	broken := errors.New("disk is gone")
	c := call("/memory")
	c.Principal.Level, c.Inbound.Address.Kind = access.Owner, chat.DM
	if _, err := table.Run(t.Context(), &fake{err: broken}, c); !errors.Is(err, broken) {
		t.Errorf("/memory returns %v", err)
	}
}

func TestFiguresRequireSession(t *testing.T) {
	table := command.NewTable(command.Builtin()...)
	for _, text := range []string{"/context", "/usage"} {
		if r, err := table.Run(t.Context(), &fake{}, call(text)); err != nil || !strings.Contains(r.Text, "no conversation yet") {
			t.Errorf("%s: %q, %v", text, r.Text, err)
		}
	}
	if r, err := table.Run(t.Context(), &fake{}, call("/skills")); err != nil || r.Text != "the skills" {
		t.Errorf("/skills: %q, %v", r.Text, err)
	}
}
