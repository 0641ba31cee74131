package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/telegram"
)

// inBubble runs test in fake time with a fresh world.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, sim.Options{})) })
}

// running starts an adapter; the end of the test, or the returned function,
// ends it.
func running(t *testing.T, a chat.Adapter, sink chat.Sink) (end func() error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, sink) }() // end waits for it
	end = func() error {
		stop()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = end() })
	pass(100 * time.Millisecond)
	return end
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) direct() *room { return w.Direct("", 0).(*room) }

// offsets are the offsets of all polls, "" where there is none.
func (w *world) offsets() []string {
	var out []string
	for _, c := range w.srv.Recorder().Calls("getUpdates") {
		if o := c.Params["offset"]; len(out) == 0 || out[len(out)-1] != o {
			out = append(out, o)
		}
	}
	return out
}

func TestTheOffsetFollowsTheLastUpdateAlsoDownwards(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b, inbox, r := w.bots[""], adaptertest.NewInbox(t), w.direct()
		end := running(t, w.Connect(""), inbox)
		r.Say("one")
		pass(time.Minute)
		first := b.NextUpdate()
		if got, want := w.offsets(), []string{"", strconv.Itoa(first)}; !slices.Equal(got[:1], want[:1]) || got[len(got)-1] != want[1] {
			t.Errorf("offsets %q, want %q", got, want)
		}
		if err := b.Reseed(7); err != nil {
			t.Fatal(err)
		}
		r.Say("two")
		pass(time.Minute)
		r.Say("three")
		pass(time.Minute)
		if got := w.offsets(); got[len(got)-1] != "9" {
			t.Errorf("after new ids from 7 on the offsets are %q", got)
		}
		_ = end()
		n := len(w.srv.Recorder().Calls("getUpdates"))
		running(t, w.Connect(""), inbox)
		if polls := w.srv.Recorder().Calls("getUpdates"); polls[n].Params["offset"] != "" {
			t.Errorf("the first poll of a process has the offset %q", polls[n].Params["offset"])
		}
		if got := inbox.Texts(r.At()); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestUpdatesThatCannotBeConvertedDoNotStopTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b, inbox, r := w.bots[""], adaptertest.NewInbox(t), w.direct()
		r.Say("before")
		b.Push("message", []byte(`{"message_id":"x"}`))
		b.Push("message", []byte(`[1,2]`))
		b.Push("hologram", []byte(`{"a":1}`))
		b.Push("message", []byte(`{"message_id":900,"date":5,"chat":{"id":-7,"type":"supergroup"},"from":7,"text":{"a":1}}`))
		b.Push("message", fmt.Appendf(nil, `{"message_id":901,"date":"soon","chat":{"id":%d,"type":"private"},"from":{"id":1},"text":"odd date"}`, r.c.ID()))
		r.Say("after")
		running(t, w.Connect(""), inbox)
		pass(time.Second)
		if got := inbox.Texts(r.At()); !slices.Equal(got, []string{"before", "odd date", "after"}) {
			t.Errorf("%q", got)
		}
		if n := b.Pending(); n != 0 {
			t.Errorf("%d updates are asked for again", n)
		}
	})
}

func TestAnUpdateThatIsUnreadableIsRecordedWhereItHappened(t *testing.T) {
	a := adapter(t, telegram.Config{}, telegram.Options{Log: zap.NewNop()})
	in, ok := a.Take([]byte(`{"update_id":5,"message":{"message_id":9,"date":1,"chat":{"id":3,"type":"private","first_name":7},"from":{"id":3,"is_bot":"no"},"text":"hi"}}`))
	if !ok || in.IgnoreRule != "" || in.Address.Chat != "3" || in.Sender.ID != "3" || in.Text != "hi" {
		t.Errorf("odd fields of chat and sender: %+v %v", in, ok)
	}
	in, ok = a.Take([]byte(`{"update_id":5,"message":{"message_id":9000000000000000000000,"date":1,"chat":{"id":3,"type":"private"}}}`))
	if ok {
		t.Errorf("an update without a message id is taken: %+v", in)
	}
	in, ok = a.Take([]byte(`{"update_id":"x","edited_message":{"message_id":9,"date":1,"chat":{"id":3,"type":"private"}}}`))
	if !ok || in.Address.Chat != "3" {
		t.Errorf("%+v %v", in, ok)
	}
	if _, ok := a.Take([]byte(`{"update_id":5,"message":"gone"}`)); ok {
		t.Error("an update without a place is taken")
	}
}

