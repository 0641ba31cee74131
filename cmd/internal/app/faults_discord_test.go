package app_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/internal/sim/discord"
)

// onDiscord selects Discord as the platform of a fault.
var onDiscord = []chat.Platform{chat.Discord}

// echoes returns the answers to texts.
func echoes(texts ...string) (out []string) {
	for _, s := range texts {
		out = append(out, "echo: "+s)
	}
	return out
}

// replies returns n outcomes "replied".
func replies(n int) []string { return slices.Repeat([]string{"replied"}, n) }

// disturbed starts a conversation, disturbs the connection, and checks that a message
// sent meanwhile is answered.
func disturbed(shake func(*harness)) func(*harness) {
	return func(w *harness) {
		w.askEcho("hello")
		shake(w)
		w.sites[0].say("meanwhile")
		w.waitEcho("meanwhile")
		w.waitConnected()
	}
}

// platformDown starts the daemon and checks that it gives up the platform and reports that
// once.
func platformDown(words string, before, after func(*harness)) func(*harness) {
	return func(w *harness) {
		before(w)
		w.start()
		after(w)
		w.waitHealth(chat.Failed, words)
		w.waitLog("❌")
		if n := w.countLogs("cannot run platform"); n != 1 || w.countLogs("❌") != 1 {
			w.Errorf("said %d times", n)
		}
	}
}

func nothing(*harness) {}

// discordDown is a fault after which only the console works.
func discordDown(sentence, words string, before, after func(*harness)) fault {
	return fault{
		sentence: sentence, on: onDiscord, cold: true, console: true, play: platformDown(words, before, after),
		logs: []string{"cannot run platform", "❌"},
	}
}

// closeGateway makes the gateway close with a code once the bot is connected.
func closeGateway(code int) func(*harness) {
	return func(w *harness) { w.waitConnected(); w.dc.srv.CloseAll(code) }
}

// withToken writes another token into the configuration file.
func withToken(token string) func(*harness) {
	return func(w *harness) {
		w.writeConfig(fmt.Sprintf("platforms:\n  discord:\n    token: %q\n    api_url: $DISCORD", token), "none")
	}
}

func discordLinkFaults() []fault {
	const final, passing = "a gateway that closes with %d keeps Discord down and says why", "a gateway that closes with %d is connected to again, and what was said meanwhile is answered once"
	out := []fault{
		discordDown("a token that Discord does not know (401) keeps it down, which is said once, and the console goes on",
			"Discord does not know this bot token", withToken("MTAwMDAwMDAwMDAwMDAwMDAw.GwrOng.unreal-token-of-nobody-at-all-000000"), nothing),
		discordDown("a Discord token that is made new while the daemon runs takes it down, and the way out is said",
			"Discord does not know this bot token", nothing, func(w *harness) { w.waitConnected(); w.dc.bot.ResetToken() }),
		discordDown("a bot without the message content intent (4014) is down, and the switch in the portal is named", "Message Content Intent", func(w *harness) {
			w.dc.bot = w.dc.srv.AddBot(discord.BotOptions{Denied: discord.IntentMessageContent})
			w.writeConfig("", "")
		}, nothing),
	}
	for code, words := range map[int]string{4010: "shard", 4011: "too many servers", 4012: "update hermesd", 4013: "update hermesd", 4004: "DISCORD_BOT_TOKEN"} {
		out = append(out, discordDown(fmt.Sprintf(final, code), words, nothing, closeGateway(code)))
	}
	for _, code := range []int{4000, 4001, 4002, 4003, 4005, 4007, 4008, 4009, 1000, 1001} {
		out = append(out, fault{
			sentence: fmt.Sprintf(passing, code), on: onDiscord,
			play:  disturbed(func(w *harness) { w.dc.srv.CloseAll(code) }),
			shows: echoes("hello", "meanwhile"), ends: replies(2), logs: []string{"connection ended"},
		})
	}
	return append(out, discordGaps()...)
}

