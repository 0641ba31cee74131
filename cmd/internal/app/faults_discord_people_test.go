package app_test

import (
	"slices"
	"strings"
	"time"

	"hermesd/internal/sim/discord"
)

// discordReactions returns the reactions of the bot to a message.
func (w *harness) discordReactions(c *discord.Channel, id string) (out []string) {
	m, _ := c.Message(id)
	for _, r := range m.Reactions {
		if r.From == w.dc.bot.ID() {
			out = append(out, r.Emoji)
		}
	}
	return out
}

// discordCommand makes ann use a command of the menu, once it exists, and returns the
// interaction.
func (w *harness) discordCommand(c *discord.Channel, name string, options ...discord.Option) *discord.Interaction {
	w.Helper()
	w.waitFor("the menu has "+name, func() bool {
		return slices.ContainsFunc(w.dc.bot.Commands(""), func(c discord.Command) bool { return c.Name == name })
	})
	i, err := c.Command(w.dc.ann, w.dc.bot, name, options...)
	w.must(err)
	return i
}

// pressDiscordButton presses the first button that the bot shows in the direct chat.
func (w *harness) pressDiscordButton() *discord.Interaction {
	w.Helper()
	var with discord.Message
	w.waitFor("a button", func() bool {
		for _, m := range w.dc.dm.Messages() {
			if m.From == w.dc.bot.User() && len(m.Buttons) > 0 {
				with = m
			}
		}
		return with.ID != ""
	})
	i, err := w.dc.dm.Press(w.dc.ann, with.ID, with.Buttons[0][0].CustomID)
	w.must(err)
	return i
}

// restartAfterRequest waits until the daemon has ended after a request for a restart, and starts
// it again.
func (w *harness) restartAfterRequest() {
	w.Helper()
	select {
	case <-w.ended:
	case <-w.ctx.Done():
		w.fatal("the daemon does not end")
	}
	w.stop()
	w.start()
}

const (
	restartAsks  = "Restart the daemon? What runs is finished first, or goes on afterwards; no message is lost. Press the button, or say `/restart now`."
	restartBegun = "Restarting."
)

func discordPeopleFaults() []fault {
	return slices.Concat(discordEventFaults(), discordRoomFaults(), discordCommandFaults())
}

