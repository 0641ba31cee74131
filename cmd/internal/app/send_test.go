package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/outbox"
	"hermesd/internal/sim/telegram"
)

// controlClient returns a client of the control socket. On a busy machine the daemon may not
// answer the first time.
func (w *harness) controlClient() *admin.Client {
	w.Helper()
	for {
		c, err := admin.Dial(w.ctx, w.home)
		if _, silent := errors.AsType[*admin.SilentError](err); silent {
			continue
		}
		w.must(err)
		w.Cleanup(func() {
			if err := c.Close(w.ctx); err != nil {
				w.Error(err)
			}
		})
		return c
	}
}

// A message from the command line arrives in the chat with its files, and the
// conversation there contains it once.
func TestSendFromCommandLine(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.askEcho("hello")
	c := w.controlClient()
	places, err := c.Destinations(w.ctx)
	w.must(err)
	if len(places) != 1 || places[0].Name != "telegram:100001" {
		t.Fatalf("known are %+v", places)
	}
	path, err := c.Keep(w.ctx, "report.txt", strings.NewReader("all is well\n"))
	w.must(err)
	rows, err := c.Send(w.ctx, admin.Message{To: places[0].Name, Text: "The **backup** is done.", Files: []admin.File{{Path: path, Name: "report.txt"}}}, testTimeout)
	w.must(err)
	if len(rows) != 2 || rows[0].State != outbox.Sent || rows[1].State != outbox.Sent {
		t.Errorf("the rows are %+v", rows)
	}
	w.waitText("The backup is done.")
	if ms := w.chat.FromBots(); len(ms) != 3 || ms[2].Media == nil || ms[2].Media.Name != "report.txt" || string(ms[2].Media.Data) != "all is well\n" {
		t.Errorf("the chat shows %+v", ms)
	}
	w.say("what was that?")
	w.waitText("[end of what was said]\n\nwhat was that?")
	w.askEcho("and now?")
	asked := w.modelQuestions()
	if second := asked[1]; !strings.Contains(second, "sent by the operator]\nThe **backup** is done.\n[file report.txt]") {
		t.Errorf("the conversation was told %q", second)
	}
	if third := asked[2]; strings.Contains(third, "backup") {
		t.Errorf("it was told again: %q", third)
	}
}

func TestSendRejectsInvalidMessages(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	c := w.controlClient()
	secret := filepath.Join(w.home, "config.yaml")
	for want, m := range map[string]admin.Message{
		"no platform of that name":    {To: "signal", Text: "x"},
		"telegram has no home":        {To: "telegram", Text: "x"},
		"this did not come from":      {To: "origin", Text: "x"},
		"names no place":              {To: "local", Text: "x"},
		"there is nothing to send":    {To: "telegram:100001", Text: " "},
		"only files in":               {To: "telegram:100001", Files: []admin.File{{Path: secret, Name: "a"}}},
		"too long; send it as a file": {To: "telegram:100001", Text: strings.Repeat("x", 300<<10)},
	} {
		if rows, err := c.Send(w.ctx, m, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, rows, err)
		}
	}
	if _, err := c.Keep(w.ctx, "empty", strings.NewReader("")); err != nil {
		t.Error(err)
	}
	if n := len(w.chat.FromBots()); n != 0 {
		t.Errorf("%d messages went out", n)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}

// A permanent failure is reported with its reason.
func TestSendReportsDeadLetter(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.ann.Block(w.bot, true)
	rows, err := w.controlClient().Send(w.ctx, admin.Message{To: "telegram:100001", Text: "hello"}, testTimeout)
	w.must(err)
	if len(rows) != 1 || rows[0].State != outbox.Dead || !strings.Contains(rows[0].Reason, "blocked") {
		t.Errorf("the rows are %+v", rows)
	}
}

// A message that the agent sends to another chat is in the transcript there, and is
// not repeated in the chat it was sent from.
func TestSentMessageIsInTargetTranscript(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "access:\n  owners: [$ANN]\n", telegram: "allow_all: true\n"})
	w.start()
	w.waitConnected()
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	there := bob.Chat(w.bot)
	there.Say(bob, "hello")
	w.waitTextIn(there, "echo: hello")
	w.say(use("send_message", `{"action":"send","target":"origin,telegram:`+strconv.FormatInt(there.ID(), 10)+`","message":"the cat is fed"}`))
	w.waitTextIn(there, "the cat is fed")
	w.waitText("on its way to")
	there.Say(bob, "by whom?")
	w.waitTextIn(there, "[end of what was said]\n\nby whom?")
	asked := w.modelQuestions()
	if got := asked[len(asked)-1]; !strings.Contains(got, "sent from another conversation]\nthe cat is fed") {
		t.Errorf("the conversation there was told %q", got)
	}
	w.askEcho("thanks")
	asked = w.modelQuestions()
	if got := asked[len(asked)-1]; strings.Contains(got, "the cat") {
		t.Errorf("the conversation here was told %q", got)
	}
}
