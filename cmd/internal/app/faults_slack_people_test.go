package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"hermesd/internal/sim/slack"
)

// openSlackSocket opens a socket with the app token, as another process would.
func (w *harness) openSlackSocket() *websocket.Conn {
	w.Helper()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.sl.srv.APIURL()+"apps.connections.open", nil)
	w.must(err)
	r.Header.Set("Authorization", "Bearer "+w.sl.app.Token())
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	w.must(err)
	defer func() { _ = resp.Body.Close() }() // read only
	var opened struct {
		URL string `json:"url"`
	}
	w.must(json.NewDecoder(resp.Body).Decode(&opened))
	c, hello, err := websocket.DefaultDialer.DialContext(context.WithoutCancel(w.ctx), opened.URL, nil)
	w.must(err)
	if hello != nil {
		_ = hello.Body.Close() // empty
	}
	w.Cleanup(func() { _ = c.Close() }) // closing twice is harmless
	return c
}

// slackReactions returns the reactions to a message.
func slackReactions(c *slack.Channel, ts string) (out []string) {
	for _, m := range c.Messages() {
		if m.TS == ts {
			for _, r := range m.Reactions {
				out = append(out, r.Name)
			}
		}
	}
	return out
}

// slackThread returns the texts of the bot in a thread.
func (w *harness) slackThread(c *slack.Channel, ts string) (out []string) {
	for _, m := range c.Thread(ts) {
		if m.Bot != "" && m.Deleted.IsZero() {
			out = append(out, m.Shown())
		}
	}
	return out
}

// pressSlackButton presses the first button that the bot shows in the direct chat.
func (w *harness) pressSlackButton() {
	w.Helper()
	m, err := w.sl.dm.WaitText(w.ctx, "Restart the daemon?")
	w.must(err)
	var blocks []struct {
		Elements []struct {
			ActionID string `json:"action_id"`
		} `json:"elements"`
	}
	w.must(json.Unmarshal(m.Blocks, &blocks))
	for _, b := range blocks {
		if len(b.Elements) > 0 {
			_, err := w.sl.dm.Press(w.sl.ann, m.TS, b.Elements[0].ActionID)
			w.must(err)
			return
		}
	}
	w.fatal("there is no button")
}

func slackPeopleFaults() []fault {
	return slices.Concat(slackEnvelopeFaults(), slackRoomFaults(), slackCommandFaults())
}

func slackEnvelopeFaults() []fault {
	spoiled := func(sentence string, kind slack.Spoil, logs ...string) fault {
		return fault{
			sentence: sentence, on: onSlack, shows: echoes("hello"), ends: replies(1), logs: logs,
			play: func(w *harness) {
				w.sl.app.Spoil(kind, 1, nil)
				w.askEcho("hello")
				w.waitFor("the event is acknowledged", func() bool { return w.sl.srv.Recorder().Counts().Acked > 0 })
			},
		}
	}
	return []fault{
		spoiled("an envelope that is lost comes again and is answered once", slack.Lose),
		spoiled("an envelope whose acknowledgement is lost comes again after 3 s and is one turn", slack.LoseAck),
		spoiled("an envelope that is no JSON comes again and is answered once", slack.Garble),
		spoiled("an envelope that comes twice is one turn", slack.Twice),
		spoiled("an envelope with which the socket is cut is one turn", slack.CutLink),
		{
			sentence: "a Slack event that is sent five times is answered once", on: onSlack,
			play: func(w *harness) {
				w.askEcho("hello")
				os := w.sl.srv.Recorder().Offers("message")
				for range 4 {
					w.sl.srv.Redeliver(os[0].Event)
				}
				w.waitFor("all are acknowledged", func() bool {
					return len(w.sl.srv.Recorder().Offers("message")[0].Deliveries) == 5
				})
			},
			shows: echoes("hello"), ends: replies(1),
		},
		{
			sentence: "events that Slack does not make are passed over, and a person's words behind them are answered", on: onSlack,
			play: func(w *harness) {
				for _, e := range []map[string]any{
					{}, {"type": 17}, {"type": "message"}, {"type": "message", "channel": []string{"x"}, "ts": 1}, {"type": "new_thing", "channel": w.sl.dm.ID()},
					{"type": "message", "channel": w.sl.dm.ID(), "ts": "never", "user": w.sl.ann.ID(), "text": "x"},
					{"type": "message", "channel": w.sl.dm.ID(), "ts": "1700000000.000100", "user": w.sl.ann.ID(), "text": map[string]any{"a": 1}, "blocks": "none"},
				} {
					w.sl.bot.Send(e)
				}
				w.askEcho("hello")
			},
			shows: echoes("hello"), ends: []string{"silent: unreadable_event", "replied"}, logs: []string{"cannot convert event"},
		},
		{
			sentence: "an edit of a Slack message that waits changes it before the model sees it", on: onSlack,
			config: "display:\n  busy_input_mode: queue",
			play: func(w *harness) {
				n := w.model.Count()
				w.sl.say("hold on")
				w.must(w.model.Await(w.ctx, n+1))
				m := w.sl.dm.Say(w.sl.ann, "wrong")
				w.waitAccepted(2)
				w.must(w.sl.dm.Edit(m.TS, "right"))
				w.waitAccepted(3)
				w.releaseModel()
				w.waitEcho("right")
			},
			shows: echoes("hold on", "right"), ends: []string{"replied", "replied", "silent: edit_applied"},
		},
		{
			sentence: "an edit of a Slack message that was answered is not answered again, and a preview of a link is no edit", on: onSlack,
			play: func(w *harness) {
				m := w.sl.dm.Say(w.sl.ann, "hello")
				w.waitEcho("hello")
				w.must(w.sl.dm.Unfurl(m.TS, "a page"))
				w.must(w.sl.dm.Edit(m.TS, "changed"))
				w.waitAccepted(2)
			},
			shows: echoes("hello"), ends: []string{"replied", "silent: edit_too_late"},
		},
		{
			sentence: "a stranger on Slack gets no answer, and the rule is on record", on: onSlack, config: "unauthorized_dm_behavior: ignore",
			play: func(w *harness) {
				eve := w.sl.team.AddUser(slack.Person{Name: "eve"})
				eve.DM(w.sl.bot).Say(eve, "let me in")
				w.waitAccepted(1)
				same(w.T, "the stranger sees", nil, shown(eve.DM(w.sl.bot)))
			},
			ends: []string{"silent: unknown_dm"},
		},
		{
			sentence: "a Slack message is marked as seen, and as answered in the end", on: onSlack,
			play: func(w *harness) {
				n := w.model.Count()
				m := w.sl.dm.Say(w.sl.ann, "hold on")
				w.must(w.model.Await(w.ctx, n+1))
				w.waitFor("it is marked as seen", func() bool { return slices.Equal(slackReactions(w.sl.dm, m.TS), []string{"eyes"}) })
				w.releaseModel()
				w.waitEcho("hold on")
				w.waitFor("it is marked as answered", func() bool { return slices.Equal(slackReactions(w.sl.dm, m.TS), []string{"white_check_mark"}) })
			},
			shows: echoes("hold on"), ends: replies(1),
		},
	}
}

