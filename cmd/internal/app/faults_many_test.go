package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
)

// rejectedBy is a request that the HTTP API rejects with a status and a code without
// asking the model.
func rejectedBy(sentence string, status int, code string, p post) fault {
	return fault{
		sentence: sentence, on: []chat.Platform{chat.HTTP},
		play: func(w *harness) {
			got, body, err := w.web.post(w.ctx, p)
			w.must(err)
			var e struct {
				Error struct {
					Code    string `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			}
			if json.Unmarshal([]byte(body), &e) != nil || got != status || code != "" && e.Error.Code != code || e.Error.Message == "" {
				w.Errorf("%d %s", got, body)
			}
			if n := w.model.Count(); n != 0 {
				w.Errorf("the model was asked %d times", n)
			}
		},
	}
}

func webFaults() []fault {
	onWeb, hello := []chat.Platform{chat.HTTP}, question("hello", "")
	return []fault{
		rejectedBy("a request with a wrong key is refused, and where the key is is said", 401, "invalid_api_key", post{body: hello, key: "wrong"}),
		rejectedBy("a request under a foreign host name is refused", 421, "unknown_host", post{body: hello, headers: map[string]string{"Host": "evil.test"}}),
		rejectedBy("a request of a web page is refused", 403, "origin_refused", post{body: hello, headers: map[string]string{"Origin": "https://evil.test"}}),
		rejectedBy("a request that is no JSON is refused", 400, "", post{body: "{nonsense"}),
		rejectedBy("a request without messages is refused", 400, "", post{body: `{"model":"hermes","messages":[]}`}),
		rejectedBy("a request for a model that is not there is refused", 404, "", post{body: strings.Replace(hello, "hermes", "gpt-9", 1)}),
		rejectedBy("a request that is too large is refused", 413, "", post{body: question(strings.Repeat("x", 9<<20), "")}),
		{
			sentence: "a request that comes again with the same key while it is answered, and after it, is one turn", on: onWeb,
			play: func(w *harness) {
				p := post{body: question("hold on", ""), headers: map[string]string{"Idempotency-Key": "k1"}}
				n := w.model.Count()
				texts := make(chan string, 3)
				ask := func() {
					_, body, err := w.web.post(w.ctx, p)
					if err != nil {
						body = err.Error()
					}
					texts <- answer(body)
				}
				go ask() // its answer is received below
				w.must(w.model.Await(w.ctx, n+1))
				go ask() // its answer is received below
				w.releaseModel()
				first, second := <-texts, <-texts
				ask()
				same(w.T, "answers", echoes("hold on", "hold on", "hold on"), []string{first, second, <-texts})
				if got := w.model.Count(); got != n+1 {
					w.Errorf("the model was asked %d times", got-n)
				}
			},
			ends: replies(1),
		},
		{
			sentence: "an answer of the HTTP API that is streamed is whole", on: onWeb,
			play: func(w *harness) {
				_, body, err := w.web.post(w.ctx, post{body: question("long one", `,"stream":true`)})
				w.must(err)
				var b strings.Builder
				for line := range strings.Lines(body) {
					var c struct {
						Choices []struct {
							Delta struct {
								Content string `json:"content"`
							} `json:"delta"`
						} `json:"choices"`
					}
					if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &c) == nil && len(c.Choices) > 0 {
						b.WriteString(c.Choices[0].Delta.Content)
					}
				}
				if want := "done: " + strings.Repeat("word ", 50) + "end"; b.String() != want || !strings.Contains(body, "[DONE]") {
					w.Errorf("%q", body)
				}
			},
			ends: replies(1),
		},
		{
			sentence: "a client of the HTTP API that goes away does not stop its turn, and gets the answer when it asks again", on: onWeb,
			play: func(w *harness) {
				p := post{body: question("hold on", ""), headers: map[string]string{"Idempotency-Key": "k1"}}
				n := w.model.Count()
				ctx, cancel := context.WithCancel(w.ctx)
				gone := make(chan error, 1)
				go func() { // waited for below
					_, _, err := w.web.post(ctx, p)
					gone <- err
				}()
				w.must(w.model.Await(w.ctx, n+1))
				cancel()
				if <-gone == nil {
					w.Error("the client did not go")
				}
				w.releaseModel()
				_, body, err := w.web.post(w.ctx, p)
				w.must(err)
				same(w.T, "the answer", echoes("hold on"), []string{answer(body)})
			},
			ends: replies(1),
		},
		{
			sentence: "an HTTP API whose port is taken says so, and works once it is free", on: onWeb, cold: true,
			play: func(w *harness) {
				l, err := net.Listen("tcp", w.web.address)
				w.must(err)
				defer func() { _ = l.Close() }() // closed twice in the end, or after a failure
				w.start()
				w.waitLog(w.web.address, "address already in use")
				w.must(l.Close())
				w.stop()
				w.start()
				w.waitConnected()
			},
			logs: []string{"address already in use", "cannot run platform"},
		},
		{
			sentence: "an HTTP API that would be open to others without a name does not start, and the key is named", on: onWeb, cold: true,
			play: func(w *harness) {
				w.writeConfig("platforms:\n  http:\n    enabled: true\n    listen: 0.0.0.0:0", "none")
				w.requireConfigError("hosts")
				w.writeConfig("", "")
				w.start()
				w.waitConnected()
			},
		},
	}
}

func manyFaults() []fault {
	all := []chat.Platform{chat.Telegram, chat.Discord, chat.Slack, chat.HTTP}
	everybody := func(w *harness, text string) {
		w.Helper()
		for _, s := range w.sites {
			s.say(text)
		}
		for _, s := range w.sites {
			if err := s.wait(w.ctx, "echo: "+text); err != nil {
				w.fatal(fmt.Sprintf("%s does not answer %q", s.platform(), text))
			}
		}
	}
	return []fault{
		{
			sentence: "all platforms are answered side by side, each in its place", on: all,
			play: func(w *harness) {
				everybody(w, "hello")
				for _, s := range w.sites {
					same(w.T, string(s.platform()), echoes("hello"), s.visible())
				}
			},
			shows: echoes("hello"), ends: replies(4),
		},
		{
			sentence: "Discord and Slack off the network do not hold Telegram up, and are answered when they are back", on: all[:3],
			play: func(w *harness) {
				everybody(w, "hello")
				w.dc.srv.Down()
				w.sl.srv.Down()
				w.waitHealthOf(chat.Account{Platform: chat.Discord}, chat.Retrying, "")
				w.waitHealthOf(chat.Account{Platform: chat.Slack}, chat.Retrying, "")
				w.askEcho("and you?")
				w.restoreServer(w.dc.srv.Up)
				w.restoreServer(w.sl.srv.Up)
				everybody(w, "again")
			},
			shows: echoes("hello", "and you?", "again"), ends: replies(7),
		},
		{
			sentence: "wrong tokens on Discord and Slack do not keep Telegram from working, and both are said", on: all[:1],
			config: "  discord:\n    token: MTAwMDAwMDAwMDAwMDAwMDAw.GwrOng.unreal-token-of-nobody-at-all-000000\n    api_url: $API\n" +
				"  slack:\n    token: nonsense\n    app_token: nonsense\n",
			play:  func(w *harness) { w.askEcho("hello"); w.waitLog("❌") },
			shows: echoes("hello"), ends: replies(1), logs: []string{"cannot run platform", "❌", "connect"},
		},
		{
			sentence: "a second workspace with a revoked token does not keep the first from working, and is said", on: onSlack,
			telegram: "accounts:\n  other:\n    token: \"$SECOND\"\n    app_token: \"$XAPP\"\n    allow_from: [\"$SBOB\"]\n", cold: true,
			play: func(w *harness) {
				w.sl.second.Refuse("token_revoked")
				w.start()
				w.waitHealthOf(chat.Account{Platform: chat.Slack, Name: "other"}, chat.Failed, "revoked")
				w.waitConnected()
				w.askEcho("hello")
			},
			shows: echoes("hello"), ends: replies(1), logs: []string{"cannot run platform", "❌"},
		},
		{
			sentence: "two Discord bots are answered side by side, each in its own chat", on: onDiscord, cold: true,
			play: func(w *harness) {
				second := w.dc.srv.AddBot(discord.BotOptions{Name: "second"})
				w.dc.guild.Join(second.User())
				w.writeConfig("", fmt.Sprintf("accounts:\n  other:\n    token: %q\n    allow_from: [\"$DANN\"]\n", second.Token()))
				w.start()
				w.waitConnected()
				w.waitHealthOf(chat.Account{Platform: chat.Discord, Name: "other"}, chat.Connected, "")
				dm := w.dc.ann.DM(second)
				dm.Say(w.dc.ann, "to the other")
				w.askEcho("hello")
				w.waitFor("the other answers", func() bool {
					return slices.Equal(dm.Visible(second.User()), echoes("to the other"))
				})
			},
			shows: echoes("hello"), ends: replies(2),
		},
		{
			sentence: "two workspaces with an app each are answered side by side", on: onSlack, cold: true,
			play: func(w *harness) {
				app := w.sl.srv.AddApp(slack.AppOptions{Name: "second"})
				team := w.sl.srv.AddTeam("Third")
				bot, cid := app.Install(team), team.AddUser(slack.Person{Name: "cid"})
				w.writeConfig("", fmt.Sprintf("accounts:\n  other:\n    token: %q\n    app_token: %q\n    allow_from: [%q]\n", bot.Token(), app.Token(), cid.ID()))
				w.start()
				w.waitConnected()
				w.waitHealthOf(chat.Account{Platform: chat.Slack, Name: "other"}, chat.Connected, "")
				cid.DM(bot).Say(cid, "to the other")
				w.must(w.sl.waitIn(w.ctx, cid.DM(bot), "echo: to the other"))
				w.askEcho("hello")
			},
			shows: echoes("hello"), ends: replies(2),
		},
	}
}