func TestAPanicInConversionIsRecordedAndNotTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r, a := adaptertest.NewInbox(t), w.direct(), w.bot()
		a.PanicOn("poison")
		running(t, a, inbox)
		r.Say("before")
		r.Say("poison")
		r.Say("after")
		pass(time.Minute)
		if got := inbox.Texts(r.At()); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("%q", got)
		}
		events := inbox.Events()
		i := slices.IndexFunc(events, func(in chat.Inbound) bool { return in.IgnoreRule == "unreadable_update" })
		if i < 0 {
			t.Fatal("nothing is recorded")
		}
		if q := events[i]; q.Address != r.At() || !strings.Contains(q.Text, "poison") {
			t.Errorf("recorded: %+v", q)
		}
		if n := w.bots[""].Pending(); n != 0 {
			t.Errorf("%d updates are asked for again", n)
		}
	})
}

func TestGroupsWaitForTheNameAndDirectChatsDoNot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r, g := adaptertest.NewInbox(t), w.direct(), w.Group("", 0)
		down := w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getMe", Status: 500, Times: -1})
		r.Say("direct 1")
		g.Say("group 1")
		r.Say("direct 2")
		a := w.Connect("")
		end := running(t, a, inbox)
		pass(5 * time.Second)
		if d, g := inbox.Texts(r.At()), inbox.Texts(g.At()); !slices.Equal(d, []string{"direct 1", "direct 2"}) || g != nil {
			t.Errorf("without a name: %q and %q", d, g)
		}
		g.Say("group 2")
		pass(5 * time.Second)
		if n := w.bots[""].Pending(); n == 0 {
			t.Error("the group's messages are confirmed and not stored")
		}
		down.Remove()
		pass(2 * time.Minute)
		if g := inbox.Texts(g.At()); !slices.Equal(g, []string{"group 1", "group 2"}) {
			t.Errorf("with the name: %q", g)
		}
		if n := w.bots[""].Pending(); n != 0 {
			t.Errorf("%d updates are not confirmed", n)
		}

		_ = end() // the next process knows the name although nobody tells it
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getMe", Status: 500, Times: -1})
		a = w.Connect("")
		running(t, a, inbox)
		g.Say("group 3")
		pass(time.Second)
		if g := inbox.Texts(g.At()); len(g) != 3 {
			t.Errorf("after a restart: %q", g)
		}
		if name := a.Health().Name; name != w.bots[""].Username() {
			t.Errorf("name %q", name)
		}
	})
}

func TestPrivacyModeIsNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for private, want := range map[bool]string{true: "privacy mode is on: in groups it gets only commands", false: ""} {
			w.bots[""].SetPrivacy(private)
			a := w.Connect("")
			end := running(t, a, adaptertest.NewInbox(t))
			pass(5 * time.Second)
			if h := a.Health(); h.Name == "" || !strings.HasPrefix(h.Note, want) || (h.Note == "") != (want == "") {
				t.Errorf("privacy %v: %+v", private, h)
			}
			_ = end()
		}
	})
}

func TestAnotherProcessThatPolls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r := adaptertest.NewInbox(t), w.direct()
		conflicts := w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getUpdates", Status: 409, Times: -1,
			Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"})
		a := w.Connect("")
		running(t, a, inbox)
		pass(10 * time.Minute)
		h := a.Health()
		if h.State != chat.Retrying || !strings.Contains(h.Error, "another process polls with this token") {
			t.Errorf("health %+v", h)
		}
		polls := w.srv.Recorder().Calls("getUpdates")
		for i, want := range []time.Duration{10, 20, 30, 40, 50, 60, 60} {
			if got := polls[i+1].At.Sub(polls[i].At); got != want*time.Second {
				t.Errorf("pause %d is %v, want %v", i+1, got, want*time.Second)
			}
		}
		conflicts.Remove()
		r.Say("hello")
		pass(3 * time.Minute)
		if h := a.Health(); h.State != chat.Connected || len(inbox.Texts(r.At())) != 1 {
			t.Errorf("afterwards %+v %q", h, inbox.Texts(r.At()))
		}
	})
}

func TestTwoDaemonsOnOneTokenSeeEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one, two := w.Connect(""), w.Connect("")
		running(t, one, adaptertest.NewInbox(t))
		running(t, two, adaptertest.NewInbox(t))
		told := 0
		pass(2 * time.Minute)
		for range 60 {
			pass(5 * time.Second)
			for _, a := range []chat.Adapter{one, two} {
				if strings.Contains(a.Health().Error, "another process") {
					told++
				}
			}
		}
		if told < 50 {
			t.Errorf("in 5 minutes the conflict was seen only %d times of 120", told)
		}
		if n := len(w.srv.Recorder().Calls("getUpdates")); n > 80 {
			t.Errorf("%d polls in 7 minutes", n)
		}
	})
}

