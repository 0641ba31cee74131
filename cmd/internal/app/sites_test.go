package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

// A site is a platform of a harness, on which ann has a direct chat with the daemon.
type site interface {
	platform() chat.Platform
	// section returns the platform's section of the configuration file.
	section() string
	// say sends a message as ann.
	say(text string)
	// wait returns once the bot has sent a message with that text.
	wait(ctx context.Context, text string) error
	// changes returns once cond is true. It is evaluated after each change of the
	// platform's recorder.
	changes(ctx context.Context, cond func() bool) error
	// visible returns the bot's messages to ann that exist.
	visible() []string
	secrets() []string
	// dump returns all messages for the failure output.
	dump() string
}

// addPlatforms creates the platforms of a fault.
func (w *harness) addPlatforms(f fault) {
	w.Helper()
	on := f.on
	if len(on) == 0 {
		on = []chat.Platform{chat.Telegram}
	}
	for _, p := range on {
		switch p {
		case chat.Telegram:
			w.sites = append(w.sites, telegramSite{w})
		case chat.Discord:
			w.dc = newDiscordSite(w, f.discord)
			w.sites = append(w.sites, w.dc)
		case chat.Slack:
			w.sl = newSlackSite(w, f.slack, f.app)
			w.sites = append(w.sites, w.sl)
		case chat.HTTP:
			w.web = newWebSite(w)
			w.sites = append(w.sites, w.web)
		}
	}
}

