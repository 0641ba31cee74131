package discord_test

import (
	"context"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

// startFor runs an adapter whose sink answers only one person.
func (w *world) startFor(t *testing.T, person string) *run {
	t.Helper()
	r := &run{t: t, w: w, a: w.adapter(w.config(""), ""), inbox: adaptertest.NewInbox(t), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { // end waits for it
		r.ended <- r.a.Run(ctx, sink(func(batch []chat.Inbound) error {
			for _, in := range batch {
				if in.Sender.ID != person {
					r.a.Dismiss(in)
				}
			}
			return r.inbox.Accept(ctx, batch)
		}))
	}()
	t.Cleanup(func() { _ = r.end() })
	r.until("connected", time.Minute, func() bool { return r.a.Health().State == chat.Connected })
	if err := r.a.PublishCommands(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return r
}

// A stranger sees at once that nobody answers, and what is said to somebody else
// does not become the answer to the stranger.
func TestACommandThatGetsNoAnswerIsNotLeftPending(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.startFor(t, w.people[0].ID)
		theirs, err := w.closed.Command(w.people[1], w.bots[""], "status")
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		if st := theirs.State(); len(r.inbox.Events()) != 1 || !st.Failed || answers(theirs) != "" {
			t.Errorf("%+v %q", st, answers(theirs))
		}
		var i *sim.Interaction
		m := r.next(func() { i = w.command(t, w.closed, "new") })
		pass(time.Second)
		r.sent("1", m.Address, "begun")
		if answers(theirs) != "" || answers(i) != "begun" {
			t.Errorf("the stranger sees %q, the other %q", answers(theirs), answers(i))
		}
		r.a.Dismiss(chat.Inbound{IdempotencyKey: "what nobody knows"})
	})
}

// The gateway may answer a press before Accept has returned, and Discord shows nothing for one
// of which it was not told yet that it was taken.
func TestAPressIsAnsweredOnceDiscordKnowsOfIt(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		private := w.people[0].DM(w.bots[""])
		hello := r.next(func() { private.Say(w.people[0], "x") })
		sure, err := r.a.Send(t.Context(), chat.Outbound{ID: "1", To: hello.Address, Text: chat.PlainText("sure?"), Buttons: [][]chat.Button{{{Label: "Yes", Data: "ok:1"}}}})
		if err != nil {
			t.Fatal(err)
		}
		w.srv.Inject(sim.Fault{Kind: sim.Pass, Delay: time.Second, Route: sim.RouteCallback})
		var i *sim.Interaction
		m := r.next(func() {
			if i, err = private.Press(w.people[0], sure.ID, "ok:1"); err != nil {
				t.Fatal(err)
			}
		})
		if err := r.a.AnswerCallback(t.Context(), m, "This button does nothing."); err != nil || answers(i) != "sure? | (only you) This button does nothing." {
			t.Errorf("%s, %v", answers(i), err)
		}
	})
}

// A stranger who mentions the bot in a thread does not make it take part there.
func TestAStrangerDoesNotBringTheBotIntoAThread(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		ann, bob := w.people[0], w.people[1]
		r := w.startFor(t, ann.ID)
		th, err := w.closed.Thread(bob, "plans", "")
		if err != nil {
			t.Fatal(err)
		}
		said := func(from *sim.User, text string) (m chat.Inbound) {
			t.Helper()
			id := th.Say(from, text).ID
			pass(5 * time.Second)
			for _, in := range r.inbox.Events() {
				if in.ID == id {
					m = in
				}
			}
			return m
		}
		mention := "<@" + w.bots[""].User().ID + "> "
		said(bob, mention+"hello")
		if m := said(ann, "between us"); m.IgnoreRule != "not_addressed" {
			t.Errorf("after the stranger: %+v", m)
		}
		said(ann, mention+"hello")
		if m := said(ann, "more"); m.IgnoreRule != "" || !m.Addressed {
			t.Errorf("after ann: %+v", m)
		}
	})
}