func discordGaps() []fault {
	gap := func(sentence string, o discord.Options, shake func(*harness), logs ...string) fault {
		return fault{sentence: sentence, on: onDiscord, discord: o, play: disturbed(shake), shows: echoes("hello", "meanwhile"), ends: replies(2), logs: logs}
	}
	return []fault{
		gap("a gateway that cuts the connection is resumed", discord.Options{}, func(w *harness) { w.dc.srv.CutAll() }),
		gap("a gateway that asks to connect again is followed", discord.Options{}, func(w *harness) { w.dc.srv.Reconnect() }),
		gap("a session that Discord calls invalid but resumable is resumed", discord.Options{}, func(w *harness) { w.dc.srv.Invalidate(true) }),
		gap("a session that Discord has given up begins again, and the gap is healed from the history", discord.Options{}, func(w *harness) { w.dc.srv.Invalidate(false) }),
		gap("a session that nobody remembers after a cut begins again, and the gap is healed from the history", discord.Options{}, func(w *harness) {
			w.dc.srv.ForgetSessions()
			w.dc.srv.CutAll()
		}),
		gap("a connection that is a black hole is noticed by the missing heartbeat and rebuilt", discord.Options{HeartbeatInterval: 2 * time.Second},
			func(w *harness) { w.dc.srv.Swallow() }, "no answer to a heartbeat"),
		gap("Discord off the network is said, and what was written meanwhile is answered when it is back", discord.Options{}, func(w *harness) {
			w.dc.srv.Down()
			w.waitHealth(chat.Retrying, "")
			w.dc.say("while it is down")
			w.restoreServer(w.dc.srv.Up)
			w.waitEcho("while it is down")
			w.fault.shows, w.fault.ends = echoes("hello", "while it is down", "meanwhile"), replies(3)
		}),
		gap("a bot that has begun too many sessions waits for as long as Discord says, and the operator is told", discord.Options{}, func(w *harness) {
			w.dc.bot.SetSessionStarts(0, 20*time.Second) // time enough for a busy machine to be refused
			w.dc.srv.ForgetSessions()
			w.dc.srv.CutAll()
		}, "Discord takes no more sessions"),
		{
			sentence: "what was said on Discord while the daemon was stopped is answered at the next start, also when nobody remembers the session", on: onDiscord,
			play: func(w *harness) {
				w.askEcho("hello")
				w.stop()
				w.dc.srv.ForgetSessions()
				w.dc.say("meanwhile")
				w.start()
				w.waitEcho("meanwhile")
			},
			shows: echoes("hello", "meanwhile"), ends: replies(2),
		},
	}
}

// discordSendFault injects f into sends to Discord, sends hello and waits for one answer.
func discordSendFault(sentence string, f discord.Fault, logs ...string) fault {
	if f.Route == "" {
		f.Route = discord.RouteCreateMessage
	}
	return fault{
		sentence: sentence, on: onDiscord, config: noPreview, shows: echoes("hello"), ends: replies(1), logs: logs,
		play: func(w *harness) {
			in := w.dc.srv.Inject(f)
			w.askEcho("hello")
			w.waitFor("the fault hits one call", func() bool { return in.Hits() == 1 })
		},
	}
}

// discordRetryWait returns how long after a response 429 the next send came, and when other
// calls were made before rest had passed.
func (w *harness) discordRetryWait(rest time.Duration) (wait time.Duration, early []time.Duration) {
	w.Helper()
	cs := w.dc.srv.Recorder().Calls()
	i := slices.IndexFunc(cs, func(c discord.Call) bool { return c.Status == 429 })
	if i < 0 {
		w.fatal("nothing was refused")
	}
	for _, c := range cs[i+1:] {
		d := c.At.Sub(cs[i].Done)
		if c.Route == discord.RouteCreateMessage {
			return d, early
		}
		if d > rest/2 && d < rest { // calls that were already running at the response do not count
			early = append(early, d)
		}
	}
	w.fatal("no send was tried again")
	return 0, nil
}

func discordSendFaults() []fault {
	out := []fault{
		discordSendFault("a 500 of Discord leaves it open whether the answer arrived; the nonce lets it arrive once", discord.Fault{Kind: discord.Fail, Status: 500}),
		discordSendFault("a 502 before the message was taken loses nothing", discord.Fault{Kind: discord.Fail, Status: 502}),
		discordSendFault("a 502 after the message was taken shows one message", discord.Fault{Kind: discord.FailAfter, Status: 502}),
		discordSendFault("a page of HTML in place of Discord shows one message", discord.Fault{Kind: discord.Fail, Status: 503, NoJSON: true}),
		discordSendFault("a Discord connection cut before the message was taken shows one message", discord.Fault{Kind: discord.Cut}),
		discordSendFault("a Discord connection cut after the message was taken shows one message", discord.Fault{Kind: discord.CutAfter}),
		discordSendFault("half an answer of Discord shows one message", discord.Fault{Kind: discord.CutBody}),
		discordSendFault("nonsense in place of Discord's answer shows one message", discord.Fault{Kind: discord.GarbageAfter}),
		discordSendFault("an answer of Discord that comes late is waited for, and the message is sent once", discord.Fault{Late: 1500 * time.Millisecond}),
		{
			sentence: "an answer of Discord that is lost together with the memory of its nonce is found, and shows one message", on: onDiscord,
			play: func(w *harness) {
				in := w.dc.srv.Inject(discord.Fault{Route: discord.RouteCreateMessage, Kind: discord.CutAfter})
				w.dc.say("hello")
				w.waitFor("the send is cut", func() bool { return in.Hits() == 1 })
				w.dc.bot.ForgetNonces()
				w.waitEcho("hello")
				// Once others have written, a text as short as this one could be a
				// different message.
				w.waitFor("the send is cleared up", func() bool {
					rows, _, err := w.app.Store().Outbox(w.ctx, outbox.Query{})
					return err == nil && len(rows) == 0
				})
			},
			shows: echoes("hello"), ends: replies(1),
		},
	}
	for _, global := range []bool{false, true} {
		out = append(out, fault{
			sentence: fmt.Sprintf("a 429 of Discord (global: %v) is honoured to the letter", global), on: onDiscord,
			play: func(w *harness) {
				const rest = 2400 * time.Millisecond
				w.dc.srv.Inject(discord.Fault{Route: discord.RouteCreateMessage, Kind: discord.Fail, RetryAfter: rest, Global: global})
				w.askEcho("hello")
				if d, early := w.discordRetryWait(rest); d < rest || global && len(early) > 0 {
					w.Errorf("tried again after %v, other calls after %v", d, early)
				}
			},
			shows: echoes("hello"), ends: replies(1), logs: []string{"not sent"},
		})
	}
	return append(out, discordPlaceFaults()...)
}

