package app_test

import (
	"regexp"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

var toldCode = regexp.MustCompile(`pairing approve ([a-z]+) ([A-HJ-NP-Z2-9]{8})`)

// An unknownUser is an unknown user in a direct chat with the bot.
type unknownUser struct {
	say     func(text string)
	visible func() []string
}

func (w *harness) newUnknownUser() unknownUser {
	if w.dc != nil {
		eve := w.dc.srv.AddUser("eve")
		w.dc.guild.Join(eve)
		c := eve.DM(w.dc.bot)
		return unknownUser{func(text string) { c.Say(eve, text) }, func() []string { return c.Visible(w.dc.bot.User()) }}
	}
	if w.sl != nil {
		eve := w.sl.team.AddUser(slack.Person{Name: "eve"})
		c := eve.DM(w.sl.bot)
		return unknownUser{func(text string) { c.Say(eve, text) }, func() []string { return shown(c) }}
	}
	eve := w.tg.AddUser(telegram.Person{FirstName: "Eve"})
	c := eve.Chat(w.bot)
	return unknownUser{func(text string) { c.Say(eve, text) }, func() []string { return w.visibleTexts(c) }}
}

func (n unknownUser) reads(w *harness, text string) {
	w.Helper()
	w.waitFor("the newcomer reads "+text, func() bool { return strings.Contains(strings.Join(n.visible(), "\n"), text) })
}

// On each platform, an unknown user gets a code, the operator approves it over the
// control socket, and the user is notified and answered.
func TestPairingOnEachPlatform(t *testing.T) {
	t.Parallel()
	for _, on := range [][]chat.Platform{nil, onDiscord, onSlack} {
		language, welcome := "en", "Your access was approved."
		if on == nil {
			language, welcome = "de", "Du darfst jetzt mit mir sprechen."
		}
		f := fault{on: on, config: "display: {language: " + language + "}", shows: nil, ends: []string{"replied", "silent: pairing_recent", "replied"}}
		name := "telegram"
		if on != nil {
			name = string(on[0])
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, f)
			w.start()
			w.waitConnected()
			eve := w.newUnknownUser()
			eve.say("let me in")
			eve.reads(w, "pairing approve")
			eve.say("please")
			w.waitAccepted(2)
			code := toldCode.FindStringSubmatch(strings.Join(eve.visible(), "\n"))
			if code == nil || code[1] != name || len(eve.visible()) != 1 {
				t.Fatalf("the newcomer reads %q", eve.visible())
			}
			c, err := admin.Dial(w.ctx, w.home)
			w.must(err)
			p, err := c.Approve(w.ctx, name, code[2])
			w.must(err)
			w.must(c.Close(w.ctx))
			if !p.Notified || p.Platform != chat.Platform(name) {
				t.Errorf("approved %+v", p)
			}
			eve.reads(w, welcome)
			eve.say("hello")
			eve.reads(w, "echo: hello")
			for _, asked := range w.modelQuestions() {
				if strings.Contains(asked, "let me in") || strings.Contains(asked, "please") {
					t.Errorf("the model was told %q", asked)
				}
			}
			w.askEcho(last)
			w.stop()
			w.checkOutcome()
		})
	}
}
