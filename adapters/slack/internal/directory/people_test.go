package directory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	slackgo "github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/directory"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

func TestNamesAreAskedOnceAndOutlastTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := sim.New(sim.Options{})
		defer srv.Close()
		team := srv.AddTeam("Acme")
		bot := srv.AddApp(sim.AppOptions{}).Install(team)
		ann, bob := team.AddUser(sim.Person{Name: "ann"}), team.AddUser(sim.Person{Name: "bob"})
		group := team.GroupDM(ann, bot.User())
		room := team.AddChannel(sim.ChannelOptions{Name: "general", Members: []*sim.User{ann, bot.User()}})
		client := srv.Client()
		defer client.CloseIdleConnections()
		b := directory.New(slackgo.New(bot.Token(), slackgo.OptionAPIURL(srv.APIURL()), slackgo.OptionHTTPClient(client)), zap.NewNop())
		calls := func() int { return len(srv.Recorder().Calls("users.info", "conversations.info")) }

		for range 3 {
			b.Load(t.Context(), inbound.Subject{User: ann.ID(), Channel: room.ID(), Kind: "channel"})
			b.Load(t.Context(), inbound.Subject{Channel: group.ID()})
			b.Load(t.Context(), inbound.Subject{Channel: "D1", Kind: "im"})
		}
		if _, handle := b.Name(ann.ID()); handle != "ann" || calls() != 3 {
			t.Errorf("%q after %d calls", handle, calls())
		}
		if r := b.Room(room.ID()); r.Name != "general" || r.Kind != chat.Channel {
			t.Errorf("%+v", r)
		}
		if r := b.Room(group.ID()); r.Kind != chat.Group {
			t.Errorf("%+v", r)
		}

		srv.Inject(sim.Fault{Kind: sim.Hang, Method: "users.info", Times: -1})
		<-time.After(7 * time.Hour) // names are asked again
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		for range 10 {
			b.Load(ctx, inbound.Subject{User: ann.ID()})
			b.Load(ctx, inbound.Subject{User: bob.ID()})
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it waited for %v", took)
		}
		if _, handle := b.Name(ann.ID()); handle != "ann" {
			t.Errorf("a name is forgotten because Slack does not answer: %q", handle)
		}
		if _, handle := b.Name(bob.ID()); handle != "" {
			t.Errorf("%q", handle)
		}
		srv.ClearFaults()
		<-time.After(2 * time.Minute)
		b.Load(t.Context(), inbound.Subject{User: bob.ID()})
		if _, handle := b.Name(bob.ID()); handle != "bob" {
			t.Errorf("%q is never asked again", handle)
		}
	})
}
