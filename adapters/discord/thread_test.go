package discord_test

import (
	"strings"
	"testing"
	"time"

	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	sim "hermesd/internal/sim/discord"
)

// onlyThread returns the one thread of the channel with mentions only.
func (w *world) onlyThread(t *testing.T) *sim.Channel {
	t.Helper()
	all := w.closed.Threads()
	if len(all) != 1 {
		t.Fatalf("%d threads", len(all))
	}
	return all[0]
}

func TestAMentionOpensAThreadOnlyWhenItIsAnswered(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.mention("  what is\nthis?")
		if m.Address.Kind != chat.Thread || m.Address.Thread != m.ID || m.Address.Chat != w.closed.ID() || m.Address.Scope != w.guild.ID() {
			t.Fatalf("from %+v", m.Address)
		}
		if n := len(w.closed.Threads()); n != 0 {
			t.Fatalf("%d threads before the answer", n)
		}
		receipt, err := r.a.Send(t.Context(), chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("this"), ReplyTo: m.ID})
		if err != nil {
			t.Fatal(err)
		}
		th := w.onlyThread(t)
		if th.ID() != m.ID || th.Name() != "what is" || w.visible(th) != " | this" && w.visible(th) != "this" {
			t.Errorf("thread %s %q: %q", th.ID(), th.Name(), w.visible(th))
		}
		again := r.next(func() { th.Say(w.people[1], "go on") })
		if again.Address != m.Address || !again.Addressed {
			t.Errorf("what is said in the thread is from %+v, addressed %v", again.Address, again.Addressed)
		}
		if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("that")}); err != nil {
			t.Error(err)
		}
		if err := r.a.React(t.Context(), m.Address, m.ID, chat.ReactionSeen); err != nil {
			t.Error(err)
		}
		if opener, _ := w.closed.Message(m.ID); len(opener.Reactions) != 1 {
			t.Errorf("the message that opened the thread has the marks %v", opener.Reactions)
		}
		if err := r.a.Delete(t.Context(), m.Address, receipt.ID); err != nil {
			t.Error(err)
		}
		if w.visible(w.closed) != "" {
			t.Errorf("in the channel: %q", w.visible(w.closed))
		}
	})
}

func TestTypingOpensTheThread(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.mention("x")
		for range 2 {
			if err := r.a.Typing(t.Context(), m.Address); err != nil {
				t.Fatal(err)
			}
		}
		if th := w.onlyThread(t); th.Typed() != 2 {
			t.Errorf("typed %d times", th.Typed())
		}
	})
}

func TestAThreadThatIsThereAlreadyIsASuccess(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.mention("x")
		if _, err := w.closed.Thread(w.people[0], "by hand", m.ID); err != nil {
			t.Fatal(err)
		}
		r.sent("1", m.Address, "answer")
		if got := w.visible(w.onlyThread(t)); !strings.Contains(got, "answer") {
			t.Errorf("in the thread: %q", got)
		}
	})
}

// A thread that cannot be opened for the moment costs no answer.
func TestAnAnswerWaitsUntilItsThreadCanBeOpened(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   sim.Fault
		restart bool
		after   time.Duration
	}{
		{name: "rate", fault: sim.Fault{Kind: sim.Fail, Route: sim.RouteThreadFrom, RetryAfter: 7 * time.Second}, after: 7 * time.Second},
		{name: "internal error", fault: sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteThreadFrom}},
		{name: "no answer", fault: sim.Fault{Kind: sim.HangAfter, Route: sim.RouteThreadFrom}},
		{name: "cut", fault: sim.Fault{Kind: sim.Cut, Route: sim.RouteThreadFrom}},
		{name: "rate, after a restart", fault: sim.Fault{Kind: sim.Fail, Route: sim.RouteThreadFrom, RetryAfter: 7 * time.Second}, after: 7 * time.Second, restart: true},
		{name: "its first message cannot be read", fault: sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessage}, restart: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r := w.start(t)
				m := r.mention("x")
				if c.restart {
					_ = r.end()
					r = w.start(t)
				}
				w.srv.Inject(c.fault)
				_, err := r.send("1", m.Address, "answer")
				if se := sendError(t, err); se.Outcome != chat.Transient || se.RetryAfter != c.after {
					t.Errorf("%+v", se)
				}
				pass(10 * time.Second)
				r.sent("1", m.Address, "answer")
				if got := w.visible(w.onlyThread(t)); !strings.HasSuffix(got, "answer") || strings.Count(got, "answer") != 1 {
					t.Errorf("in the thread: %q", got)
				}
			})
		})
	}
}

func TestARestartedProcessOpensTheThread(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.mention("the question")
		_ = r.end()
		r = w.start(t)
		r.sent("1", m.Address, "answer")
		if th := w.onlyThread(t); th.Name() != "the question" || !strings.Contains(w.visible(th), "answer") {
			t.Errorf("thread %q: %q", th.Name(), w.visible(th))
		}
	})
}