// discordThread returns the only thread of the room, once it exists.
func (w *harness) discordThread() *discord.Channel {
	w.Helper()
	w.waitFor("there is a thread", func() bool { return len(w.dc.room.Threads()) > 0 })
	if n := len(w.dc.room.Threads()); n != 1 {
		w.fatal(fmt.Sprintf("%d threads", n))
	}
	return w.dc.room.Threads()[0]
}

func discordPlaceFaults() []fault {
	held := func(change func(w *harness)) func(*harness) {
		return func(w *harness) {
			n := w.model.Count()
			w.dc.open.Say(w.dc.ann, "hold on")
			w.must(w.model.Await(w.ctx, n+1))
			change(w)
			w.releaseModel()
			w.waitLog("row became a dead letter")
		}
	}
	lostTo := func(sentence, reason string, change func(*harness)) fault {
		return fault{sentence: sentence, on: onDiscord, play: held(change), ends: replies(1), dead: []string{reason}, logs: []string{"row became a dead letter"}}
	}
	return []fault{
		lostTo("an answer to a Discord channel that is gone is given up, and the operator is told",
			"the channel or thread no longer exists, or the bot is not in it", func(w *harness) { w.dc.open.Remove() }),
		lostTo("an answer to a Discord channel in which the bot may not write is given up, and the permission is named",
			"the bot may not do this here; give it Send Messages, Send Messages in Threads, Attach Files and Read Message History in the channel",
			func(w *harness) { w.dc.open.Deny(w.dc.guild.ID(), discord.SendMessages) }),
		{
			sentence: "a Discord thread that is archived while the model thinks is opened again and gets its answer", on: onDiscord,
			play: func(w *harness) { w.archiveThread(false, "hold on") }, ends: replies(2),
		},
		{
			sentence: "an answer to a Discord thread that is locked is given up, and the way out is said", on: onDiscord,
			play: func(w *harness) { w.archiveThread(true, ""); w.waitLog("row became a dead letter") }, ends: replies(2),
			dead: []string{"the thread is archived and the bot may not open it again; unarchive it, or give the bot Manage Threads"},
			logs: []string{"row became a dead letter"},
		},
		{
			sentence: "an answer that is longer than Discord takes comes in pieces, whole and in order, and takes the place of its preview", on: onDiscord,
			play: func(w *harness) {
				w.dc.say("wide one")
				want := strings.Fields(strings.Join(pages(), " "))
				got := func() []string { return strings.Fields(strings.Join(w.dc.visible(), " ")) }
				w.waitFor("all pieces", func() bool { return slices.Equal(want, got()) })
				w.fault.shows = w.dc.visible()
				for _, s := range w.fault.shows {
					if len([]rune(s)) > 2000 {
						w.Errorf("a piece has %d characters", len([]rune(s)))
					}
				}
			},
			ends: replies(1),
		},
		{
			sentence: "a preview that somebody deletes on Discord is followed by the answer, whole and once", on: onDiscord,
			play: func(w *harness) {
				w.dc.say("long one")
				w.waitFor("a preview", func() bool { return len(w.dc.visible()) == 1 })
				for _, m := range w.dc.dm.Messages() {
					if m.From == w.dc.bot.User() {
						w.must(w.dc.dm.Delete(m.ID))
					}
				}
				w.must(w.dc.wait(w.ctx, "end"))
			},
			shows: []string{"done: " + strings.Repeat("word ", 50) + "end"}, ends: replies(1),
		},
	}
}

// archiveThread sends a message to a thread of the bot, archives the thread while the
// model runs, and waits for the answer if one is expected.
func (w *harness) archiveThread(locked bool, sees string) {
	w.Helper()
	w.dc.room.Say(w.dc.ann, w.dc.bot.User().Mention()+" hello")
	th := w.discordThread()
	w.must(w.dc.waitIn(w.ctx, th, "hello"))
	n := w.model.Count()
	th.Say(w.dc.ann, "hold on")
	w.must(w.model.Await(w.ctx, n+1))
	th.Archive(locked)
	w.releaseModel()
	if sees != "" {
		w.must(w.dc.waitIn(w.ctx, th, sees))
	}
}
