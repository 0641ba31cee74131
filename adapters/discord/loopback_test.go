package discord_test

import (
	"context"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/discord"
)

// With nothing given but an address it all goes over the network.
func TestOverTheNetwork(t *testing.T) {
	srv := sim.New(sim.Options{})
	defer srv.Close()
	url, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	bot, ann := srv.AddBot(sim.BotOptions{}), srv.AddUser("ann")
	srv.AddGuild("G", ann).Join(bot.User(), ann)
	private := ann.DM(bot)
	a, err := discord.New(discord.Config{Token: secret.Value(bot.Token()), BaseURL: url, AutoThread: true}, discord.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	inbox := adaptertest.NewInbox(t)
	taken := make(chan chat.Inbound, 1)
	go func() {
		ended <- a.Run(ctx, sink(func(batch []chat.Inbound) error { taken <- batch[0]; return inbox.Accept(ctx, batch) }))
	}()
	if err := srv.Recorder().WaitCount(ctx, 1, func(c sim.Counts) int { return c.Heartbeats }); err != nil {
		t.Fatal(err)
	}
	private.Say(ann, "hello")
	select {
	case in := <-taken:
		if _, err := a.Send(ctx, chat.Outbound{ID: "1", To: in.Address, Text: chat.PlainText("hello, ann")}); err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("nothing arrives")
	}
	if got := private.Visible(bot.User()); len(got) != 1 || got[0] != "hello, ann" {
		t.Errorf("visible: %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A sink is a chat.Sink that is a function.
type sink func([]chat.Inbound) error

func (s sink) Accept(_ context.Context, batch []chat.Inbound) error { return s(batch) }
