package discord_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

// A run is an adapter that runs in a world.
type run struct {
	t     *testing.T
	w     *world
	a     *discord.Adapter
	inbox *adaptertest.Inbox
	stop  context.CancelFunc
	ended chan error
}

// in runs test in a bubble with a world.
func in(t *testing.T, o sim.Options, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, o)) })
}

// launch runs an adapter into an inbox, without waiting for anything.
func (w *world) launch(t *testing.T, c discord.Config, inbox *adaptertest.Inbox) *run {
	t.Helper()
	r := &run{t: t, w: w, a: w.adapter(c, ""), inbox: inbox}
	r.runs()
	return r
}

// runs begins Run; the end of the test ends it.
func (r *run) runs() {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop, r.ended = stop, make(chan error, 1)
	go func() { r.ended <- r.a.Run(ctx, r.inbox) }() // end waits for it
	r.t.Cleanup(func() { _ = r.end() })
}

// start runs an adapter until it is connected.
func (w *world) start(t *testing.T, change ...func(*discord.Config)) *run {
	t.Helper()
	c := w.config("")
	for _, f := range change {
		f(&c)
	}
	r := w.launch(t, c, adaptertest.NewInbox(t))
	r.until("connected", time.Minute, func() bool { return r.a.Health().State == chat.Connected })
	return r
}

// end stops the adapter and returns what Run did.
func (r *run) end() error {
	r.stop()
	err := <-r.ended
	r.ended <- err
	return err
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// until lets time pass until ok, at most for d.
func (r *run) until(what string, d time.Duration, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(d); ; pass(100 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("after %v: not %s; %+v", d, what, r.a.Health())
		}
	}
}

// next returns the first event that is for the agent and comes of what somebody
// does.
func (r *run) next(say func()) chat.Inbound {
	r.t.Helper()
	n := len(r.inbox.Events())
	say()
	var got *chat.Inbound
	r.until("an event", 10*time.Second, func() bool {
		for _, in := range r.inbox.Events()[n:] {
			if in.IgnoreRule == "" && got == nil {
				got = &in
			}
		}
		return got != nil
	})
	return *got
}

func (r *run) send(id string, to chat.Address, text string) (chat.Receipt, error) {
	return r.a.Send(r.t.Context(), chat.Outbound{ID: id, To: to, Text: chat.PlainText(text)})
}

// sent sends what has to arrive.
func (r *run) sent(id string, to chat.Address, text string) chat.Receipt {
	r.t.Helper()
	receipt, err := r.send(id, to, text)
	if err != nil {
		r.t.Fatal(err)
	}
	return receipt
}

// visible returns what the bot says in a channel.
func (w *world) visible(c *sim.Channel) string {
	return strings.Join(c.Visible(w.bots[""].User()), " | ")
}

// mention lets a person open a conversation in the channel with mentions only.
func (r *run) mention(text string) chat.Inbound {
	r.t.Helper()
	return r.next(func() { r.w.closed.Say(r.w.people[0], r.w.bots[""].User().Mention()+" "+text) })
}

// sendError returns the SendError in err.
func sendError(t *testing.T, err error) *chat.SendError {
	t.Helper()
	var se *chat.SendError
	if !errors.As(err, &se) {
		t.Fatalf("%v is no SendError", err)
	}
	return se
}
