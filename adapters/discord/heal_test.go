package discord_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/discord"
)

// numbered returns n texts.
func numbered(what string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s %d", what, i)
	}
	return out
}

func TestALongGapIsReadPageByPage(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		inbox := adaptertest.NewInbox(t)
		room := w.Direct("", 0)
		r := w.launch(t, w.config(""), inbox)
		pass(time.Second)
		room.Say("before")
		pass(2 * time.Second)
		_ = r.end()
		for _, text := range numbered("missed", 250) {
			room.Say(text)
		}
		r = w.launch(t, w.config(""), inbox)
		pass(time.Second)
		room.Say("after")
		want := append(append([]string{"before"}, numbered("missed", 250)...), "after")
		r.until("taken in", time.Minute, func() bool { return len(inbox.Texts(room.At())) >= len(want) })
		if got := inbox.Texts(room.At()); !slices.Equal(got, want) {
			t.Errorf("%d texts: %.200q", len(got), got)
		}
		if n := len(w.srv.Recorder().Calls(sim.RouteMessages)); n > 5 {
			t.Errorf("%d calls for history", n)
		}
	})
}

// New messages wait for the history before them, however slow that is to come;
// after minutes they go on without it, and it comes behind them.
func TestNewMessagesWaitForTheHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		down time.Duration
		want string
	}{
		{"a moment", 10 * time.Second, "before missed after"},
		{"long", 10 * time.Minute, "before after missed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r, room, other := w.start(t), w.Direct("", 0), w.Direct("", 1)
				room.Say("before")
				pass(time.Second)
				f := w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessages, Times: -1})
				w.srv.Invalidate(false)
				room.Say("missed")
				r.until("a new session", time.Minute, func() bool { return w.identifies() == 2 && r.a.Health().State == chat.Connected })
				room.Say("after")
				other.Say("another room")
				pass(time.Second)
				if len(r.inbox.Texts(other.At())) != 1 {
					t.Error("another room waits too")
				}
				pass(c.down)
				f.Remove()
				r.until("taken in", 2*time.Minute, func() bool { return len(r.inbox.Texts(room.At())) == 3 })
				if got := strings.Join(r.inbox.Texts(room.At()), " "); got != c.want {
					t.Errorf("%s", got)
				}
			})
		})
	}
}

// While a gap is not filled its mark stays: a process that ends then finds the
// gap again.
func TestAGapOutlivesTheProcess(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		inbox, room := adaptertest.NewInbox(t), w.Direct("", 0)
		r := w.launch(t, w.config(""), inbox)
		pass(time.Second)
		room.Say("before")
		pass(time.Second)
		f := w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessages, Times: -1})
		w.srv.Invalidate(false)
		room.Say("missed")
		pass(10 * time.Minute)
		room.Say("after")
		pass(2 * time.Minute)
		if len(inbox.Texts(room.At())) != 2 {
			t.Fatal("what is new still waits")
		}
		_ = r.end()
		f.Remove()
		r = w.launch(t, w.config(""), inbox)
		r.until("taken in", time.Minute, func() bool { return len(inbox.Texts(room.At())) == 3 })
	})
}

func TestThreadsAndRolesComeFromTheHistoryToo(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		role := w.guild.AddRole("staff", 0)
		w.guild.Give(w.people[1], role)
		r := w.start(t)
		m := r.mention("question")
		r.sent("1", m.Address, "answer")
		pass(2 * time.Second)
		_ = r.end()
		th := w.onlyThread(t)
		th.Say(w.people[1], "go on")
		w.closed.Say(w.people[0], "not for you")
		opener := w.closed.Say(w.people[1], w.bots[""].User().Mention()+" another question")
		pass(time.Hour)
		r = w.start(t)
		r.until("taken in", time.Minute, func() bool {
			return len(r.inbox.Texts(m.Address)) == 1 && len(r.inbox.Events()) >= 3
		})
		got := map[string]chat.Inbound{}
		for _, in := range r.inbox.Events() {
			got[in.Text] = in
		}
		if in := got["go on"]; !in.Addressed || in.Address != m.Address || !slices.Equal(in.Sender.Roles, []string{role.ID}) {
			t.Errorf("in the thread: %+v", in)
		}
		if in := got["another question"]; in.Address.Thread != opener.ID || !slices.Contains(in.Sender.Roles, role.ID) {
			t.Errorf("a new mention: %+v", in)
		}
		if in := got["not for you"]; in.IgnoreRule == "" {
			t.Errorf("what is for nobody: %+v", in)
		}
	})
}

func TestOnlyWhatHasConversationsIsAskedFor(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		r.next(func() { w.open[0].Say(w.people[0], "x") })
		w.closed.Say(w.people[0], "not for the bot")
		pass(2 * time.Second)
		_ = r.end()
		before := len(w.srv.Recorder().Calls(sim.RouteMessages))
		r = w.start(t)
		pass(10 * time.Second)
		if n := len(w.srv.Recorder().Calls(sim.RouteMessages)) - before; n != 0 {
			t.Errorf("%d calls although nothing was said", n)
		}
		_ = r.end()
		w.open[0].Say(w.people[0], "y")
		w.closed.Say(w.people[0], "not for the bot either")
		w.start(t)
		pass(10 * time.Second)
		if n := len(w.srv.Recorder().Calls(sim.RouteMessages)) - before; n != 1 {
			t.Errorf("%d calls for one channel", n)
		}
	})
}

