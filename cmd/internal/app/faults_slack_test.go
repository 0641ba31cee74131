package app_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/slack"
)

// onSlack selects Slack as the platform of a fault.
var onSlack = []chat.Platform{chat.Slack}

// without returns all scopes but one.
func without(scope string) []string {
	return slices.DeleteFunc(slack.AllScopes(), func(s string) bool { return s == scope })
}

func slackDown(sentence, words string, app slack.AppOptions, before, after func(*harness)) fault {
	return fault{
		sentence: sentence, on: onSlack, app: app, cold: true, console: true, play: platformDown(words, before, after),
		logs: []string{"cannot run platform", "❌"},
	}
}

// slackTokens writes other tokens into the configuration file.
func slackTokens(token, app string) func(*harness) {
	return func(w *harness) {
		if app == "" {
			app = w.sl.app.Token()
		}
		w.writeConfig(fmt.Sprintf("platforms:\n  slack:\n    token: %q\n    app_token: %q\n    api_url: $SLACK", token, app), "none")
	}
}

func slackLinkFaults() []fault {
	refused := func(code, words string) fault {
		return slackDown("a Slack bot token that is refused ("+code+") keeps the workspace down, and the way out is said", words, slack.AppOptions{},
			func(w *harness) { w.sl.bot.Refuse(code) }, nothing)
	}
	shaking := func(sentence string, shake func(*harness), logs ...string) fault {
		return fault{sentence: sentence, on: onSlack, play: disturbed(shake), shows: echoes("hello", "meanwhile"), ends: replies(2), logs: logs}
	}
	return []fault{
		slackDown("a Slack bot token that nobody knows keeps it down, which is said once, and the console goes on", "SLACK_BOT_TOKEN", slack.AppOptions{},
			slackTokens("xoxb-1-2-unknown", ""), nothing),
		slackDown("a Slack app token that nobody knows keeps it down, and the variable is named", "SLACK_APP_TOKEN", slack.AppOptions{}, func(w *harness) {
			slackTokens(w.sl.bot.Token(), "xapp-1-A000-0-unknown")(w)
		}, nothing),
		slackDown("an app token without connections:write keeps Slack down, and the scope is named", "connections:write", slack.AppOptions{NoSocketScope: true}, nothing, nothing),
		refused("token_revoked", "revoked"), refused("account_inactive", "install it again"), refused("invalid_auth", "SLACK_BOT_TOKEN"),
		{
			sentence: "a scope that the Slack app lacks is named to the operator, and the rest works", on: onSlack, app: slack.AppOptions{Scopes: without("channels:history")},
			play: func(w *harness) {
				w.waitHealth(chat.Connected, "channels:history")
				w.askEcho("hello")
			},
			shows: echoes("hello"), ends: replies(1), logs: []string{"app lacks scopes"},
		},
		{
			sentence: "a scope without which nothing can be said in Slack is named where the answer is given up or waits", on: onSlack, app: slack.AppOptions{Scopes: without("chat:write")},
			play: func(w *harness) {
				w.sl.say("hello")
				w.waitLog("not sent", "chat:write")
				w.sl.bot.SetScopes(slack.AllScopes()...)
				w.waitEcho("hello")
			},
			shows: echoes("hello"), ends: replies(1), logs: []string{"not sent", "app lacks scopes"},
		},
		shaking("a Slack socket that is cut is opened again, and what was said meanwhile is answered once", func(w *harness) { w.sl.app.Cut() }),
		shaking("a Slack socket that is asked to disconnect is handed over without a loss", func(w *harness) { w.sl.app.Disconnect(slack.Refresh) }),
		shaking("a Slack socket that is warned is handed over without a loss", func(w *harness) { w.sl.app.Disconnect(slack.Warning) }),
		shaking("a frame that is no JSON is passed over", func(w *harness) { w.sl.app.SendRaw("{nonsense") }),
		shaking("frames of kinds that nobody knows are passed over", func(w *harness) {
			for _, f := range []string{`{}`, `[]`, `17`, `{"type":"new_kind","payload":{}}`, `{"type":"events_api","envelope_id":"x","payload":null}`} {
				w.sl.app.SendRaw(f)
			}
		}, "cannot parse socket message: no envelope"),
		shaking("Slack off the network is said, and what was written meanwhile is answered when it is back", func(w *harness) {
			w.sl.srv.Down()
			w.waitHealth(chat.Retrying, "")
			w.sl.say("while it is down")
			w.restoreServer(w.sl.srv.Up)
			w.waitEcho("while it is down")
			w.fault.shows, w.fault.ends = echoes("hello", "while it is down", "meanwhile"), replies(3)
		}),
		{
			sentence: "what was said on Slack while the daemon was stopped is answered at the next start", on: onSlack,
			play: func(w *harness) {
				w.askEcho("hello")
				w.stop()
				w.sl.say("meanwhile")
				w.start()
				w.waitEcho("meanwhile")
			},
			shows: echoes("hello", "meanwhile"), ends: replies(2),
		},
		{
			sentence: "Socket Mode that is switched off is said, and Slack goes on when it is on again", on: onSlack,
			play: func(w *harness) {
				w.askEcho("hello")
				w.sl.app.SetSocketMode(false)
				w.waitHealth(chat.Retrying, "")
				w.sl.app.SetSocketMode(true)
				w.waitConnected()
			},
			shows: echoes("hello"), ends: replies(1),
		},
		slackCrowded(),
	}
}

