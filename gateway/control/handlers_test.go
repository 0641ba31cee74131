package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/memory"
	"hermesd/agent/prompt"
	"hermesd/agent/skills"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/control"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

const (
	tripID = "20260101_100000_0123abcd"
	oldID  = "20260101_090000_00000000"
)

// table returns the commands of the daemon with the handlers of w.
func (w *harness) table() *command.Table {
	none := command.ReplyWith(func(context.Context, command.Call) (string, error) { return "", errors.New("not of this package") })
	others := map[string]command.Handler{"approve": none, "deny": none, "answer": none, "approvals": none, "cron": none}
	return command.NewTable(command.Specs(), control.New(w.parts).Handlers(), others)
}

// call returns the call of a command by a member in the direct chat of 7.
func call(text string) command.Call {
	name, args, _ := command.Parse(text)
	at := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}
	return command.Call{
		Name: name, Args: args, Principal: access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Member},
		Inbound: chat.Inbound{Address: at}, Key: session.KeyFor("", at, "7", session.KeyPolicy{}),
	}
}

// run runs a command that must not fail.
func (w *harness) run(c command.Call) command.Result {
	w.t.Helper()
	r, err := w.table().Run(w.t.Context(), c)
	if err != nil {
		w.t.Errorf("/%s: %v", c.Name, err)
	}
	return r
}

