package slack_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

// TestOverTheNetwork is the one test with connections of the adapter's own, and
// so with the real clock.
func TestOverTheNetwork(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	t.Setenv("https_proxy", "")
	w := newWorld(t, sim.Options{PingEvery: 100 * time.Millisecond}, sim.AppOptions{})
	if _, err := w.srv.Start(); err != nil {
		t.Fatal(err)
	}
	a, err := slack.New(w.config(""), slack.Options{Memory: w.memory})
	if err != nil {
		t.Fatal(err)
	}
	inbox := adaptertest.NewInbox(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, inbox) }() // awaited below
	acked := func(n int) {
		t.Helper()
		err := w.srv.Recorder().WaitCount(ctx, n, func(c sim.Counts) int { return c.Acked })
		if err != nil {
			t.Fatalf("%d of %d events are acknowledged; %+v", w.srv.Recorder().Counts().Acked, n, a.Health())
		}
	}
	dm := w.people[0].DM(w.bots[""])
	dm.Say(w.people[0], "one")
	acked(1)
	w.bots[""].App().Disconnect(sim.Refresh)
	if err := w.srv.Recorder().WaitCount(ctx, 2, func(c sim.Counts) int { return c.Links }); err != nil {
		t.Fatal("there is no second socket")
	}
	dm.Say(w.people[0], "two")
	acked(2)
	at := chat.Address{Platform: chat.Slack, Kind: chat.DM, Scope: w.team.ID(), Chat: dm.ID()}
	if _, err := a.Send(ctx, chat.Outbound{ID: "o1", To: at, Text: chat.PlainText("hello")}); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(inbox.Texts(at), visible(dm)); got != "[one two] [hello]" {
		t.Errorf("got %s", got)
	}
	if h := a.Health(); h.State != chat.Connected || h.Error != "" || h.LastContact.IsZero() {
		t.Errorf("%+v", h)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