func discordEventFaults() []fault {
	return []fault{
		{
			sentence: "a Discord message that is told five times is answered once", on: onDiscord,
			play: func(w *harness) {
				m := w.dc.dm.Say(w.dc.ann, "hello")
				for range 4 {
					w.must(w.dc.dm.Redeliver(m.ID))
				}
				w.waitEcho("hello")
			},
			shows: echoes("hello"), ends: replies(1),
		},
		{
			sentence: "an edit of a Discord message that waits changes it before the model sees it", on: onDiscord,
			config: "display:\n  busy_input_mode: queue",
			play: func(w *harness) {
				n := w.model.Count()
				w.dc.say("hold on")
				w.must(w.model.Await(w.ctx, n+1))
				m := w.dc.dm.Say(w.dc.ann, "wrong")
				w.must(w.dc.dm.Edit(m.ID, "right"))
				w.waitAccepted(3)
				w.releaseModel()
				w.waitEcho("right")
			},
			shows: echoes("hold on", "right"), ends: []string{"replied", "replied", "silent: edit_applied"},
		},
		{
			sentence: "an edit of a Discord message that was answered is not answered again, and a preview of a link is no edit", on: onDiscord,
			play: func(w *harness) {
				m := w.dc.dm.Say(w.dc.ann, "hello")
				w.waitEcho("hello")
				w.must(w.dc.dm.Unfurl(m.ID))
				w.must(w.dc.dm.Edit(m.ID, "changed"))
				w.waitAccepted(2)
			},
			shows: echoes("hello"), ends: []string{"replied", "silent: edit_too_late"},
		},
		{
			sentence: "a stranger on Discord gets no answer, and the rule is on record", on: onDiscord,
			config: "unauthorized_dm_behavior: ignore",
			play: func(w *harness) {
				eve := w.dc.srv.AddUser("eve")
				w.dc.guild.Join(eve)
				eve.DM(w.dc.bot).Say(eve, "let me in")
				w.waitAccepted(1)
				same(w.T, "the stranger sees", nil, eve.DM(w.dc.bot).Visible(w.dc.bot.User()))
			},
			ends: []string{"silent: unknown_dm"},
		},
		{
			sentence: "a role lets its members speak on Discord, and nobody else", on: onDiscord, telegram: "allowed_roles: [\"$ROLE\"]",
			play: func(w *harness) {
				bob, eve := w.dc.srv.AddUser("bob"), w.dc.srv.AddUser("eve")
				w.dc.guild.Join(bob, eve)
				w.dc.guild.Give(bob, w.dc.role)
				w.dc.open.Say(eve, "let me in")
				w.waitAccepted(1)
				w.dc.open.Say(bob, "hello")
				w.must(w.dc.waitIn(w.ctx, w.dc.open, "echo: hello"))
				same(w.T, "the room sees", echoes("hello"), w.dc.open.Visible(w.dc.bot.User()))
			},
			ends: []string{"silent: not_allowed", "replied"},
		},
		{
			sentence: "a Discord message is marked as seen, and as answered in the end", on: onDiscord,
			play: func(w *harness) {
				n := w.model.Count()
				m := w.dc.dm.Say(w.dc.ann, "hold on")
				w.must(w.model.Await(w.ctx, n+1))
				w.waitFor("it is marked as seen", func() bool { return slices.Equal(w.discordReactions(w.dc.dm, m.ID), []string{"👀"}) })
				w.releaseModel()
				w.waitEcho("hold on")
				w.waitFor("it is marked as answered", func() bool { return slices.Equal(w.discordReactions(w.dc.dm, m.ID), []string{"✅"}) })
			},
			shows: echoes("hold on"), ends: replies(1),
		},
		{
			sentence: "marks that Discord refuses disturb nothing", on: onDiscord,
			play: func(w *harness) {
				w.dc.srv.Inject(discord.Fault{Route: discord.RouteReact, Kind: discord.Fail, Status: 403, Code: 50013, Times: -1})
				w.askEcho("hello")
			},
			shows: echoes("hello"), ends: replies(1),
		},
	}
}

func discordRoomFaults() []fault {
	return []fault{
		{
			sentence: "a mention on Discord opens one thread although it is told three times, and the thread goes on without a mention", on: onDiscord,
			play: func(w *harness) {
				m := w.dc.room.Say(w.dc.ann, w.dc.bot.User().Mention()+" hello")
				w.must(w.dc.room.Redeliver(m.ID))
				th := w.discordThread()
				w.must(w.dc.waitIn(w.ctx, th, "hello"))
				w.must(w.dc.room.Redeliver(m.ID))
				th.Say(w.dc.ann, "go on")
				w.must(w.dc.waitIn(w.ctx, th, "go on"))
				w.discordThread()
				same(w.T, "the thread sees", echoes("[ann] hello", "[ann] go on"), w.dc.in(th))
				same(w.T, "the room sees", nil, w.dc.in(w.dc.room))
			},
			ends: replies(2),
		},
		{
			sentence: "a thread whose opening is answered late or not at all is one thread and gets its answer", on: onDiscord,
			play: func(w *harness) {
				w.dc.srv.Inject(discord.Fault{Route: discord.RouteThreadFrom, Kind: discord.CutAfter})
				w.dc.room.Say(w.dc.ann, w.dc.bot.User().Mention()+" hello")
				th := w.discordThread()
				w.must(w.dc.waitIn(w.ctx, th, "hello"))
				same(w.T, "the thread sees", echoes("[ann] hello"), w.dc.in(th))
			},
			ends: replies(1),
		},
		{
			sentence: "a room without the right to open threads gets its answer in the room", on: onDiscord,
			play: func(w *harness) {
				w.dc.room.Deny(w.dc.guild.ID(), discord.CreateThreads)
				w.dc.room.Say(w.dc.ann, w.dc.bot.User().Mention()+" hello")
				w.must(w.dc.waitIn(w.ctx, w.dc.room, "hello"))
			},
			ends: replies(1),
		},
		{
			sentence: "what is said in a Discord room without a mention, and who joins it, is not answered, and the rule is on record", on: onDiscord,
			play: func(w *harness) {
				w.dc.room.Say(w.dc.ann, "talking to myself")
				w.waitAccepted(1)
				w.dc.open.Joined(w.dc.ann)
				w.waitAccepted(2)
				same(w.T, "the room sees", nil, w.dc.room.Visible(w.dc.bot.User()))
			},
			ends: []string{"silent: not_addressed", "silent: service_message"},
		},
	}
}

