package app_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/internal/sim/telegram"
)

// rawMessage returns a message of ann in the direct chat as an update contains it, with
// additional fields.
func (w *harness) rawMessage(id int, more string) []byte {
	return fmt.Appendf(nil, `{"message_id":%d,"date":%d,"chat":{"id":%d,"type":"private","first_name":"Ann"},"from":{"id":%d,"is_bot":false,"first_name":"Ann"}%s}`,
		id, time.Now().Unix(), w.chat.ID(), w.ann.ID(), more)
}

// pushUpdates delivers raw updates, waits until they are confirmed and continues.
func pushUpdates(raws ...string) func(*harness) {
	return func(w *harness) {
		for _, s := range raws {
			w.bot.PushRaw("message", func(id int) []byte { return []byte(strings.ReplaceAll(s, "$ID", fmt.Sprint(id))) })
		}
		w.askEcho("hello")
		w.waitConfirmed()
	}
}

func updateFaults() []fault {
	const (
		echoed = "echo: hello"
		queue  = "display:\n  busy_input_mode: queue"
	)
	return []fault{
		{
			sentence: "updates that are no updates are passed over, and the message behind them is answered",
			play:     pushUpdates(`null`, `17`, `"text"`, `[]`, `{}`, `{"update_id":"one"}`, `{"update_id":$ID}`, `{"update_id":$ID,"message":17}`, `{"update_id":$ID,"message":{"message_id":"x","chat":[]}}`),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"cannot convert update", "update skipped"},
		},
		{
			sentence: "a kind of update that nobody asked for is passed over",
			play:     pushUpdates(`{"update_id":$ID,"purchased_paid_media":{"from":{"id":1},"paid_media_payload":"x"}}`, `{"update_id":$ID,"something_new":{"a":1}}`),
			shows:    []string{echoed},
			ends:     []string{"replied"},
			logs:     []string{"unsupported_content"},
		},
		{
			sentence: "a message whose fields are broken is recorded, and a person's words in it are still read",
			play: func(w *harness) {
				w.bot.Push("message", w.rawMessage(9001, `,"text":"broken fields","entities":"none","photo":{"a":[]},"via_bot":3`))
				w.waitText("echo: broken fields")
			},
			shows: []string{"echo: broken fields"},
			ends:  []string{"replied"},
		},
		{
			sentence: "an empty message is answered as one that cannot be read",
			play: func(w *harness) {
				w.chat.Post(telegram.Post{From: w.ann})
				w.waitText("cannot read")
			},
			shows: []string{"echo: [a kind of message that this bot cannot read]"},
			ends:  []string{"replied"},
		},
		{
			sentence: "a kind of media that is newer than the daemon is answered as one that cannot be read",
			play: func(w *harness) {
				w.bot.Push("message", w.rawMessage(9001, `,"hologram":{"file_id":"x","depth":3}`))
				w.waitText("cannot read")
			},
			shows: []string{"echo: [a kind of message that this bot cannot read]"},
			ends:  []string{"replied"},
		},
		{
			sentence: "100 KB of text, which ann's client splits, is one message to the model and gets one answer",
			cold:     true, // all parts arrive in one poll, however slow the machine is
			play: func(w *harness) {
				text := strings.Repeat("all work and no play makes jack a dull boy\n", 100<<10/43)
				n := len(w.chat.SayLong(w.ann, text))
				w.start()
				w.waitText("echo: all work")
				if asks := w.modelQuestions(); len(asks) != 1 || strings.Count(asks[0], "jack") != strings.Count(text, "jack") || n < 25 {
					w.Errorf("%d pieces, %d requests", n, len(asks))
				}
			},
			shows: []string{"echo: " + string([]rune(strings.Repeat("all work and no play makes jack a dull boy\n", 10))[:400]) + "…"},
			ends:  strings.Split(strings.TrimSuffix(strings.Repeat("replied ", 26), " "), " "),
		},
		{
			sentence: "an update that comes twice is answered once",
			play: func(w *harness) {
				w.askEcho("hello")
				os := w.tg.Recorder().Offers()
				w.bot.Repeat(os[len(os)-1].Update)
				w.waitConfirmed()
			},
			shows: []string{echoed},
			ends:  []string{"replied"},
		},
		{
			sentence: "updates that come in another order are each answered once",
			config:   queue,
			cold:     true,
			play: func(w *harness) {
				for i := range 5 {
					w.say(fmt.Sprintf("hello #%d", i))
				}
				w.bot.Shuffle()
				offers := w.tg.Recorder().Offers()
				slices.SortFunc(offers, func(a, b telegram.Offer) int { return a.Update - b.Update })
				for _, o := range offers {
					w.fault.shows = append(w.fault.shows, "echo: "+o.Text)
				}
				w.start()
				for _, text := range w.fault.shows {
					w.waitText(text)
				}
			},
			ends: []string{"replied", "replied", "replied", "replied", "replied"},
		},
		{
			sentence: "an edit of a message that waits changes it before the model sees it",
			config:   queue,
			play: func(w *harness) {
				w.holdModel("on")
				m := w.say("wrong")
				w.must(w.chat.Edit(m.ID, "right"))
				w.waitConfirmed()
				w.releaseModel()
				w.waitText("echo: right")
			},
			shows: []string{"echo: hold on", "echo: right"},
			ends:  []string{"replied", "replied", "silent: edit_applied"},
		},
		{
			sentence: "an edit of a message that was answered is not answered again",
			play: func(w *harness) {
				m := w.say("hello")
				w.waitText(echoed)
				w.must(w.chat.Edit(m.ID, "changed"))
				w.waitConfirmed()
			},
			shows: []string{echoed},
			ends:  []string{"replied", "silent: edit_too_late"},
		},
		{
			sentence: "a button that nobody knows is answered with a word, and nothing else happens",
			play: func(w *harness) {
				w.askEcho("hello")
				w.chat.Forge(w.bot, w.ann, 1, "old")
				w.waitFor("the press is answered", func() bool {
					cs := w.tg.Recorder().Calls("answerCallbackQuery")
					return len(cs) == 1 && cs[0].Params["text"] == "This button does nothing." && cs[0].Status == 200
				})
			},
			shows: []string{echoed},
			ends:  []string{"replied", "silent: no_such_button"},
		},
		{
			sentence: "a stranger gets no answer, and the rule is on record",
			config:   "unauthorized_dm_behavior: ignore",
			play: func(w *harness) {
				eve := w.tg.AddUser(telegram.Person{FirstName: "Eve"})
				c := eve.Chat(w.bot)
				m := c.Say(eve, "let me in")
				w.waitConfirmed()
				same(w.T, "why", []string{"silent: unknown_dm"}, w.outcomes(fmt.Sprintf("%d:%d", c.ID(), m.ID)))
				same(w.T, "the stranger sees", nil, w.visibleTexts(c))
			},
			ends: []string{"silent: unknown_dm"},
		},
		{
			sentence: "a group is not answered without a mention if one is required, and the rule is on record",
			telegram: "require_mention: true",
			play: func(w *harness) {
				g := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann}, Bots: []*telegram.Bot{w.bot}})
				m := g.Say(w.ann, "talking to myself")
				w.waitConfirmed()
				same(w.T, "why", []string{"silent: not_addressed"}, w.outcomes(fmt.Sprintf("%d:%d", g.ID(), m.ID)))
				g.Say(w.ann, "@hermes_bot hello")
				w.waitTextIn(g, echoed)
				same(w.T, "the group sees", []string{echoed}, w.visibleTexts(g))
			},
			ends: []string{"silent: not_addressed", "replied"},
		},
	}
}
