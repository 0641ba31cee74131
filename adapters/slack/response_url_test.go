package slack_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

// Where the bot is no member, only the person who gave a slash command sees what is sent
// to its response URL. Nobody gets the answer to another person's command.
func TestAnswerGoesToPersonWhoGaveCommand(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann, bob := adaptertest.NewInbox(t), w.people[0], w.people[1]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		private := w.team.AddChannel(sim.ChannelOptions{Private: true, Members: w.people})
		private.Slash(w.bots[""], ann, "/hermes", "status")
		private.Slash(w.bots[""], bob, "/hermes", "status")
		pass(time.Second)
		commands := inbox.Events()
		send := func(id, words, replyTo string) error {
			m := text(id, commands[0].Address, words)
			m.ReplyTo = replyTo
			_, err := a.Send(t.Context(), m)
			return err
		}
		for _, in := range commands {
			if err := send("o"+in.ID, "for "+in.Sender.ID, in.ID); err != nil {
				t.Error(err)
			}
		}
		if err := send("o3", "for whom?", ""); err == nil {
			t.Error("a message for nobody of two people was sent")
		}
		a.Dismiss(commands[1]) // a rule ignores the command of bob
		if err := send("o4", "for "+bob.ID(), commands[1].ID); err == nil {
			t.Error("the answer to a dismissed command was sent")
		}
		if err := send("o5", "more for "+ann.ID(), ""); err != nil {
			t.Error(err)
		}
		var got [][2]string
		for _, e := range private.Ephemeral() {
			got = append(got, [2]string{e.To, e.Text})
		}
		want := [][2]string{{ann.ID(), "for " + ann.ID()}, {bob.ID(), "for " + bob.ID()}, {ann.ID(), "more for " + ann.ID()}}
		if d := cmp.Diff(want, got); d != "" {
			t.Error("shown to (-want +got):\n" + d)
		}
	})
}

// What was sent to a response URL can be neither changed nor deleted. Its deletion must
// not count as done: the answer that follows a preview is then marked as a repeat.
func TestMessageToResponseURLStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		private := w.team.AddChannel(sim.ChannelOptions{Private: true, Members: w.people})
		private.Slash(w.bots[""], ann, "/hermes", "status")
		pass(time.Second)
		m := text("o1", inbox.Events()[0].Address, "It")
		r, err := a.Send(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		m.Text = chat.PlainText("It runs.")
		if err := a.Edit(t.Context(), r.ID, m); !errors.Is(err, chat.ErrGone) {
			t.Errorf("edit: %v", err)
		}
		if err := a.Delete(t.Context(), m.To, r.ID); err == nil || errors.Is(err, chat.ErrGone) {
			t.Errorf("delete: %v", err)
		}
	})
}
