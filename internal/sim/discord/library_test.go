package discord_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"

	"hermesd/internal/sim/discord"
)

// everyWay runs a test over both ways to the server: in memory with the time of
// a bubble, and over the network in real time.
func everyWay(t *testing.T, test func(t *testing.T, p *place, dial discord.Dialer)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPlace(t, discord.Options{})
			test(t, p, p.Dial)
		})
	})
	t.Run("loopback", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, discord.Options{})
		if _, err := p.Start(); err != nil {
			t.Fatal(err)
		}
		test(t, p, p.DialLoopback)
	})
}

func TestALibraryConnectsHearsAndSpeaks(t *testing.T) {
	everyWay(t, func(t *testing.T, p *place, dial discord.Dialer) {
		d := p.library(t, dial)
		heard := p.open(t, d)
		want(t, "name", d.State.User.Username, "sim")
		g, err := d.State.Guild(p.home.ID())
		if err != nil || len(g.Channels) != 1 || g.Channels[0].Name != "general" || len(g.Members) != 1 {
			t.Fatalf("guild: %+v, %v", g, err)
		}
		p.ch.Say(p.ann, "hello")
		want(t, "heard", next(t, heard), "hello")
		p.ann.DM(p.bot).Say(p.ann, "psst")
		want(t, "heard", next(t, heard), "psst")
		m, err := d.ChannelMessageSend(p.ch.ID(), "hi")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.ChannelMessageEdit(p.ch.ID(), m.ID, "hi there"); err != nil {
			t.Fatal(err)
		}
		want(t, "stands", strings.Join(p.ch.Visible(p.bot.User()), "|"), "hi there")
		got, err := d.ChannelMessages(p.ch.ID(), 10, "", "", "")
		if err != nil || len(got) != 2 || got[0].Content != "hi there" || got[1].Author.ID != p.ann.ID {
			t.Errorf("history: %+v, %v", got, err)
		}
		n := p.Recorder().Counts()
		want(t, "sent", fmt.Sprint(n.Sent, n.Edited, n.Refused), "1 1 0")
	})
}

func TestALibraryResumesAfterACut(t *testing.T) {
	everyWay(t, func(t *testing.T, p *place, dial discord.Dialer) {
		d := p.library(t, dial)
		heard := p.open(t, d)
		cuts := 3
		if !strings.HasSuffix(t.Name(), "memory") {
			cuts = 1 // each one takes the library a second
		}
		for i := range cuts {
			p.ch.Say(p.ann, fmt.Sprint("before ", i))
			next(t, heard)
			p.settled(t)
			p.CutAll()
			p.ch.Say(p.ann, fmt.Sprint("while away ", i))
			want(t, "heard", next(t, heard), fmt.Sprint("while away ", i))
			if err := p.Recorder().WaitCount(within(t, time.Minute), i+1, func(c discord.Counts) int { return c.Resumes }); err != nil {
				t.Fatal(err)
			}
		}
		n := p.Recorder().Counts()
		want(t, "sessions begun and resumed", fmt.Sprint(n.Identifies, n.Resumes), fmt.Sprint(1, cuts))
		for _, o := range p.Recorder().Offers("MESSAGE_CREATE") {
			if o.Sessions != 1 || o.Times == 0 {
				t.Errorf("missed: %+v", o)
			}
		}
	})
}

func TestALibraryUsesCommandsAndFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, discord.Options{})
		d := p.library(t, p.Dial)
		p.open(t, d)
		d.AddHandler(func(d *discordgo.Session, i *discordgo.InteractionCreate) {
			err := d.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{Type: discordgo.InteractionResponseDeferredChannelMessageWithSource})
			if err != nil {
				t.Error(err)
			}
			text := "done " + i.ApplicationCommandData().Options[0].StringValue()
			if _, err := d.InteractionResponseEdit(i.Interaction, &discordgo.WebhookEdit{Content: &text}); err != nil {
				t.Error(err)
			}
		})
		_, err := d.ApplicationCommandBulkOverwrite(p.bot.ID(), "", []*discordgo.ApplicationCommand{{
			Name: "run", Description: "Runs", Options: []*discordgo.ApplicationCommandOption{{
				Type: discordgo.ApplicationCommandOptionString, Name: "what", Description: "What",
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		i, err := p.ch.Command(p.ann, p.bot, "run", discord.Option{Name: "what", Value: "it"})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Recorder().WaitFor(within(t, time.Minute), func(*discord.Recorder) bool {
			st := i.State()
			return len(st.Answers) == 1 && st.Answers[0].Text == "done it" && !st.Answers[0].Pending
		})
		if err != nil {
			t.Fatalf("%v: %+v", err, i.State())
		}
		m, err := d.ChannelFileSend(p.ch.ID(), "a.txt", strings.NewReader("content"))
		if err != nil || len(m.Attachments) != 1 {
			t.Fatalf("file: %+v, %v", m, err)
		}
		resp, err := d.Client.Get(m.Attachments[0].URL) //nolint:noctx // a test
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("download: %+v, %v", resp, err)
		}
		_ = resp.Body.Close()
	})
}

func TestALibraryFollowsTheServersWishes(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *place)
		want string
	}{
		{"reconnect", func(p *place) { p.Reconnect() }, "1 1"},
		{"closed with a code", func(p *place) { p.CloseAll(discord.CloseUnknownError) }, "1 1"},
		{"invalid session", func(p *place) { p.Invalidate(false) }, "2 0"},
		{"away", func(p *place) { p.Down(); <-time.After(30 * time.Second); _ = p.Up() }, "1 1"},
		{"black hole", func(p *place) { p.Swallow() }, "2 0"}, // the library notices it after the window
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t, discord.Options{})
				d := p.library(t, p.Dial)
				heard := p.open(t, d)
				p.settled(t)
				c.do(p)
				err := p.Recorder().WaitFor(within(t, time.Hour), func(l *discord.Recorder) bool {
					n := l.Counts()
					return fmt.Sprint(n.Identifies, n.Resumes) == c.want
				})
				if err != nil {
					t.Fatal(err)
				}
				p.ch.Say(p.ann, "there?")
				want(t, "heard", next(t, heard), "there?")
			})
		})
	}
}

func TestALibraryServesButtons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, discord.Options{})
		d := p.library(t, p.Dial)
		p.open(t, d)
		d.AddHandler(func(d *discordgo.Session, i *discordgo.InteractionCreate) {
			err := d.InteractionRespond(i.Interaction, &discordgo.InteractionResponse{
				Type: discordgo.InteractionResponseUpdateMessage,
				Data: &discordgo.InteractionResponseData{Content: i.MessageComponentData().CustomID + " by " + i.Member.User.Username},
			})
			if err != nil {
				t.Error(err)
			}
		})
		m, err := d.ChannelMessageSendComplex(p.ch.ID(), &discordgo.MessageSend{
			Content: "sure?",
			Components: []discordgo.MessageComponent{discordgo.ActionsRow{Components: []discordgo.MessageComponent{
				discordgo.Button{Label: "Yes", CustomID: "yes"},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.ch.Press(p.ann, m.ID, "yes"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, "message", strings.Join(p.ch.Visible(p.bot.User()), "|"), "yes by ann")
	})
}
