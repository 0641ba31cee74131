package discord_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"go.uber.org/goleak"

	"hermesd/internal/sim/discord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A place is a server with a bot, a person, a guild with both and a channel.
type place struct {
	*discord.Server
	bot  *discord.Bot
	ann  *discord.User
	home *discord.Guild
	ch   *discord.Channel
}

func newPlace(t *testing.T, o discord.Options) *place {
	t.Helper()
	p := &place{Server: discord.New(o)}
	t.Cleanup(p.Close)
	p.bot = p.AddBot(discord.BotOptions{Name: "sim"})
	p.ann = p.AddUser("ann")
	p.home = p.AddGuild("home", p.ann)
	p.home.Join(p.bot.User())
	p.ch = p.home.AddChannel(discord.ChannelOptions{Name: "general", Topic: "all"})
	return p
}

// library returns an unmodified client over the connections that dial makes.
func (p *place) library(t *testing.T, dial discord.Dialer) *discordgo.Session {
	t.Helper()
	d, err := discordgo.New("Bot " + p.bot.Token())
	if err != nil {
		t.Fatal(err)
	}
	web := discord.Transport(dial)
	t.Cleanup(web.CloseIdleConnections)
	d.Client, d.Dialer = &http.Client{Transport: web}, discord.Websocket(dial)
	d.Identify.Intents = discordgo.IntentsAllWithoutPrivileged | discordgo.IntentMessageContent
	d.LogLevel = -1
	return d
}

// open connects the library and collects the texts that it receives.
func (p *place) open(t *testing.T, d *discordgo.Session) <-chan string {
	t.Helper()
	heard := make(chan string, 100)
	d.SyncEvents = true
	d.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) {
		if m.Author.ID != d.State.User.ID {
			heard <- m.Content
		}
	})
	ready := make(chan struct{}, 10)
	d.AddHandler(func(_ *discordgo.Session, _ *discordgo.GuildCreate) { ready <- struct{}{} })
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.settled(t); _ = d.Close() })
	next(t, ready)
	return heard
}

// settled waits until every connection has sent its first heartbeat. In a
// bubble the library must not be cut or closed before, because it would wait
// for a lock that it holds while it sleeps.
func (p *place) settled(t *testing.T) {
	t.Helper()
	err := p.Recorder().WaitFor(context.Background(), func(l *discord.Recorder) bool {
		n := l.Counts()
		return n.Heartbeats >= n.Connects
	})
	if err != nil {
		t.Error(err)
	}
	<-time.After(time.Millisecond) // in a bubble: until all goroutines are blocked
}

// next receives one value from c.
func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