func discordCommandFaults() []fault {
	text := func(s string) discord.Option { return discord.Option{Name: "text", Value: s} }
	answered := func(w *harness, i *discord.Interaction, part string) {
		w.Helper()
		w.waitFor("the command is answered in place", func() bool {
			as := i.State().Answers
			return len(as) > 0 && !as[0].Pending && strings.Contains(as[0].Text, part)
		})
	}
	return []fault{
		{
			sentence: "a command of Discord's menu is answered in its place", on: onDiscord,
			play: func(w *harness) {
				i := w.discordCommand(w.dc.dm, "version")
				answered(w, i, "hermesd")
				if s := i.State(); s.Failed || len(s.Answers) != 1 {
					w.Errorf("%+v", s)
				}
				w.fault.shows = w.dc.visible()
			},
			ends: replies(1),
		},
		{
			sentence: "a command that Discord no longer knows (10062) is answered by a message", on: onDiscord,
			play: func(w *harness) {
				w.dc.srv.Inject(discord.Fault{Route: discord.RouteCallback, Kind: discord.Fail, Status: 404, Code: 10062, Message: "Unknown interaction"})
				w.discordCommand(w.dc.dm, "version")
				w.must(w.dc.wait(w.ctx, "hermesd"))
				w.fault.shows = w.dc.visible()
				if len(w.fault.shows) != 1 {
					w.Errorf("ann sees %q", w.fault.shows)
				}
			},
			ends: replies(1),
		},
		{
			sentence: "a command whose token has expired when its answer is there is answered by a message", on: onDiscord,
			config: "display:\n  busy_input_mode: queue",
			play: func(w *harness) {
				n := w.model.Count()
				w.dc.say("hold on")
				w.must(w.model.Await(w.ctx, n+1))
				i := w.discordCommand(w.dc.dm, "title", text("Cheese"))
				w.waitFor("it is acknowledged", func() bool { return !i.State().Acked.IsZero() })
				i.Expire()
				w.releaseModel()
				w.must(w.dc.wait(w.ctx, "Cheese"))
				w.fault.shows = w.dc.visible()
			},
			ends: replies(2),
		},
		{
			sentence: "a button on Discord that nobody knows is answered with a word, and nothing else happens", on: onDiscord,
			play: func(w *harness) {
				w.askEcho("hello")
				w.dc.srv.Inject(discord.Fault{Route: discord.RouteCallback, Delay: 200 * time.Millisecond})
				ms := w.dc.dm.Messages()
				_, err := w.dc.dm.Forge(w.dc.ann, ms[len(ms)-1].ID, "old")
				w.must(err)
				w.must(w.dc.wait(w.ctx, "This button does nothing."))
			},
			shows: []string{"echo: hello", "This button does nothing."}, ends: []string{"replied", "silent: no_such_button"},
		},
		{
			sentence: "a restart that is confirmed by a button on Discord happens once, and is told when it is done", on: onDiscord, restarts: true,
			play: func(w *harness) {
				w.dc.say("/restart")
				w.pressDiscordButton()
				w.restartAfterRequest()
				w.must(w.dc.wait(w.ctx, "I am back"))
			},
			shows: []string{restartAsks, restartBegun, "I am back: hermesd test."}, ends: replies(2),
		},
		{
			sentence: "a restart that is asked for by a command of Discord's menu happens once", on: onDiscord, restarts: true,
			play: func(w *harness) {
				w.discordCommand(w.dc.dm, "restart", text("now"))
				w.restartAfterRequest()
				w.must(w.dc.wait(w.ctx, "I am back"))
			},
			shows: []string{restartBegun, "I am back: hermesd test."}, ends: replies(1),
		},
	}
}
