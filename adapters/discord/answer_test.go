package discord_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

var items = []chat.CommandInfo{{Name: "status", Help: "show the state"}, {Name: "new", Help: "begin again"}}

// command lets a person use a command of the menu.
func (w *world) command(t *testing.T, c *sim.Channel, name string, options ...sim.Option) *sim.Interaction {
	t.Helper()
	i, err := c.Command(w.people[0], w.bots[""], name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// answers returns what a person reads as the answer to an interaction.
func answers(i *sim.Interaction) string {
	var out []string
	for _, m := range i.State().Answers {
		if m.Pending {
			m.Text = "(thinking)"
		}
		if m.Ephemeral {
			m.Text = "(only you) " + m.Text
		}
		out = append(out, m.Text)
	}
	return strings.Join(out, " | ")
}

func (w *world) started(t *testing.T) *run {
	t.Helper()
	r := w.start(t)
	if err := r.a.PublishCommands(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACommandOfTheMenuIsAnsweredInPlace(t *testing.T) {
	for _, where := range []string{"direct", "channel"} {
		t.Run(where, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r := w.started(t)
				c := w.closed
				if where == "direct" {
					c = w.people[0].DM(w.bots[""])
				}
				var i *sim.Interaction
				m := r.next(func() { i = w.command(t, c, "new", sim.Option{Name: "text", Value: "my talk"}) })
				if m.Text != "/new my talk" || !m.Addressed || m.Kind != chat.Message || m.IdempotencyKey != i.State().ID || m.Sender.ID != w.people[0].ID {
					t.Errorf("%+v", m)
				}
				pass(time.Second)
				if st := i.State(); st.Callback != sim.CallbackDeferred || answers(i) != "(thinking)" {
					t.Fatalf("%+v %s", st, answers(i))
				}
				if err := r.a.Typing(t.Context(), m.Address); err != nil || c.Typed() != 0 {
					t.Errorf("typing during a command: %v", err)
				}
				if err := r.a.React(t.Context(), m.Address, m.ID, chat.ReactionSeen); err != nil {
					t.Errorf("a mark on a command: %v", err)
				}
				receipt, err := r.a.Send(t.Context(), chat.Outbound{ID: "1", To: m.Address, ReplyTo: m.ID, Text: chat.PlainText("begun")})
				if err != nil || answers(i) != "begun" {
					t.Fatalf("%s, %v", answers(i), err)
				}
				r.sent("2", m.Address, "and more")
				if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("begun!")}); err != nil {
					t.Error(err)
				}
				if got := w.visible(c); got != "begun! | and more" {
					t.Errorf("visible: %q", got)
				}
			})
		})
	}
}

func TestACommandIsAnsweredWhereTheBotMayNotWrite(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.closed.Deny(w.bots[""].ID(), sim.SendMessages|sim.ViewChannel)
		r := w.started(t)
		var i *sim.Interaction
		m := r.next(func() { i = w.command(t, w.closed, "status") })
		receipt := r.sent("1", m.Address, "a beginning")
		if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("all of it")}); err != nil || answers(i) != "all of it" {
			t.Errorf("%s, %v", answers(i), err)
		}
		if _, err := r.send("2", m.Address, "more"); sendError(t, err).Outcome != chat.Permanent {
			t.Error(err)
		}
	})
}

func TestAnAnswerThatGotLostIsGivenAgainInPlace(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.started(t)
		private := w.people[0].DM(w.bots[""])
		var i *sim.Interaction
		m := r.next(func() { i = w.command(t, private, "status") })
		out := chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("fine")}
		w.srv.Inject(sim.Fault{Kind: sim.Cut, Route: sim.RouteEditFollowUp})
		if _, err := r.a.Send(t.Context(), out); sendError(t, err).Outcome != chat.Uncertain {
			t.Fatal(err)
		}
		if _, ok, err := r.a.Find(t.Context(), out); ok || err != nil {
			t.Fatalf("found %v, %v", ok, err)
		}
		w.srv.Inject(sim.Fault{Kind: sim.CutAfter, Route: sim.RouteEditFollowUp})
		if _, err := r.a.Send(t.Context(), out); sendError(t, err).Outcome != chat.Uncertain {
			t.Fatal(err)
		}
		if _, ok, err := r.a.Find(t.Context(), out); !ok || err != nil {
			t.Fatalf("found %v, %v", ok, err)
		}
		if answers(i) != "fine" || w.visible(private) != "fine" {
			t.Errorf("%q, visible %q", answers(i), w.visible(private))
		}
	})
}

func TestWhereTheTokenIsGoneTheAnswerIsAnOrdinaryMessage(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*testing.T, *run, *sim.Interaction) *run
	}{
		{"its time is over", func(_ *testing.T, r *run, _ *sim.Interaction) *run { pass(16 * time.Minute); return r }},
		{"Discord has ended it", func(_ *testing.T, r *run, i *sim.Interaction) *run { i.Expire(); return r }},
		{"a new process", func(t *testing.T, r *run, _ *sim.Interaction) *run { _ = r.end(); return r.w.start(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r := w.started(t)
				private := w.people[0].DM(w.bots[""])
				var i *sim.Interaction
				m := r.next(func() { i = w.command(t, private, "status") })
				pass(time.Second)
				r = c.lose(t, r, i)
				if _, err := r.a.Send(t.Context(), chat.Outbound{ID: "1", To: m.Address, ReplyTo: m.ID, Text: chat.PlainText("fine")}); err != nil {
					t.Fatal(err)
				}
				if got := w.visible(private); !strings.HasSuffix(got, "fine") || len(private.Visible(w.bots[""].User())) != 2 {
					t.Errorf("visible: %q", got)
				}
			})
		})
	}
}