// platformConfig returns the sections of all platforms, with more for the first.
func (w *harness) platformConfig(more string) string {
	var b strings.Builder
	for i, s := range w.sites {
		b.WriteString(s.section())
		if i > 0 {
			continue
		}
		for line := range strings.Lines(more) {
			b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// placeholders replaces placeholders in the settings of faults by values that are known
// only at run time.
func (w *harness) placeholders() *strings.Replacer {
	pairs := []string{"$SPARE", w.secondModel.URL, "$API", w.telegramAddr, "$ANN", fmt.Sprint(w.ann.ID())}
	if w.dc != nil {
		pairs = append(pairs, "$DISCORD", w.dc.url, "$DANN", w.dc.ann.ID, "$ROLE", w.dc.role.ID, "$OPEN", w.dc.open.ID())
	}
	if w.sl != nil {
		pairs = append(pairs, "$SLACK", w.sl.srv.APIURL(), "$SANN", w.sl.ann.ID(), "$XAPP", w.sl.app.Token(),
			"$SECOND", w.sl.second.Token(), "$SBOB", w.sl.bob.ID())
	}
	return strings.NewReplacer(pairs...)
}

// secrets returns the values that must never be visible.
func (w *harness) secrets() []string {
	out := []string{"sk-simulated", w.bot.Token()}
	for _, s := range w.sites {
		out = append(out, s.secrets()...)
	}
	return out
}

// A telegramSite is the Telegram of a harness.
type telegramSite struct{ w *harness }

func (telegramSite) platform() chat.Platform { return chat.Telegram }

func (s telegramSite) section() string {
	return fmt.Sprintf("  telegram:\n    token: %q\n    api_url: %s\n    allow_from: [%q]\n", s.w.bot.Token(), s.w.telegramAddr, fmt.Sprint(s.w.ann.ID()))
}

func (s telegramSite) say(text string) { s.w.say(text) }

func (s telegramSite) wait(ctx context.Context, text string) error {
	_, err := s.w.chat.WaitText(ctx, text)
	return err
}

func (s telegramSite) changes(ctx context.Context, cond func() bool) error {
	return s.w.tg.Recorder().WaitFor(ctx, func(*telegram.Recorder) bool { return cond() })
}

func (s telegramSite) visible() []string { return s.w.visibleTexts(s.w.chat) }

func (s telegramSite) secrets() []string { return nil }

func (s telegramSite) dump() string {
	var b strings.Builder
	for _, c := range s.w.tg.Chats() {
		for _, m := range c.Messages() {
			fmt.Fprintf(&b, "  chat %d: %s: %q\n", c.ID(), m.From.FirstName, m.Text)
		}
	}
	return b.String()
}

// A discordSite is a Discord guild with ann and the bot.
type discordSite struct {
	w     *harness
	srv   *discord.Server
	url   string
	bot   *discord.Bot
	guild *discord.Guild
	role  *discord.Role
	ann   *discord.User
	dm    *discord.Channel
	room  *discord.Channel // the bot answers only when mentioned
	open  *discord.Channel // the bot answers everything
}

func newDiscordSite(w *harness, o discord.Options) *discordSite {
	w.Helper()
	s := &discordSite{w: w, srv: discord.New(o)}
	w.Cleanup(s.srv.Close)
	var err error
	if s.url, err = s.srv.Start(); err != nil {
		w.Fatal(err)
	}
	s.bot = s.srv.AddBot(discord.BotOptions{Name: "hermes"})
	s.ann = s.srv.AddUser("ann")
	s.guild = s.srv.AddGuild("Guild", s.ann)
	s.role = s.guild.AddRole("friends", discord.EveryonePermissions)
	s.room = s.guild.AddChannel(discord.ChannelOptions{Name: "room"})
	s.open = s.guild.AddChannel(discord.ChannelOptions{Name: "open"})
	s.guild.Join(s.bot.User())
	s.dm = s.ann.DM(s.bot)
	return s
}

func (*discordSite) platform() chat.Platform { return chat.Discord }

func (s *discordSite) section() string {
	return fmt.Sprintf("  discord:\n    token: %q\n    api_url: %s\n    allow_from: [%q]\n    free_response_chats: [%q]\n", s.bot.Token(), s.url, s.ann.ID, s.open.ID())
}

func (s *discordSite) say(text string) { s.dm.Say(s.ann, text) }

func (s *discordSite) wait(ctx context.Context, text string) error { return s.waitIn(ctx, s.dm, text) }

// waitIn returns once the bot shows a message with that text in a channel.
func (s *discordSite) waitIn(ctx context.Context, c *discord.Channel, text string) error {
	return s.changes(ctx, func() bool {
		return slices.ContainsFunc(c.Visible(s.bot.User()), func(t string) bool { return strings.Contains(t, text) })
	})
}

// in returns the bot's texts in a channel, without Discord's markup.
func (s *discordSite) in(c *discord.Channel) []string {
	return slices.DeleteFunc(c.Visible(s.bot.User()), func(t string) bool { return t == "" })
}

func (s *discordSite) changes(ctx context.Context, cond func() bool) error {
	return s.srv.Recorder().WaitFor(ctx, func(*discord.Recorder) bool { return cond() })
}

func (s *discordSite) visible() []string { return s.dm.Visible(s.bot.User()) }

func (s *discordSite) secrets() []string { return []string{s.bot.Token()} }

func (s *discordSite) dump() string {
	var b strings.Builder
	for _, c := range s.srv.Channels() {
		for _, m := range c.Messages() {
			fmt.Fprintf(&b, "  %s %s: %s: %q\n", c.Name(), c.ID(), m.From.Name, m.Text)
		}
	}
	for _, c := range s.srv.Recorder().Calls() {
		fmt.Fprintf(&b, "    %d %s %d %s %s\n", c.N, c.Path, c.Status, c.Error, c.Body)
	}
	return b.String()
}

// A slackSite is a Slack workspace with ann and the bot, and a second workspace with
// bob.
type slackSite struct {
	w      *harness
	srv    *slack.Server
	app    *slack.App
	bot    *slack.Bot
	second *slack.Bot
	team   *slack.Team
	ann    *slack.User
	bob    *slack.User
	dm     *slack.Channel
	room   *slack.Channel
}

func newSlackSite(w *harness, o slack.Options, ao slack.AppOptions) *slackSite {
	w.Helper()
	s := &slackSite{w: w, srv: slack.New(o)}
	w.Cleanup(s.srv.Close)
	if _, err := s.srv.Start(); err != nil {
		w.Fatal(err)
	}
	other := s.srv.AddTeam("Other")
	s.team = s.srv.AddTeam("Acme")
	s.app = s.srv.AddApp(ao)
	s.bot, s.second = s.app.Install(s.team), s.app.Install(other)
	s.ann, s.bob = s.team.AddUser(slack.Person{Name: "ann"}), other.AddUser(slack.Person{Name: "bob"})
	s.room = s.team.AddChannel(slack.ChannelOptions{Name: "room", Members: []*slack.User{s.ann, s.bot.User()}})
	s.dm = s.ann.DM(s.bot)
	return s
}

func (*slackSite) platform() chat.Platform { return chat.Slack }

func (s *slackSite) section() string {
	return fmt.Sprintf("  slack:\n    token: %q\n    app_token: %q\n    api_url: %s\n    allow_from: [%q]\n", s.bot.Token(), s.app.Token(), s.srv.APIURL(), s.ann.ID())
}

func (s *slackSite) say(text string) { s.dm.Say(s.ann, text) }

func (s *slackSite) wait(ctx context.Context, text string) error { return s.waitIn(ctx, s.dm, text) }

func (s *slackSite) waitIn(ctx context.Context, c *slack.Channel, text string) error {
	_, err := c.WaitText(ctx, text)
	return err
}

func (s *slackSite) changes(ctx context.Context, cond func() bool) error {
	return s.srv.Recorder().WaitFor(ctx, func(*slack.Recorder) bool { return cond() })
}

func (s *slackSite) visible() []string { return shown(s.dm) }

// shown returns the texts of apps that exist in a channel.
func shown(c *slack.Channel) (out []string) {
	for _, m := range c.FromBots() {
		out = append(out, m.Shown())
	}
	return out
}

func (s *slackSite) secrets() []string { return []string{s.bot.Token(), s.app.Token()} }

func (s *slackSite) dump() string {
	var b strings.Builder
	for _, c := range []*slack.Channel{s.dm, s.room} {
		for _, m := range c.Messages() {
			fmt.Fprintf(&b, "  %s %s/%s: %s: %q\n", c.ID(), m.Thread, m.TS, m.User, m.Shown())
		}
	}
	for _, c := range s.srv.Recorder().Calls() {
		fmt.Fprintf(&b, "    %d %s %d %s %v\n", c.N, c.Method, c.Status, c.Error, c.Params)
	}
	return b.String()
}