// slackCrowded is an app whose sockets are all in use.
func slackCrowded() fault {
	return fault{
		sentence: "an app whose sockets are all taken by others says so, and connects when one is free", on: onSlack, cold: true, app: slack.AppOptions{MaxSockets: 1},
		play: func(w *harness) {
			c := w.openSlackSocket()
			w.start()
			w.waitHealth(chat.Retrying, "")
			w.must(c.Close())
			w.waitConnected()
			w.askEcho("hello")
		},
		shows: echoes("hello"), ends: replies(1),
	}
}

// slackSendFault injects f into sends to Slack, sends hello and waits for one answer.
func slackSendFault(sentence string, f slack.Fault, logs ...string) fault {
	f.Method = "chat.postMessage"
	return fault{
		sentence: sentence, on: onSlack, config: noPreview, shows: echoes("hello"), ends: replies(1), logs: logs,
		play: func(w *harness) {
			in := w.sl.srv.Inject(f)
			w.askEcho("hello")
			w.waitFor("the fault hits one call", func() bool { return in.Hits() == 1 })
		},
	}
}

func slackSendFaults() []fault {
	held := func(change func(w *harness)) func(*harness) {
		return func(w *harness) {
			n := w.model.Count()
			w.sl.room.Say(w.sl.ann, w.sl.bot.User().Mention()+" hold on")
			w.must(w.model.Await(w.ctx, n+1))
			change(w)
			w.releaseModel()
			w.waitLog("row became a dead letter")
		}
	}
	lostTo := func(sentence, reason string, change func(*harness)) fault {
		return fault{sentence: sentence, on: onSlack, play: held(change), ends: replies(1), dead: []string{reason}, logs: []string{"row became a dead letter"}}
	}
	return []fault{
		slackSendFault("an internal error of Slack leaves it open whether the answer arrived; the marker lets it be shown once", slack.Fault{Kind: slack.Fail, Error: "internal_error"}),
		slackSendFault("an internal error of Slack after the message was taken shows one message", slack.Fault{Kind: slack.FailAfter, Error: "internal_error"}),
		slackSendFault("a 502 of Slack before the message was taken loses nothing", slack.Fault{Kind: slack.Fail, Status: 502}),
		slackSendFault("a 502 of Slack after the message was taken shows one message", slack.Fault{Kind: slack.FailAfter, Status: 502}),
		slackSendFault("Slack that is not available is tried again", slack.Fault{Kind: slack.Fail, Error: "service_unavailable"}),
		slackSendFault("a Slack connection cut before the message was taken shows one message", slack.Fault{Kind: slack.Cut}),
		slackSendFault("a Slack connection cut after the message was taken shows one message", slack.Fault{Kind: slack.CutAfter}),
		slackSendFault("half an answer of Slack shows one message", slack.Fault{Kind: slack.CutBody}),
		slackSendFault("nonsense in place of Slack's answer shows one message", slack.Fault{Kind: slack.GarbageAfter}),
		slackSendFault("an answer of Slack that comes late is waited for, and the message is sent once", slack.Fault{Late: 1500 * time.Millisecond}),
		{
			sentence: "an answer that has become too long to be an edit of its preview is shown once", on: onSlack,
			play: func(w *harness) {
				w.sl.say("wide one")
				w.waitFor("the answer, and nothing of its preview", func() bool { return slices.Equal(w.sl.visible(), wide()) })
			},
			shows: wide(), ends: []string{"replied"},
		},
		{
			sentence: "a 429 of Slack is honoured to the letter", on: onSlack,
			play: func(w *harness) {
				const rest = 2 * time.Second // Slack counts in whole seconds
				w.sl.srv.Inject(slack.Fault{Method: "chat.postMessage", Kind: slack.Fail, RetryAfter: rest})
				w.askEcho("hello")
				cs := w.sl.srv.Recorder().Calls("chat.postMessage")
				if d := cs[1].At.Sub(cs[0].Done); d < rest {
					w.Errorf("tried again after %v", d)
				}
			},
			shows: echoes("hello"), ends: replies(1), logs: []string{"not sent"},
		},
		lostTo("an answer to a Slack channel that was archived is given up, and the operator is told", "the channel is archived",
			func(w *harness) { w.sl.room.Archive(true) }),
		{
			sentence: "an answer to a Slack channel that the bot was taken out of is given up, and the way back is said", on: onSlack,
			app:  slack.AppOptions{Scopes: without("chat:write.public")},
			play: held(func(w *harness) { w.sl.room.Leave(w.sl.bot.User()) }), ends: replies(1),
			dead: []string{"the bot is not in this channel; invite it with /invite"}, logs: []string{"row became a dead letter"},
		},
		lostTo("an answer to a Slack channel in which only people may write is given up, and the reason is said",
			"a setting of the workspace or the channel keeps the bot from writing here; an administrator can change it", func(w *harness) { w.sl.room.ReadOnly(true) }),
	}
}

// wide returns the model's answer to "wide" as one message of Slack can hold it.
func wide() []string { return []string{strings.Join(pages(), "\n\n")} }
