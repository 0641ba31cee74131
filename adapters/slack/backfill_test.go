package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

func TestWhatWasSaidDuringALongOutageIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann, bob := adaptertest.NewInbox(t), w.people[0], w.people[1]
		name := w.bots[""].User().Mention()
		dm := ann.DM(w.bots[""])
		end := running(t, w.Connect(""), inbox)
		dm.Say(ann, "direct before")
		root := w.closed.Say(ann, name+" thread before").TS
		w.open.Say(ann, "open before")
		pass(5 * time.Second)
		if err := end(); err != nil {
			t.Fatal(err)
		}
		dm.Say(ann, "direct during")
		w.closed.Reply(bob, root, "thread during")
		w.open.Say(bob, "open during")
		w.closed.Say(bob, name+" top during")
		w.closed.Say(bob, "not for us")
		bob.DM(w.bots[""]).Say(bob, "the first word of a stranger")
		w.closed.Upload(ann, name+" file during", &sim.File{Name: "a.txt", Data: []byte("x")})
		pass(24 * time.Hour) // Slack has given up long ago
		a := w.Connect("")
		running(t, a, inbox)
		dm.Say(ann, "direct after")
		pass(time.Minute)
		got := said(inbox)
		for _, want := range []string{
			`message dm "direct during" rule=`, `message thread "thread during" rule=`, `message thread "open during" rule=`,
			`message thread "top during" rule=`, `message dm "the first word of a stranger" rule=`, `message thread "file during" rule=`,
		} {
			if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != want })); n != 1 {
				t.Errorf("%d of %s", n, want)
			}
		}
		if i, j := slices.Index(got, `message dm "direct during" rule=`), slices.Index(got, `message dm "direct after" rule=`); i > j {
			t.Error("the order of a chat is not kept")
		}
		if h := a.Health(); h.Error != "" {
			t.Errorf("%+v", h)
		}
		for _, in := range inbox.Events() {
			if in.Text == "file during" && (len(in.Files) != 1 || in.Files[0].Ref == "") {
				t.Errorf("the file is lost: %+v", in)
			}
		}
	})
}

func TestAnAppThatMayAskOnceAMinute(t *testing.T) {
	for _, chats := range []int{4, 12} { // 8 minutes of asking, and more than is spent on it
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Options{Limits: sim.RealLimits()}, sim.AppOptions{Restricted: true})
			inbox := adaptertest.NewInbox(t)
			end := running(t, w.Connect(""), inbox)
			for n := range chats {
				w.Direct("", n).Say("before")
			}
			pass(10 * time.Second)
			_ = end()
			for n := range chats {
				for i := range 20 { // more than the app gets at a time
					w.Direct("", n).Say(fmt.Sprintf("during %02d", i))
					pass(time.Second)
				}
			}
			pass(time.Hour)
			a := w.Connect("")
			running(t, a, inbox)
			pass(30 * time.Minute)
			missing := 0
			for n := range chats {
				texts := inbox.Texts(w.Direct("", n).At())
				missing += 21 - len(texts)
				if !slices.IsSorted(texts) {
					t.Errorf("chat %d: %q", n, texts)
				}
			}
			h := a.Health()
			if h.State != chat.Connected || (missing > 0) != strings.Contains(h.Error, "may be missing") || (missing > 0) != (chats > 4) {
				t.Errorf("%d messages are missing: %+v", missing, h)
			}
			if limited := w.srv.Recorder().Counts().Limited; limited > 25 {
				t.Errorf("Slack said %d times that it is too much", limited)
			}
		})
	}
}

func TestAHistoryThatMayNotBeReadIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, dm := adaptertest.NewInbox(t), w.Direct("", 0)
		end := running(t, w.Connect(""), inbox)
		dm.Say("before")
		pass(5 * time.Second)
		_ = end()
		dm.Say("during")
		pass(time.Hour)
		w.bots[""].SetScopes(slices.DeleteFunc(sim.AllScopes(), func(s string) bool { return s == "im:history" })...)
		a := w.Connect("")
		running(t, a, inbox)
		pass(time.Minute)
		if h := a.Health(); h.State != chat.Connected || !strings.Contains(h.Error, "may be missing") || !strings.Contains(h.Error, "im:history") {
			t.Errorf("%+v", h)
		}
		w.bots[""].SetScopes(sim.AllScopes()...)
		w.Cut()
		pass(time.Minute)
		if got := inbox.Texts(dm.At()); !slices.Equal(got, []string{"before", "during"}) {
			t.Errorf("got %q", got)
		}
		if h := a.Health(); strings.Contains(h.Error, "may be missing") {
			t.Errorf("what has been seen since is still told: %+v", h)
		}
	})
}

func TestTheRecordIsSmallAndSeldomWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox := adaptertest.NewInbox(t)
		name := w.bots[""].User().Mention()
		end := running(t, w.Connect(""), inbox)
		for i := range 500 {
			w.closed.Say(w.people[i%3], name+" hello")
			if i%5 == 0 {
				pass(100 * time.Millisecond)
			}
		}
		pass(10 * time.Second)
		_ = end()
		w.memory.mu.Lock()
		defer w.memory.mu.Unlock()
		for i, at := range w.memory.writes[1:] {
			if i < len(w.memory.writes)-2 && at.Sub(w.memory.writes[i]) < time.Second {
				t.Errorf("writes %d and %d are %v apart", i, i+1, at.Sub(w.memory.writes[i]))
			}
		}
		for key, v := range w.memory.m {
			if len(v) > 40_000 || strings.Contains(key, "xapp-1-A0") && strings.Contains(key, "-7") {
				t.Errorf("%s: %d bytes", key, len(v))
			}
		}
	})
}

func TestAMemoryThatFailsCostsOnlyWhatItHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, dm := adaptertest.NewInbox(t), w.Direct("", 0)
		w.memory.err = errors.New("disk full")
		a := w.Connect("")
		end := running(t, a, inbox)
		dm.Say("hello")
		pass(10 * time.Second)
		if got := inbox.Texts(dm.At()); !slices.Equal(got, []string{"hello"}) || a.Health().State != chat.Connected {
			t.Errorf("got %q, %+v", got, a.Health())
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		w.memory.err = nil
		for k := range w.memory.m {
			w.memory.m[k] = []byte("{broken")
		}
		a = w.Connect("")
		running(t, a, inbox)
		dm.Say("again")
		pass(10 * time.Second)
		if got := inbox.Texts(dm.At()); !slices.Equal(got, []string{"hello", "again"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAThreadIsOursAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox := adaptertest.NewInbox(t)
		a := w.Connect("")
		end := running(t, a, inbox)
		mine := w.closed.Say(w.people[0], w.bots[""].User().Mention()+" hello").TS
		other := w.closed.Say(w.people[0], "not for us").TS
		at := chat.Address{Platform: chat.Slack, Kind: chat.Thread, Scope: w.team.ID(), Chat: w.closed.ID()}
		at.Thread = other
		if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: at, Text: chat.PlainText("of my own accord")}); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		_ = end()
		running(t, w.Connect(""), inbox)
		w.closed.Reply(w.people[1], mine, "and then?")
		w.closed.Reply(w.people[1], other, "who are you?")
		pass(5 * time.Second)
		for _, thread := range []string{mine, other} {
			at.Thread = thread
			if got := inbox.Texts(at); len(got) == 0 {
				t.Errorf("nothing arrives in thread %s: %q", thread, said(inbox))
			}
		}
	})
}

func TestEarlierMessagesOfAThread(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ann, bob, bot := w.people[0], w.people[1], w.bots[""]
		inbox := adaptertest.NewInbox(t)
		a := w.Connect("").(*slack.Adapter)
		running(t, a, inbox)
		root := w.closed.Say(ann, "the server is down").TS
		pass(time.Second)
		w.closed.Reply(bob, root, "which one? &lt;b&gt; "+ann.Mention())
		pass(time.Second)
		middle := time.Now()
		pass(time.Second)
		w.closed.Upload(bob, "", &sim.File{Name: "log.txt", Data: []byte("x")})
		w.closed.Post(sim.Post{From: bob, Thread: root, Files: []*sim.File{{Name: "trace.txt", Data: []byte("x")}}})
		pass(time.Second)
		w.closed.Reply(ann, root, bot.User().Mention()+" what do you think?")
		pass(time.Second)
		w.closed.Reply(bob, root, "later")
		pass(time.Second)
		var in chat.Inbound
		for _, e := range inbox.Events() {
			if e.HasEarlierMessages {
				in = e
			}
		}
		if in.Text != "what do you think?" {
			t.Fatalf("%q", said(inbox))
		}
		for _, c := range []struct {
			since time.Time
			want  string
		}{
			{time.Time{}, "ann: the server is down|bob: which one? <b> @ann|bob: [file: trace.txt]"},
			{middle, "bob: [file: trace.txt]"},
			{time.Now(), ""},
		} {
			qs, err := a.MessagesBefore(t.Context(), in, c.since)
			var got []string
			for _, q := range qs {
				got = append(got, q.Author+": "+q.Text)
			}
			if err != nil || strings.Join(got, "|") != c.want {
				t.Errorf("since %v: %q, %v", c.since, got, err)
			}
		}
		if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: in.Address, Text: chat.PlainText("I think so")}); err != nil {
			t.Fatal(err)
		}
		last := in
		last.ID = fmt.Sprintf("%d.000000", time.Now().Add(time.Minute).Unix())
		qs, err := a.MessagesBefore(t.Context(), last, middle)
		if err != nil || len(qs) != 3 || qs[2].Text != "later" {
			t.Errorf("our own words are told to us: %+v, %v", qs, err)
		}
		for i := range 120 {
			w.closed.Reply(bob, root, fmt.Sprint("more ", i))
		}
		pass(time.Second)
		qs, err = a.MessagesBefore(t.Context(), last, time.Time{})
		if len(qs) != 50 || qs[49].Text != "more 119" || err == nil || !strings.Contains(err.Error(), "left out") {
			t.Errorf("%d quotes, the last %+v, %v", len(qs), qs[len(qs)-1], err)
		}
		bot.SetScopes("chat:write")
		if _, err := a.MessagesBefore(t.Context(), last, time.Time{}); err == nil || !strings.Contains(err.Error(), "channels:history") {
			t.Errorf("a missing scope is told as %v", err)
		}
		bot.SetScopes(sim.AllScopes()...)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "conversations.replies", Error: "ratelimited", RetryAfter: time.Minute})
		if _, err := a.MessagesBefore(t.Context(), last, time.Time{}); err == nil || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("a limit is told as %v", err)
		}
		top := in
		top.Address.Thread = top.ID
		if qs, err := a.MessagesBefore(t.Context(), top, time.Time{}); qs != nil || err != nil {
			t.Errorf("before the first message of a thread: %v %v", qs, err)
		}
	})
}

func TestAFlappingConnectionAsksSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{Limits: sim.RealLimits()}, sim.AppOptions{Restricted: true})
		inbox := adaptertest.NewInbox(t)
		a := w.Connect("")
		running(t, a, inbox)
		for i := range 30 {
			for n := range 3 {
				w.Direct("", n).Say(fmt.Sprintf("message %02d", i))
			}
			w.Cut() // most likely before they are delivered
			pass(20 * time.Second)
		}
		pass(20 * time.Minute)
		for n := range 3 {
			texts := inbox.Texts(w.Direct("", n).At())
			if slices.Sort(texts); len(texts) != 30 {
				t.Errorf("chat %d: %d of 30", n, len(texts))
			}
		}
		c := w.srv.Recorder().Counts()
		if n := c.ByMethod["conversations.history"]; n > 90 {
			t.Errorf("%d histories were asked in 30 minutes (%d calls were over a limit)", n, c.Limited)
		}
		if h := a.Health(); h.State != chat.Connected {
			t.Errorf("%+v", h)
		}
	})
}

func TestBackfilledTablesAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		dm := ann.DM(w.bots[""])
		end := running(t, w.Connect(""), inbox)
		dm.Say(ann, "before")
		pass(5 * time.Second)
		_ = end()
		dm.Post(sim.Post{From: ann, Text: "one", Blocks: json.RawMessage(`[{"type":"table","rows":[[{"type":"raw_text","text":"a"},null,{"type":"raw_number","value":2}]]}]`)})
		dm.Post(sim.Post{From: ann, Text: "two", Blocks: json.RawMessage(`[{"type":"data_table","caption":"D","rows":[[{"type":"raw_text","text":"b"}]]}]`)})
		dm.Post(sim.Post{From: ann, Text: "three", Blocks: json.RawMessage(`[{"type":"poem"},{"type":"context","elements":[{"type":"hologram","text":"c"}]}]`)})
		dm.Say(ann, "four")
		pass(time.Hour)
		a := w.Connect("")
		running(t, a, inbox)
		pass(10 * time.Minute)
		want := []string{"before", "one\n| a |  | 2 |", "two\nD\n| b |", "three\nc", "four"}
		if got := inbox.Texts(w.Direct("", 0).At()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q; %+v", got, want, a.Health())
		}
	})
}

func TestHistoriesWithoutCursorsAreReadToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{NoCursors: true}, sim.AppOptions{})
		inbox, ann := adaptertest.NewInbox(t), w.people[0]
		dm := ann.DM(w.bots[""])
		end := running(t, w.Connect(""), inbox)
		dm.Say(ann, "before")
		root := w.closed.Say(ann, w.bots[""].User().Mention()+" thread")
		pass(5 * time.Second)
		_ = end()
		for n := range 250 {
			dm.Say(ann, fmt.Sprintf("during %03d", n))
			w.closed.Reply(ann, root.TS, fmt.Sprintf("reply %03d", n))
		}
		pass(time.Hour)
		a := w.Connect("")
		running(t, a, inbox)
		pass(10 * time.Minute)
		if n := len(inbox.Texts(w.Direct("", 0).At())); n != 251 {
			t.Errorf("%d direct messages", n)
		}
		if n := len(slices.DeleteFunc(said(inbox), func(s string) bool { return !strings.Contains(s, `thread "reply`) })); n != 250 {
			t.Errorf("%d replies", n)
		}
		if h := a.Health(); h.Error != "" {
			t.Errorf("%+v", h)
		}
	})
}

func TestListedChannelsAreNotDirectMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{AllTypes: true}, sim.AppOptions{})
		inbox, ann, bob := adaptertest.NewInbox(t), w.people[0], w.people[1]
		end := running(t, w.Connect(""), inbox)
		ann.DM(w.bots[""]).Say(ann, "before")
		pass(5 * time.Second)
		_ = end()
		pass(time.Hour)
		news := w.team.AddChannel(sim.ChannelOptions{Name: "news", Members: []*sim.User{ann, w.bots[""].User()}})
		news.Say(ann, "not for us")
		bob.DM(w.bots[""]).Say(bob, "hello")
		pass(time.Hour)
		running(t, w.Connect(""), inbox)
		pass(time.Minute)
		want := []string{`message dm "before" rule=`, `message dm "hello" rule=`}
		if got := said(inbox); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