// create stores a session of the direct chat of 7 with one exchange.
func (w *harness) create(id session.ID, title string, used time.Time) session.Record {
	w.t.Helper()
	e := w.accept("7")
	ctx := w.t.Context()
	c, err := w.store.Claim(ctx, e.Lane, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := json.Marshal(prompt.Build(prompt.Inputs{Session: string(id)}))
	if err != nil {
		w.t.Fatal(err)
	}
	question, err := json.Marshal(llm.UserText("How far is it?"))
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := json.Marshal(llm.AssistantText("Not far."))
	if err != nil {
		w.t.Fatal(err)
	}
	record, err := json.Marshal(ledger.Record{N: 1, Provider: "demo", Model: "demo", Usage: llm.Usage{Input: 100, Output: 5}})
	if err != nil {
		w.t.Fatal(err)
	}
	rec := session.Record{ID: id, Key: e.Session, Address: e.Inbound.Address, Owner: "7", Title: title, Created: used, Updated: used, Messages: 2, Turns: 1, PromptTokens: 100, Calls: 1}
	_, err = w.store.CommitTurn(ctx, c, store.Turn{
		End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Session: rec, Messages: []store.Doc[llm.Message]{question, answer}, Calls: []store.Doc[ledger.Record]{record},
		Create: &store.Creation{Record: rec, Prompt: p},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	stored, _, err := w.store.SessionByID(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return stored
}

// twoModels are a model and another one.
type twoModels struct{ gatewaytest.OneModel }

func (twoModels) Names() []string { return []string{"a/one", "b/two"} }
func (twoModels) Name(s session.Settings) string {
	if s.Model == "" {
		return "a/one"
	}
	return s.Provider + "/" + s.Model
}
func (twoModels) Resolve(name string) (string, string, error) {
	switch name {
	case "", "a/one":
		return "", "", nil
	case "b/two":
		return "b", "two", nil
	}
	return "", "", i18n.Errorf("there is only %s", "a/one")
}
func (twoModels) Price(session.Settings, int) string { return "$0.02" }

func TestHandlersReply(t *testing.T) {
	w := newHarness(t)
	w.parts.Models = twoModels{}
	w.create(oldID, "", time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))
	rec := w.create(tripID, "Trip", time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))
	for _, tt := range []struct{ text, want string }{
		{"/status", "**hermesd 1.2.3**, up"},
		{"/status", "- name: Trip\n"},
		{"/status", "- now: idle, 0 messages wait\n- model: `demo`\n- slack: connected\n- telegram: connected"},
		{"/version", "hermesd 1.2.3"},
		{"/why m1", "outcome   replied"},
		{"/why 12345", "I know of no such message in this conversation."},
		{"/why", "Say which"},
		{"/sessions", "`Trip` (this one)"},
		{"/sessions trip", "`20260101_100000_0123abcd` 2026-01-02 03:04, 2 messages"},
		{"/sessions nothing", "No conversation found."},
		{"/title", "is called `Trip`"},
		{"/stop", "Nothing is running."},
		{"/stop that", "Nothing is running. What is written after `/stop` has no effect."},
		{"/new", "The old one is kept as `20260101_100000_0123abcd`."},
		{"/model", "`a/one` answers"},
		{"/model b/two", "`b/two` answers here. It reads the whole conversation of about 100 tokens again, once, which costs about $0.02."},
		{"/model c", "That cannot be: there is only a/one."},
		{"/model default", "answers here already"},
		{"/personality", "is none. I know: pirate, poet"},
		{"/personality Poet", "is now poet"},
		{"/personality cook", "no personality called `cook`"},
		{"/personality none", "No personality"},
		{"/context", "- model: `a/one`, "},
		{"/context", "- messages: 2, about"},
		{"/context", "- compactions: none yet"},
		{"/context", "compression is switched off"},
		{"/context", "- of all conversations: compactions outside of turns since the start: 3"},
		{"/usage", "- calls: 1 in 1 turn\n- tokens: 100 input, 0 read from the cache, 0 written to it, 5 output"},
		{"/usage", "the price of `demo` is not known"},
		{"/skills", "No skill is offered here."},
		{"/busy", "new messages: interrupt (as configured)"},
		{"/busy steer", "new messages while a turn runs: steer"},
		{"/busy default", "new messages while a turn runs: interrupt"},
		{"/busy loud", "I know the modes"},
		{"/verbose", "now shown: new (it was off)"},
		{"/verbose all", "now shown: all"},
		{"/verbose much", "can be shown: off, new, all, verbose"},
		{"/voice", "are off"},
		{"/voice on", "I cannot speak: no service for speech is connected."},
		{"/voice off", "in writing only"},
		{"/voice loud", "I know `/voice on`"},
		{"/resume", "Say which"},
		{"/resume trip", "That is this conversation."},
		{"/resume 20260101_09", "Back in `20260101_090000_00000000`"},
		{"/resume 20260101", "2 conversations fit"},
		{"/resume moon", "No conversation of this chat is called `moon`"},
	} {
		c := call(tt.text)
		c.Session = rec
		if got := w.run(c).Text; !strings.Contains(got, tt.want) {
			t.Errorf("%s says %q; want %q", tt.text, got, tt.want)
		}
	}
}

func TestHandlersNeedSession(t *testing.T) {
	w := newHarness(t)
	for text, want := range map[string]string{
		"/context": "There is no conversation yet. Write something first.", "/usage": "There is no conversation yet. Write something first.",
		"/title x": "There is no conversation yet. Write something first, or use `/new <title>`.", "/skills": "No skill is offered here.\n",
		"/status": "- conversation: none yet",
	} {
		if got := w.run(call(text)).Text; !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestPauseCommand(t *testing.T) {
	w := newHarness(t)
	for _, tt := range []struct {
		text, want string
		paused     bool
	}{
		{"/pause for an hour", "I know `/pause` and `/pause off`.", false},
		{"/pause", "⏸ Paused: ", true},
		{"/pause OFF", "▶️ I go on.", false},
	} {
		c := call(tt.text)
		c.Principal.Level = access.Owner
		if got := w.run(c).Text; !strings.HasPrefix(got, tt.want) || w.parts.Runtime.Pause.Paused() != tt.paused {
			t.Errorf("%s says %q", tt.text, got)
		}
	}
}

func TestRestartCommand(t *testing.T) {
	w := newHarness(t)
	old := command.QuestionTime()
	for text, want := range map[string]string{
		"/restart": "Restart the daemon?", "/restart cancel": "The daemon goes on.", "/restart please": "I know `/restart` and `/restart now`.",
		"/restart now 1": "That question is too old.", "/restart now " + old: "Restarting.", "/restart now": "Restarting.",
	} {
		c := call(text)
		c.Principal.Level = access.Owner
		r := w.run(c)
		if !strings.HasPrefix(r.Text, want) || (r.AfterCommit != nil) != (want == "Restarting.") {
			t.Errorf("%s: %+v", text, r)
		}
		if r.AfterCommit != nil {
			r.AfterCommit()
		}
	}
	if w.host.restarts != 2 {
		t.Errorf("%d restarts", w.host.restarts)
	}
	w.parts.Host = gatewaytest.NoHost{}
	c := call("/restart now")
	c.Principal.Level = access.Owner
	if r := w.run(c); r.AfterCommit != nil || r.Text != "This daemon cannot restart itself: it ends with its terminal." {
		t.Errorf("%+v", r)
	}
}

func TestSetHomeCommand(t *testing.T) {
	w := newHarness(t)
	c := call("/sethome")
	c.Principal.Level = access.Owner
	if got := w.run(c).Text; !strings.HasPrefix(got, "This chat (`telegram:7`) is now the home channel of telegram") || len(w.homes) != 1 || w.homes[0] != c.Inbound.Address {
		t.Errorf("%q, %v", got, w.homes)
	}
}

// In a shared conversation a guest stops their own turn, and nothing else.
func TestStopByGuestEndsOwnTurn(t *testing.T) {
	w := newHarness(t)
	w.accept("7")
	w.turns.offered = true
	for _, tt := range []struct {
		onlyAuthor, shared bool
		level              access.Level
		stop, keep         bool
		want               string
	}{
		{false, true, access.Guest, false, false, "what other people asked for"},
		{true, true, access.Guest, true, true, "The running turn is stopped."},
		{false, true, access.Member, true, false, "1 waiting message is cancelled."},
		{false, false, access.Guest, true, false, "1 waiting message is cancelled."},
	} {
		c := call("/stop")
		c.Shared, c.Principal.Level = tt.shared, tt.level
		w.turns.onlyAuthor = tt.onlyAuthor
		if r := w.run(c); r.Stop != tt.stop || r.KeepWaiting != tt.keep || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%+v gives %+v", tt, r)
		}
	}
}

func TestNewReportsWhatEnds(t *testing.T) {
	w := newHarness(t)
	w.accept("7")
	w.turns.offered = true
	r := w.run(call("/reset  A\x07 new\nday "))
	if !r.Stop || !r.Open || r.Title != "A new day" || !strings.Contains(r.Text, "The running turn is stopped, 1 waiting message is cancelled.") {
		t.Errorf("/reset gives %+v", r)
	}
	w.host.background = 2
	r = w.run(call("/new"))
	if !strings.HasSuffix(r.Text, "The 2 commands that it runs in the background are ended.") || w.host.background != 2 {
		t.Errorf("/new gives %+v", r)
	}
	if r.AfterCommit(); w.host.background != 0 {
		t.Error("they are not ended")
	}
}

func TestTitleIsCleanedAndQuoted(t *testing.T) {
	w := newHarness(t)
	rec := w.create(tripID, "`**x**` [a](http://b)", time.Now())
	c := call("/title")
	c.Session = rec
	if got := w.run(c).Text; got != "This conversation is called `'**x**' [a](http://b)`." {
		t.Errorf("got %q", got)
	}
	c = call("/title  a\u202Eb \u200B" + strings.Repeat("x", 300))
	c.Session = rec
	w.run(c)
	if got, _, err := w.store.SessionByID(t.Context(), tripID); err != nil || got.Title != "ab "+strings.Repeat("x", 97) {
		t.Errorf("titled %q, %v", got.Title, err)
	}
}

// A brokenStore cannot be read.
type brokenStore struct{ *bolt.Store }

var errBroken = errors.New("disk is gone")

func (brokenStore) Sessions(context.Context, session.Query) ([]session.Record, error) {
	return nil, errBroken
}
func (brokenStore) SetTitle(context.Context, session.ID, string) error { return errBroken }
func (brokenStore) Prompt(context.Context, session.ID) (store.Doc[prompt.Prefix], error) {
	return nil, errBroken
}
func (brokenStore) Calls(context.Context, session.ID, int) ([]store.Doc[ledger.Record], error) {
	return nil, errBroken
}
func (brokenStore) MessageHistory(context.Context, string) ([]store.MessageHistory, error) {
	return nil, errBroken
}

func TestHandlersReturnErrors(t *testing.T) {
	w := newHarness(t)
	w.parts.Store = brokenStore{w.store}
	for _, text := range []string{"/sessions", "/resume x", "/why 1", "/title x", "/context", "/usage", "/skills"} {
		c := call(text)
		c.Session.ID = tripID
		if _, err := w.table().Run(t.Context(), c); !errors.Is(err, errBroken) {
			t.Errorf("%s returns %v", text, err)
		}
	}
}

func TestMemoryOnlyInDirectChatOfOwner(t *testing.T) {
	w := newHarness(t)
	for _, tt := range []struct {
		level  access.Level
		kind   chat.Kind
		shared bool
		want   string
	}{
		{access.Owner, chat.DM, false, "- MEMORY.md: 0 entries"},
		{access.Owner, chat.DM, true, "where others read along"},
		{access.Owner, chat.Group, false, "where others read along"},
		{access.Owner, chat.Thread, false, "where others read along"},
		{access.Owner, "", false, "where others read along"},
		{access.Member, chat.DM, false, "requires level owner"},
		{access.Guest, chat.Group, true, "requires level owner"},
	} {
		c := call("/memory")
		c.Principal.Level, c.Inbound.Address.Kind, c.Session.Shared = tt.level, tt.kind, tt.shared
		if got := w.run(c).Text; !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "MEMORY.md"), 0o700); err != nil { // cannot be read as a file
		t.Fatal(err)
	}
	w.host.memories = memory.New(memory.Config{Dir: dir})
	c := call("/memory")
	c.Principal.Level = access.Owner
	if _, err := w.table().Run(t.Context(), c); err == nil {
		t.Error("an error is lost")
	}
	w.parts.Host = gatewaytest.NoHost{}
	if got := w.run(c).Text; !strings.HasPrefix(got, "Memories are switched off") {
		t.Errorf("%q", got)
	}
	if got := w.run(call("/skills")).Text; got != "There are no skills." {
		t.Errorf("%q", got)
	}
}

// Owners see which skills are hidden, and why.
func TestSkillsCommand(t *testing.T) {
	home := t.TempDir()
	for name, about := range map[string]string{"review": "How to **review** `it`", "off": "Not wanted"} {
		if err := os.MkdirAll(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name, "SKILL.md"), []byte("---\nname: "+name+"\ndescription: "+about+"\n---\nRead it."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	library, err := skills.New(skills.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	w := newHarness(t)
	w.host.library, w.host.disabled = library, []string{"off"}
	for level, want := range map[access.Level]string{
		access.Member: "**Skills** (1)\n\n- `/review` `How to **review** 'it'`\n",
		access.Owner:  "**Skills** (1)\n\n- `/review` `How to **review** 'it'`\n\n**Not offered here** (1)\n\n- `off`: `turned off in the configuration`\n",
	} {
		c := call("/skills")
		c.Principal.Level = level
		if got := w.run(c).Text; got != want {
			t.Errorf("%s reads %q", level, got)
		}
	}
}