// Nothing is acknowledged that is not on disk, and what comes too late for
// Discord is answered by an ordinary message.
func TestACommandIsAcknowledgedOnlyWhenItIsStored(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.started(t)
		private := w.people[0].DM(w.bots[""])
		r.inbox.Fail(true)
		i := w.command(t, private, "status")
		pass(5 * time.Second)
		if st := i.State(); !st.Acked.IsZero() || !st.Failed {
			t.Fatalf("%+v", st)
		}
		r.inbox.Fail(false)
		r.until("taken", time.Minute, func() bool { return len(r.inbox.Events()) == 1 })
		r.sent("1", r.inbox.Events()[0].Address, "fine")
		if got := w.visible(private); got != "fine" {
			t.Errorf("visible: %q", got)
		}
	})
}

func TestAnInteractionThatDiscordDoesNotKnow(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.started(t)
		private := w.people[0].DM(w.bots[""])
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 404, Code: 10062, Message: "Unknown interaction", Route: sim.RouteCallback})
		m := r.next(func() { w.command(t, private, "status") })
		pass(time.Second)
		r.sent("1", m.Address, "fine")
		if got := w.visible(private); got != "fine" {
			t.Errorf("visible: %q", got)
		}
	})
}

func TestButtons(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		private := w.people[0].DM(w.bots[""])
		hello := r.next(func() { private.Say(w.people[0], "x") })
		receipt, err := r.a.Send(t.Context(), chat.Outbound{ID: "1", To: hello.Address, Text: chat.PlainText("sure?"), Buttons: [][]chat.Button{{{Label: "Yes", Data: "ok:1"}}}})
		if err != nil {
			t.Fatal(err)
		}
		var i *sim.Interaction
		m := r.next(func() {
			if i, err = private.Press(w.people[0], receipt.ID, "ok:1"); err != nil {
				t.Fatal(err)
			}
		})
		if m.Kind != chat.Callback || m.Text != "ok:1" || m.ID != receipt.ID || m.Address != hello.Address || m.IdempotencyKey != i.State().ID {
			t.Errorf("%+v", m)
		}
		pass(time.Second)
		if st := i.State(); st.Callback != sim.CallbackDeferredUpdate || st.Failed {
			t.Errorf("%+v", st)
		}
		if err := r.a.AnswerCallback(t.Context(), m, ""); err != nil || answers(i) != "sure?" {
			t.Errorf("%s, %v", answers(i), err)
		}
		if err := r.a.AnswerCallback(t.Context(), m, "This button does nothing."); err != nil || answers(i) != "sure? | (only you) This button does nothing." {
			t.Errorf("%s, %v", answers(i), err)
		}
		i.Expire()
		if err := r.a.AnswerCallback(t.Context(), m, "late"); err != nil {
			t.Errorf("a press that is too old: %v", err)
		}
		pass(20 * time.Minute)
		if err := r.a.AnswerCallback(t.Context(), m, "later"); err != nil {
			t.Errorf("a press that is forgotten: %v", err)
		}
	})
}

func TestTheMenuIsWrittenOnlyWhereItDiffers(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		set := func(items []chat.CommandInfo) int {
			t.Helper()
			before := len(w.srv.Recorder().Calls(sim.RouteSetCommands))
			if err := r.a.PublishCommands(t.Context(), items); err != nil {
				t.Fatal(err)
			}
			return len(w.srv.Recorder().Calls(sim.RouteSetCommands)) - before
		}
		if set(items) != 1 || set(items) != 0 || set([]chat.CommandInfo{items[1], items[0]}) != 0 {
			t.Error("the same menu is written again, or the first one was not")
		}
		_ = r.end()
		r = w.start(t)
		if set(items) != 0 {
			t.Error("a new process writes what is there")
		}
		changed := []chat.CommandInfo{items[0], {Name: "new", Help: "start afresh"}}
		if set(changed) != 1 || set(changed) != 0 || set(items[:1]) != 1 {
			t.Error("a change is not written, or a menu that did not change is")
		}
		if got := w.bots[""].Commands(""); len(got) != 1 || got[0].Name != "status" {
			t.Errorf("%+v", got)
		}
	})
}

func TestTheMenuOfAnAccountThatIsNotConnected(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		a := w.adapter(w.config(""), "")
		odd := []chat.CommandInfo{{Name: "/Status", Help: strings.Repeat("é", 200)}, {Name: "status"}, {Name: "a b"}, {Name: ""}, {Name: "no-help"}}
		if err := a.PublishCommands(t.Context(), odd); err != nil {
			t.Fatal(err)
		}
		if got := w.bots[""].Commands(""); len(got) != 2 || got[0].Name != "no-help" || got[1].Name != "status" {
			t.Errorf("%+v", got)
		}
		var ce *chat.ConfigError
		if err := w.Wrong().(chat.CommandPublisher).PublishCommands(t.Context(), items); !errors.As(err, &ce) {
			t.Errorf("with a bad token: %v", err)
		}
	})
}