func TestAWebhookInTheWayIsDeletedAndNothingDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{Webhooks: &http.Transport{
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
		}})
		b, inbox, r := w.bots[""], adaptertest.NewInbox(t), w.direct()
		resp, err := w.srv.Client().Get(w.srv.URL() + "/bot" + b.Token() + "/setWebhook?url=https://old.invalid/hook/secretpath")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		r.Say("while the webhook was there")
		a := w.Connect("")
		running(t, a, inbox)
		pass(time.Minute)
		if got := inbox.Texts(r.At()); len(got) != 1 {
			t.Errorf("%q", got)
		}
		for _, c := range w.srv.Recorder().Calls("deleteWebhook") {
			if c.Params["drop_pending_updates"] != "" {
				t.Error("pending updates are dropped")
			}
		}
		if h := a.Health(); h.State != chat.Connected {
			t.Errorf("health %+v", h)
		}
	})
}

func TestAFloodOnPollingIsWaitedOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getUpdates", Status: 429, RetryAfter: 77 * time.Second})
		running(t, w.Connect(""), adaptertest.NewInbox(t))
		pass(2 * time.Minute)
		polls := w.srv.Recorder().Calls("getUpdates")
		if got := polls[1].At.Sub(polls[0].At); got != 77*time.Second {
			t.Errorf("the second poll came after %v", got)
		}
	})
}

func TestAFloodOnOtherCallsIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, _ := hooked(t, &door{})
		for _, method := range []string{"getMe", "setWebhook"} {
			w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: method, Status: 429, RetryAfter: 77 * time.Second})
		}
		running(t, a, adaptertest.NewInbox(t))
		pass(2 * time.Minute)
		for _, method := range []string{"getMe", "setWebhook"} {
			if c := w.srv.Recorder().Calls(method); len(c) != 2 || c[1].At.Sub(c[0].At) != 77*time.Second {
				t.Errorf("%d calls of %s", len(c), method)
			}
		}
	})
}

func TestATokenThatIsWithdrawnIsTheOperators(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("")
		end := running(t, a, adaptertest.NewInbox(t))
		pass(time.Minute)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getUpdates", Status: 401, Description: "Unauthorized", Times: -1})
		pass(time.Minute)
		if h := a.Health(); h.State != chat.Failed || !strings.Contains(h.Error, "TELEGRAM_BOT_TOKEN") {
			t.Errorf("health %+v", h)
		}
		var ce *chat.ConfigError
		if err := end(); !errors.As(err, &ce) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestAServerThatIsAwayIsAskedEverMoreSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r := adaptertest.NewInbox(t), w.direct()
		away := w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getUpdates", NoJSON: true, Times: -1})
		a := w.Connect("")
		running(t, a, inbox)
		pass(10 * time.Minute)
		n := len(w.srv.Recorder().Calls("getUpdates"))
		if n < 10 || n > 25 {
			t.Errorf("%d polls in ten minutes of trouble", n)
		}
		if h := a.Health(); h.State != chat.Retrying || h.Error == "" {
			t.Errorf("health %+v", h)
		}
		r.Say("hello")
		away.Remove()
		pass(75 * time.Second)
		if got := inbox.Texts(r.At()); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

func TestTheTokenIsInNoLog(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zap.DebugLevel)
		c := w.config("")
		c.Token += "Canary"
		a, err := telegram.New(c, telegram.Options{Transport: w.srv.Transport(), Log: zap.New(core), Memory: newMemory()})
		if err != nil {
			t.Fatal(err)
		}
		w.srv.Inject(sim.Fault{Kind: sim.Cut, Times: 3})
		w.srv.Inject(sim.Fault{Kind: sim.Garbage, Times: 3})
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Times: 3})
		end := running(t, a, adaptertest.NewInbox(t))
		pass(30 * time.Second)
		w.srv.Down()
		pass(30 * time.Second)
		_, err = a.Send(t.Context(), chat.Outbound{ID: "o", To: dm, Text: chat.PlainText("x")})
		if se := sendError(t, err); se.Outcome != chat.Transient || strings.Contains(err.Error(), "Canary") {
			t.Errorf("%v", err)
		}
		if err := a.Fetch(t.Context(), chat.File{Ref: "x"}, &strings.Builder{}, 1<<20); err == nil || strings.Contains(err.Error(), "Canary") {
			t.Errorf("%v", err)
		}
		_ = end()
		if len(logs.All()) < 3 {
			t.Error("nothing is logged")
		}
		for _, l := range logs.All() {
			if s := fmt.Sprintf("%s %v", l.Message, l.ContextMap()); strings.Contains(s, "Canary") {
				t.Errorf("logged: %s", s)
			}
		}
	})
}

func TestAGroupThatMovedIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox := adaptertest.NewInbox(t)
		old := w.srv.AddChat(sim.ChatOptions{Type: sim.Group, Members: w.people, Bots: []*sim.Bot{w.bots[""]}})
		a := w.Connect("")
		running(t, a, inbox)
		next := old.Upgrade(w.people[0])
		pass(time.Second)
		moved := 0
		for _, in := range inbox.Events() {
			if in.Kind == chat.Migrated && in.Address.Chat == strconv.FormatInt(old.ID(), 10) && in.MigratedTo.Chat == strconv.FormatInt(next.ID(), 10) {
				moved++
			}
		}
		if moved != 2 {
			t.Errorf("%d of 2 events tell of the move: %+v", moved, inbox.Events())
		}
		to := chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: strconv.FormatInt(old.ID(), 10)}
		_, err := a.Send(t.Context(), chat.Outbound{ID: "o", To: to, Text: chat.PlainText("x")})
		se := sendError(t, err)
		if se.Outcome != chat.Transient || se.MigratedTo == nil || se.MigratedTo.Chat != strconv.FormatInt(next.ID(), 10) {
			t.Fatalf("%+v", se)
		}
		if _, err := a.Send(t.Context(), chat.Outbound{ID: "o", To: *se.MigratedTo, Text: chat.PlainText("x")}); err != nil {
			t.Error(err)
		}
	})
}

// What was said in the new group comes in the batch that tells of the move: the
// settings name the group by its old id only.
func TestWhatIsSaidRightBehindAMoveIsHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox := adaptertest.NewInbox(t)
		old := w.srv.AddChat(sim.ChatOptions{Type: sim.Group, Members: w.people, Bots: []*sim.Bot{w.bots[""]}})
		c, id := w.config(""), strconv.FormatInt(old.ID(), 10)
		c.AllowedChats, c.FreeResponseChats = []string{id}, []string{id}
		next := old.Upgrade(w.people[0])
		next.Say(w.people[0], "hello")
		running(t, w.adapter(c, ""), inbox)
		pass(time.Second)
		all := inbox.Events()
		if last := all[len(all)-1]; len(all) != 4 || last.Text != "hello" || last.IgnoreRule != "" || !last.Addressed {
			t.Errorf("%+v", all)
		}
	})
}

func TestAConnectionIsProvenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("second")
		running(t, a, adaptertest.NewInbox(t))
		if h := a.Health(); h.State != chat.Connected || h.LastContact.IsZero() {
			t.Errorf("although nobody speaks: %+v", h)
		}
	})
}

func TestSendsDoNotUseConnectionsThatDied(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, a := w.direct(), w.bot()
		r.Say("hello")
		running(t, a, adaptertest.NewInbox(t))
		w.send(t, a, chat.Outbound{To: r.At(), Text: chat.PlainText("one")})
		pass(time.Second)
		w.Swallow()
		for a.Health().State == chat.Connected { // until the poll notices
			pass(100 * time.Millisecond)
		}
		begin := time.Now()
		w.send(t, a, chat.Outbound{To: r.At(), Text: chat.PlainText("two")})
		if d := time.Since(begin); d > time.Second {
			t.Errorf("the send took %v", d)
		}
	})
}

func TestANameThatWasRememberedForAnotherBotIsNotUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := "telegram.me." + strconv.FormatInt(w.bots[""].ID(), 10)
		w.memory.m[key] = []byte(`{"id":1,"username":"somebody_bot"}`)
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "getMe", Status: 500, Times: -1})
		a := w.bot()
		running(t, a, adaptertest.NewInbox(t))
		if id, ok := a.Identity(); ok || id.ID != w.bots[""].ID() {
			t.Errorf("%+v %v", id, ok)
		}
	})
}

func TestAPersonsClientSplitsAndAlbums(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r := adaptertest.NewInbox(t), w.direct()
		running(t, w.Connect(""), inbox)
		r.c.SayLong(w.people[0], strings.Repeat("word ", 1000))
		r.c.Album(w.people[0], "three", &sim.Media{Kind: sim.Photo, Data: []byte("1")}, &sim.Media{Kind: sim.Photo, Data: []byte("2")})
		pass(time.Second)
		var waits []time.Duration
		for _, in := range inbox.Events() {
			if in.Part == nil {
				continue
			}
			waits = append(waits, in.Part.Wait)
		}
		ms := time.Millisecond
		if want := []time.Duration{1000 * ms, 0, 500 * ms, 500 * ms}; !slices.Equal(waits, want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
	})
}

func TestADownloadThatNeverComesIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, r := adaptertest.NewInbox(t), w.direct()
		a := w.bot()
		running(t, a, inbox)
		r.c.Post(sim.Post{From: r.by, Media: &sim.Media{Kind: sim.Document, Name: "a.bin", Data: []byte("x")}})
		pass(time.Minute)
		w.srv.Inject(sim.Fault{Kind: sim.Hang, Method: "file"})
		began := time.Now()
		all := inbox.Events() // the first is about the forum
		err := a.Fetch(t.Context(), all[len(all)-1].Files[0], &strings.Builder{}, 1<<20)
		if err == nil || err.Error() != "it did not come in time" || time.Since(began) > 6*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