func TestAHistoryThatMayNotBeReadIsLeftAlone(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		r.next(func() { w.open[0].Say(w.people[0], "x") })
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 403, Code: 50001, Route: sim.RouteMessages, Times: -1})
		w.srv.Invalidate(false)
		w.open[0].Say(w.people[0], "missed")
		r.until("a new session", time.Minute, func() bool { return w.identifies() == 2 && r.a.Health().State == chat.Connected })
		pass(time.Minute)
		if n := len(w.srv.Recorder().Calls(sim.RouteMessages)); n != 1 {
			t.Errorf("%d calls that are refused", n)
		}
		r.next(func() { w.open[0].Say(w.people[0], "after") })
	})
}

func TestADayIsAsFarAsGapsAreFilled(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		pass(27 * 365 * 24 * time.Hour) // ids carry the time only from 2015 on
		r, room := w.start(t), w.Direct("", 0)
		room.Say("before")
		pass(2 * time.Second)
		_ = r.end()
		room.Say("long ago")
		pass(20 * time.Hour)
		room.Say("yesterday")
		pass(20 * time.Hour)
		r = w.start(t)
		r.until("taken in", time.Minute, func() bool { return len(r.inbox.Texts(room.At())) == 1 })
		pass(time.Minute)
		if got := strings.Join(r.inbox.Texts(room.At()), " "); got != "yesterday" {
			t.Errorf("%s", got)
		}
	})
}

// TestWhereNobodyHasSpokenYetTheNextMessageIsTheFirst holds what docs/platforms.md
// says of a daemon that was away.
func TestWhereNobodyHasSpokenYetTheNextMessageIsTheFirst(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		_ = w.start(t).end()
		room, channel := w.Direct("", 0), w.Group("", 0)
		me := w.bots[""].User().Mention()
		room.Say("missed")
		channel.Say(me + " missed")
		pass(time.Minute)
		r := w.start(t)
		pass(time.Minute)
		if got := r.inbox.Events(); len(got) != 0 {
			t.Fatalf("taken in: %+v", got)
		}
		room.Say("heard")
		channel.Say(me + " heard")
		pass(time.Minute)
		for _, in := range r.inbox.Events() {
			if in.Text != "heard" {
				t.Errorf("taken in: %q", in.Text)
			}
		}
		if n := len(r.inbox.Events()); n != 2 {
			t.Errorf("%d events", n)
		}
	})
}

// Marks are written once a second at most, and only when something was said.
func TestMarksAreWrittenSeldom(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		for range 100 {
			room.Say("x")
			pass(100 * time.Millisecond)
		}
		pass(time.Hour)
		_ = r.end()
		if w.memory.writes > 12 || w.memory.writes == 0 {
			t.Errorf("%d writes in ten seconds", w.memory.writes)
		}
	})
}

// A crash a moment after the first message of a conversation does not forget
// that there is one.
func TestACrashForgetsNoConversation(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		pass(5*time.Second + 300*time.Millisecond) // between two writes
		m := r.mention("question")
		dead := w.memory.clone() // as the crash leaves it
		_ = r.end()
		th, err := w.closed.Thread(w.people[0], "x", m.ID)
		if err != nil {
			t.Fatal(err)
		}
		th.Say(w.people[0], "are you there?")
		w.memory = dead
		r = w.start(t)
		r.until("taken in", time.Minute, func() bool { return len(r.inbox.Texts(m.Address)) > 0 })
	})
}

// A crash before the first message of a conversation is stored does not lose it.
func TestCrashBeforeFirstMessageIsStored(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		pass(5*time.Second + 300*time.Millisecond) // between two writes
		r.inbox.Fail(true)
		room.Say("question")
		pass(300 * time.Millisecond)
		dead := w.memory.clone() // as the crash leaves it
		_ = r.end()
		w.memory = dead
		r = w.start(t)
		r.until("taken in", time.Minute, func() bool { return len(r.inbox.Texts(room.At())) > 0 })
	})
}

// What was kept cannot be trusted to be whole.
func TestMarksThatCannotBeReadAreNoMarks(t *testing.T) {
	for _, raw := range []string{"", "null", "{", `{"1":5}`, `{"x":{"at":"y"}}`, `[1]`} {
		in(t, sim.Options{}, func(t *testing.T, w *world) {
			key := "discord.marks." + w.bots[""].ID()
			if err := w.memory.SetValue(t.Context(), key, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			r := w.start(t)
			r.next(func() { w.open[0].Say(w.people[0], "x") })
			pass(2 * time.Second)
			if v, _ := w.memory.Value(t.Context(), key); !bytes.Contains(v, []byte(w.open[0].ID())) {
				t.Errorf("%q became %q", raw, v)
			}
		})
	}
}

// A sink that refuses for long keeps what memory can hold; the rest comes from
// the history.
func TestMoreThanMemoryHoldsComesFromTheHistory(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := &run{t: t, w: w, a: w.adapter(w.config(""), ""), inbox: adaptertest.NewInbox(t)}
		r.a.Hold(20)
		r.runs()
		room := w.Direct("", 0)
		pass(time.Second)
		room.Say("before")
		pass(2 * time.Second)
		r.inbox.Fail(true)
		want := append([]string{"before"}, numbered("refused", 150)...)
		for _, text := range want[1:] {
			room.Say(text)
			pass(100 * time.Millisecond)
		}
		r.inbox.Fail(false)
		r.until("taken in", 10*time.Minute, func() bool { return len(r.inbox.Texts(room.At())) >= len(want) })
		if got := r.inbox.Texts(room.At()); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestAnAccountFillsItsOwnGaps(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := &run{t: t, w: w, a: w.adapter(w.config(""), ""), inbox: adaptertest.NewInbox(t)}
		r.runs()
		pass(time.Second)
		room := w.Direct("", 0)
		room.Say("before")
		pass(time.Second)
		w.srv.Invalidate(false)
		room.Say("missed")
		r.until("taken in", time.Minute, func() bool { return len(r.inbox.Texts(room.At())) == 2 })
	})
}
