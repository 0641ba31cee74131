package slack_test

import (
	"context"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

// A dismissingSink answers only one person.
type dismissingSink struct {
	*adaptertest.Inbox
	a      *slack.Adapter
	person string
}

func (s dismissingSink) Accept(ctx context.Context, batch []chat.Inbound) error {
	err := s.Inbox.Accept(ctx, batch)
	for _, in := range batch {
		if err == nil && in.Sender.ID != s.person {
			s.a.Dismiss(in)
		}
	}
	return err
}

// A stranger who mentions the bot in a thread does not make it take part there.
func TestAStrangerDoesNotBringTheBotIntoAThread(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann, bob := adaptertest.NewInbox(t), w.people[0], w.people[1]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, dismissingSink{inbox, a, ann.ID()})
		mention := "<@" + w.bots[""].User().ID() + "> hello"
		root := w.closed.Say(ann, "plans").TS
		newest := func() chat.Inbound {
			pass(5 * time.Second)
			all := inbox.Events()
			return all[len(all)-1]
		}
		w.closed.Post(sim.Post{From: bob, Text: mention, Thread: root})
		pass(5 * time.Second)
		w.closed.Post(sim.Post{From: ann, Text: "between us", Thread: root})
		if m := newest(); m.Text != "between us" || m.IgnoreRule != "not_addressed" {
			t.Errorf("after the stranger: %+v", m)
		}
		w.closed.Post(sim.Post{From: ann, Text: mention, Thread: root})
		pass(5 * time.Second)
		w.closed.Post(sim.Post{From: ann, Text: "more", Thread: root})
		if m := newest(); m.Text != "more" || m.IgnoreRule != "" || !m.Addressed {
			t.Errorf("after ann: %+v", m)
		}
	})
}