func slackRoomFaults() []fault {
	return []fault{
		{
			sentence: "a mention on Slack, which comes as message and as app_mention, is one turn in a thread that goes on without a mention", on: onSlack,
			play: func(w *harness) {
				m := w.sl.room.Say(w.sl.ann, w.sl.bot.User().Mention()+" hello")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "hello"))
				w.sl.room.Reply(w.sl.ann, m.TS, "go on")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "go on"))
				same(w.T, "the thread sees", echoes("[ann] hello", "[ann] go on"), w.slackThread(w.sl.room, m.TS))
				if n := len(w.sl.srv.Recorder().Offers("app_mention")); n != 1 {
					w.Errorf("%d mentions were offered", n)
				}
			},
			ends: replies(2),
		},
		{
			sentence: "what stood in a Slack thread before the bot was named is told to the model once", on: onSlack,
			play: func(w *harness) {
				root := w.sl.room.Say(w.sl.ann, "cheese is dear")
				w.sl.room.Reply(w.sl.ann, root.TS, "and so is wine")
				name := w.sl.bot.User().Mention()
				w.sl.room.Reply(w.sl.ann, root.TS, name+" first")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "first"))
				w.sl.room.Reply(w.sl.ann, root.TS, name+" second")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "second"))
				all, n := w.newestRequest(), 0
				for _, m := range all.Messages {
					for _, b := range m.Blocks {
						n += strings.Count(b.Text, "cheese is dear")
					}
				}
				if !strings.Contains(w.modelQuestions()[0], "cheese is dear") || n != 1+strings.Count(w.slackThread(w.sl.room, root.TS)[0], "cheese is dear") {
					w.Errorf("told %d times: %q", n, w.modelQuestions())
				}
			},
			ends: []string{"silent: not_addressed", "silent: not_addressed", "replied", "replied"},
		},
	}
}

func slackCommandFaults() []fault {
	return []fault{
		{
			sentence: "a slash command of Slack is acknowledged and answered", on: onSlack,
			play: func(w *harness) {
				i := w.sl.dm.Slash(w.sl.bot, w.sl.ann, "/hermes", "version")
				w.must(w.sl.wait(w.ctx, "hermesd"))
				w.waitFor("it is acknowledged", func() bool { _, ok := i.Acked(); return ok }) // the answer may be faster
				if i.Failed() != "" {
					w.Errorf("the person sees %q", i.Failed())
				}
				w.fault.shows = w.sl.visible()
			},
			ends: replies(1),
		},
		{
			sentence: "a command behind an exclamation mark is one in a Slack thread", on: onSlack,
			play: func(w *harness) {
				m := w.sl.room.Say(w.sl.ann, w.sl.bot.User().Mention()+" hello")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "hello"))
				w.sl.room.Reply(w.sl.ann, m.TS, "!version")
				w.must(w.sl.waitIn(w.ctx, w.sl.room, "hermesd"))
				if n := w.model.Count(); n != 1 {
					w.Errorf("the model was asked %d times", n)
				}
			},
			ends: replies(2),
		},
		{
			sentence: "a button on Slack that nobody knows is answered with a word, and nothing else happens", on: onSlack,
			play: func(w *harness) {
				w.askEcho("hello")
				w.sl.dm.Forge(w.sl.bot, w.sl.ann, w.sl.dm.FromBots()[0].TS, "old", "old")
				w.waitFor("ann is told", func() bool {
					es := w.sl.dm.Ephemeral()
					return len(es) == 1 && es[0].Shown() == "This button does nothing."
				})
			},
			shows: echoes("hello"), ends: []string{"replied", "silent: no_such_button"},
		},
		{
			sentence: "a restart that is confirmed by a button on Slack happens once, and is told when it is done", on: onSlack, restarts: true,
			play: func(w *harness) {
				w.sl.dm.Slash(w.sl.bot, w.sl.ann, "/hermes", "restart")
				w.pressSlackButton()
				w.restartAfterRequest()
				w.must(w.sl.wait(w.ctx, "I am back"))
			},
			shows: []string{restartAsks + "\nRestart\nCancel", restartBegun, "I am back: hermesd test."}, ends: replies(2),
		},
	}
}