func TestWhereNoThreadCanBeOpenedTheAnswerStandsInTheChannel(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.closed.Deny(w.bots[""].ID(), sim.CreateThreads)
		r := w.start(t)
		one, two := r.mention("one"), r.mention("two")
		receipt := r.sent("1", one.Address, "answer one")
		r.sent("2", two.Address, "answer two")
		r.sent("3", one.Address, "more of one")
		all := w.closed.Visible(w.bots[""].User())
		if len(all) != 4 || !strings.Contains(all[0], "Create Public Threads") || all[1] != "answer one" || all[2] != "answer two" || all[3] != "more of one" {
			t.Fatalf("in the channel: %q", all)
		}
		if m, _ := w.closed.Message(receipt.ID); m.ReplyTo != one.ID {
			t.Errorf("the answer quotes %q, not %q", m.ReplyTo, one.ID)
		}
		_ = r.end() // and a new process finds its own messages
		r = w.start(t)
		if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: one.Address, Text: chat.PlainText("changed")}); err != nil {
			t.Error(err)
		}
		if _, ok, err := r.a.Find(t.Context(), chat.Outbound{ID: "3", To: one.Address, Text: chat.PlainText("more of one")}); !ok || err != nil {
			t.Errorf("found %v, %v", ok, err)
		}
	})
}

// What was said in a thread is not for the channel around it.
func TestAThreadThatIsGoneIsNotAnsweredInTheChannel(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		th, err := w.closed.Thread(w.people[0], "confidential", "")
		if err != nil {
			t.Fatal(err)
		}
		m := r.next(func() { th.Say(w.people[0], w.bots[""].User().Mention()+" secret?") })
		th.Remove()
		pass(time.Second)
		_, err = r.send("1", m.Address, "secret")
		if se := sendError(t, err); se.Outcome != chat.Permanent || !strings.Contains(se.Reason, "no longer exists") {
			t.Errorf("%+v", se)
		}
		if got := w.visible(w.closed); got != "" {
			t.Errorf("in the channel: %q", got)
		}
	})
}

func TestAnArchivedThreadIsOpenedAgain(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.mention("x")
		receipt := r.sent("1", m.Address, "one")
		th := w.onlyThread(t)
		th.Archive(false)
		r.sent("2", m.Address, "two")
		th.Archive(false)
		if err := r.a.Edit(t.Context(), receipt.ID, chat.Outbound{ID: "1", To: m.Address, Text: chat.PlainText("one, changed")}); err != nil {
			t.Error(err)
		}
		if got := w.visible(th); !strings.HasSuffix(got, "one, changed | two") {
			t.Errorf("in the thread: %q", got)
		}
		th.Archive(true)
		_, err := r.send("3", m.Address, "three")
		if se := sendError(t, err); se.Outcome != chat.Permanent || !strings.Contains(se.Reason, "Manage Threads") {
			t.Errorf("%+v", se)
		}
	})
}

func TestADeletedChannelIsSaidSo(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		m := r.next(func() { w.open[0].Say(w.people[0], "x") })
		w.open[0].Remove()
		pass(time.Second)
		_, err := r.send("1", m.Address, "answer")
		if se := sendError(t, err); se.Outcome != chat.Permanent || !strings.Contains(se.Reason, "no longer exists") {
			t.Errorf("%+v", se)
		}
	})
}

func TestPostsOfAForumAreThreads(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t, func(c *discord.Config) { c.FreeResponseChats = []string{w.forum.ID()} })
		var th *sim.Channel
		m := r.next(func() { th = w.forum.ForumPost(w.people[0], "news", "what is new?") })
		if m.Address.Kind != chat.Thread || m.Address.Chat != w.forum.ID() || m.Address.Thread != th.ID() || m.Topic != "news" {
			t.Fatalf("%+v", m)
		}
		r.sent("1", m.Address, "nothing")
		if got := w.visible(th); got != "nothing" {
			t.Errorf("in the post: %q", got)
		}
	})
}

func TestTheAdapterSpeaksTheLanguageOfThePeople(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		var err error
		if w.words, err = i18n.For("de"); err != nil {
			t.Fatal(err)
		}
		w.closed.Deny(w.bots[""].ID(), sim.CreateThreads)
		r := w.start(t)
		r.sent("1", r.mention("eins").Address, "Antwort")
		all := w.closed.Visible(w.bots[""].User())
		if want := "(Ich antworte hier, weil ich keinen Thread öffnen kann: der Bot braucht hier die Berechtigung Öffentliche Threads erstellen.)"; len(all) != 2 || all[0] != want {
			t.Errorf("in the channel: %q, want %q first", all, want)
		}
		if err := r.a.PublishCommands(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		if calls := w.srv.Recorder().Calls(sim.RouteSetCommands); len(calls) != 1 || !strings.Contains(calls[0].Body, `"was auf den Befehl folgt"`) {
			t.Errorf("the menu is written with %+v", calls)
		}
	})
}
