package slack_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slack-go/slack/socketmode"

	"hermesd/internal/sim/slack"
)

// TestDownAndUp checks that sockets and calls are cut and that the state is
// kept.
func TestDownAndUp(t *testing.T) {
	bubble(t, slack.Options{Latency: 2 * time.Second}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		waiting := make(chan error)
		go func() { // received below
			_, err := p.try(t.Context(), p.bot.Token(), "chat.postMessage", "channel", p.dm.ID(), "text", "x")
			waiting <- err
		}()
		synctest.Wait()
		p.Down()
		if err := <-waiting; err == nil {
			t.Error("answered")
		}
		if _, open := <-k.in; open {
			t.Error("the socket goes on")
		}
		if _, err := p.try(t.Context(), p.bot.Token(), "auth.test"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("down: %v", err)
		}
		synctest.Wait()
		if n := len(p.dm.FromBots()); n != 0 {
			t.Errorf("%d messages", n)
		}
		p.dm.Say(p.ann, "said while down")
		if err := p.Up(); err != nil {
			t.Fatal(err)
		}
		k = p.open(t)
		if f := k.next(); f.Attempt == 0 {
			t.Errorf("frame: %s", f.Raw)
		}
	})
}

func TestUpAtTheSameAddress(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	address, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	p.Down()
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	p.web = p.clientOf(t)
	if mustOK(t, p.call(t, "auth.test")); p.URL() != address {
		t.Errorf("up at %s, was %s", p.URL(), address)
	}
}

// TestLibrarySurvives checks that slack-go loses nothing through cuts,
// disconnects, black holes and bad frames, because events without an
// acknowledgement are sent again.
func TestLibrarySurvives(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		ctx, stop := context.WithCancel(within(t, time.Hour))
		wait := echo(ctx, t, p.library(p.web), socketmode.OptionDialer(p.Dialer()))
		defer wait()
		defer stop()
		trouble := []func(){
			func() {}, func() { p.app.Cut() }, func() { p.app.Disconnect(slack.Warning) }, func() { p.app.Swallow() },
			func() { p.app.SendRaw("{") }, func() { p.app.Spoil(slack.Garble, 1, nil) }, func() { p.app.Spoil(slack.CutLink, 1, nil) },
		}
		for n, happens := range trouble {
			happens()
			p.room.Say(p.ann, "hello "+slack.Token(n))
			if _, err := p.room.WaitText(ctx, slack.Token(n)); err != nil {
				t.Fatalf("trouble %d: %v", n, err)
			}
		}
		<-time.After(10 * time.Minute)
		v, c := slack.Judge{Unordered: true}.Judge(p.Server), p.Recorder().Counts()
		if len(v.Lost)+len(v.Stray) > 0 || c.Lost > 0 || c.MostOpen > 2 {
			t.Errorf("%v; %+v", v, c)
		}
	})
}
