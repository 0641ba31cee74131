package discord_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/discord"
)

// identifies is how many sessions were begun.
func (w *world) identifies() int { return w.srv.Recorder().Counts().Identifies }

func TestALostConnectionIsResumed(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*world)
	}{
		{"cut", func(w *world) { w.srv.CutAll() }},
		{"asked to reconnect", func(w *world) { w.srv.Reconnect() }},
		{"invalid, but to be resumed", func(w *world) { w.srv.Invalidate(true) }},
		{"a black hole", func(w *world) { w.srv.Swallow() }},
		{"closed with 4000", func(w *world) { w.srv.CloseAll(sim.CloseUnknownError) }},
		{"closed with 4001", func(w *world) { w.srv.CloseAll(sim.CloseUnknownOpcode) }},
		{"closed with 4002", func(w *world) { w.srv.CloseAll(sim.CloseDecodeError) }},
		{"closed with 4008", func(w *world) { w.srv.CloseAll(sim.CloseRateLimited) }},
		{"down for a minute", func(w *world) {
			w.srv.Down()
			pass(time.Minute)
			if err := w.srv.Up(); err != nil {
				w.t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r, room := w.start(t), w.Direct("", 0)
				pass(time.Second)
				c.lose(w)
				room.Say("meanwhile")
				r.until("taken in", 3*time.Minute, func() bool { return len(r.inbox.Texts(room.At())) == 1 })
				r.until("connected", time.Minute, func() bool { return r.a.Health().State == chat.Connected })
				if n := w.identifies(); n != 1 {
					t.Errorf("%d sessions instead of a resume", n)
				}
			})
		})
	}
}

// What a session that cannot be resumed has missed comes from the history.
func TestALostSessionIsHealedFromTheHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*world)
	}{
		{"invalid", func(w *world) { w.srv.Invalidate(false) }},
		{"closed with 4003", func(w *world) { w.srv.CloseAll(sim.CloseNotAuthenticated); w.srv.ForgetSessions() }},
		{"closed with 4005", func(w *world) { w.srv.CloseAll(sim.CloseAlreadyIdentified); w.srv.ForgetSessions() }},
		{"closed with 4007", func(w *world) { w.srv.CloseAll(sim.CloseInvalidSeq) }},
		{"closed with 4009", func(w *world) { w.srv.CloseAll(sim.CloseSessionTimedOut) }},
		{"forgotten", func(w *world) { w.srv.ForgetSessions(); w.srv.CutAll() }},
		{"down for an hour", func(w *world) {
			w.srv.Down()
			pass(time.Hour)
			if err := w.srv.Up(); err != nil {
				w.t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				r := w.start(t)
				direct, group := w.Direct("", 0), w.Group("", 0)
				direct.Say("before")
				group.Say("before")
				pass(time.Second)
				c.lose(w)
				for i := range 3 {
					direct.Say(fmt.Sprint("missed ", i))
					group.Say(fmt.Sprint("missed ", i))
				}
				const want = "before missed 0 missed 1 missed 2 after"
				r.until("a new session", 3*time.Minute, func() bool { return w.identifies() == 2 && r.a.Health().State == chat.Connected })
				direct.Say("after")
				group.Say("after")
				for _, room := range []adaptertest.TestChat{direct, group} {
					r.until("taken in", time.Minute, func() bool { return len(r.inbox.Texts(room.At())) == 5 })
					if got := strings.Join(r.inbox.Texts(room.At()), " "); got != want {
						t.Errorf("%s", got)
					}
				}
			})
		})
	}
}

func TestWhatOnlyTheOperatorCanRepairEndsTheRun(t *testing.T) {
	for _, c := range []struct {
		code int
		has  string
	}{
		{sim.CloseBadToken, "DISCORD_BOT_TOKEN"}, {sim.CloseInvalidShard, "report"}, {sim.CloseShardingRequired, "sharding"},
		{sim.CloseInvalidVersion, "update"}, {sim.CloseInvalidIntents, "update"}, {sim.CloseDisallowedIntents, "Message Content Intent"},
	} {
		in(t, sim.Options{}, func(t *testing.T, w *world) {
			r := w.start(t)
			w.srv.CloseAll(c.code)
			var ce *chat.ConfigError
			err := <-r.ended
			r.ended <- err
			if !errors.As(err, &ce) || !strings.Contains(ce.Reason, c.has) || strings.Contains(ce.Reason, "\n") {
				t.Errorf("%d: Run ended with %v", c.code, err)
			}
			if h := r.a.Health(); h.State != chat.Failed || h.Error == "" {
				t.Errorf("%d: health %+v", c.code, h)
			}
		})
	}
}

func TestABotThatMayNotReadMessagesSaysSo(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.bots[""] = w.srv.AddBot(sim.BotOptions{Name: "blind", Denied: sim.IntentMessageContent})
		r := w.launch(t, w.config(""), adaptertest.NewInbox(t))
		err := <-r.ended
		r.ended <- err
		if err == nil || !strings.Contains(err.Error(), "Message Content Intent") {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestATokenThatIsTakenAwayEndsTheRun(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		w.bots[""].ResetToken()
		err := <-r.ended
		r.ended <- err
		var ce *chat.ConfigError
		if !errors.As(err, &ce) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// One session too many costs the bot its token.
func TestSessionStartsAreCounted(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.bots[""].SetSessionStarts(0, 3*time.Hour)
		r := w.launch(t, w.config(""), adaptertest.NewInbox(t))
		pass(time.Hour)
		if h := r.a.Health(); w.identifies() != 0 || h.State != chat.Retrying || !strings.Contains(h.Error, "no more sessions") {
			t.Fatalf("%d sessions, %+v", w.identifies(), h)
		}
		pass(2 * time.Hour)
		r.until("connected", time.Minute, func() bool { return r.a.Health().State == chat.Connected })
	})
}

// A gateway that ends every session is not asked for more than it gives.
func TestSessionsThatEndAtOnceAreBegunSlowly(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; pass(time.Second) {
			w.srv.ForgetSessions()
			w.srv.CutAll()
		}
		if n := w.identifies(); n < 5 || n > 120 {
			t.Errorf("%d sessions in ten minutes", n)
		}
		r.until("connected", 2*time.Minute, func() bool { return r.a.Health().State == chat.Connected })
	})
}

func TestAServerThatIsNotThereIsTriedAgain(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.srv.Down()
		r := w.launch(t, w.config(""), adaptertest.NewInbox(t))
		pass(10 * time.Minute)
		if h := r.a.Health(); h.State != chat.Retrying || h.Error == "" {
			t.Errorf("%+v", h)
		}
		if err := w.srv.Up(); err != nil {
			t.Fatal(err)
		}
		r.until("connected", 2*time.Minute, func() bool { return r.a.Health().State == chat.Connected })
	})
}

func TestCallsDoNotUseWhatDiedWithTheConnection(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r, room := w.start(t), w.Direct("", 0)
		r.sent("1", room.At(), "one")
		pass(time.Second)
		w.Swallow()
		pass(2 * heartbeat)
		begin := time.Now()
		r.sent("2", room.At(), "two")
		if d := time.Since(begin); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// The library asks for the gateway's address by itself, and would wait for ages.
func TestAnAddressThatDoesNotComeIsAskedForAgain(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		pass(time.Second)
		w.srv.Down()
		pass(5 * time.Second)
		if err := w.srv.Up(); err != nil {
			t.Fatal(err)
		}
		f := w.srv.Inject(sim.Fault{Kind: sim.Hang, Route: sim.RouteGateway, Times: 2})
		r.until("connected", 2*time.Minute, func() bool { return r.a.Health().State == chat.Connected })
		if f.Hits() == 0 {
			t.Error("nobody asked")
		}
	})
}

func TestTheGatewayMayAskForAHeartbeat(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		w.start(t)
		pass(time.Second)
		before := w.srv.Recorder().Counts().Heartbeats
		w.srv.RequestHeartbeat()
		pass(time.Second)
		if n := w.srv.Recorder().Counts().Heartbeats; n != before+1 {
			t.Errorf("%d heartbeats", n-before)
		}
	})
}

func TestTheAccountLeavesWhenItStops(t *testing.T) {
	in(t, sim.Options{}, func(t *testing.T, w *world) {
		r := w.start(t)
		pass(time.Second)
		_ = r.end()
		if n := w.bots[""].Sessions(); n != 0 {
			t.Errorf("%d sessions are left: the bot is shown as online", n)
		}
	})
}

// A call that fails is made once: the library would try it again by itself.
func TestCallsAreMadeOnce(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503} {
		in(t, sim.Options{}, func(t *testing.T, w *world) {
			r, room := w.start(t), w.Direct("", 0)
			f := sim.Fault{Kind: sim.Fail, Status: status, Route: sim.RouteCreateMessage, Times: -1}
			if status == 429 {
				f.RetryAfter = 200 * time.Millisecond
			}
			w.srv.Inject(f)
			begin := time.Now()
			if _, err := r.send("1", room.At(), "x"); err == nil {
				t.Errorf("%d: it succeeded", status)
			}
			if n := len(w.srv.Recorder().Calls(sim.RouteCreateMessage)); n != 1 || time.Since(begin) != 0 {
				t.Errorf("%d: %d calls in %v", status, n, time.Since(begin))
			}
		})
	}
}

// Whatever is lost, and whenever, each message is taken in once and in its
// order: connections, sessions, the server, the process, the disk.
func TestAStorm(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(seed, 7))
				inbox := adaptertest.NewInbox(t)
				rooms := []adaptertest.TestChat{w.Direct("", 0), w.Direct("", 1), w.Group("", 0), w.Group("", 1)}
				want := make([][]string, len(rooms))
				speak := func(i int) {
					want[i] = append(want[i], fmt.Sprintf("%d in %d", len(want[i]), i))
					rooms[i].Say(want[i][len(want[i])-1])
				}
				r := w.launch(t, w.config(""), inbox)
				pass(time.Second)
				for i := range rooms {
					speak(i)
				}
				pass(3 * time.Second)
				restart := func() {
					_ = r.end()
					speak(rng.IntN(len(rooms)))
					r = w.launch(t, w.config(""), inbox)
				}
				troubles := []func(){
					func() { w.srv.CutAll() }, func() { w.srv.Reconnect() }, func() { w.srv.Invalidate(rng.IntN(2) == 0) },
					func() { w.Swallow() }, func() { w.srv.ForgetSessions(); w.srv.CutAll() }, func() { w.srv.CloseAll(4000 + rng.IntN(4)) },
					func() { w.srv.Down(); pass(7 * time.Second); speak(0); _ = w.srv.Up() }, // in memory it never fails
					func() { inbox.Fail(true); speak(1); pass(5 * time.Second); inbox.Fail(false) },
					func() {
						w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessages, Times: 1 + rng.IntN(3)})
					},
					restart,
				}
				for range 60 {
					for range rng.IntN(4) {
						speak(rng.IntN(len(rooms)))
					}
					if rng.IntN(3) == 0 {
						troubles[rng.IntN(len(troubles))]()
					}
					for range rng.IntN(3) {
						speak(rng.IntN(len(rooms)))
					}
					pass(time.Duration(1+rng.IntN(9_000))*time.Millisecond + 137*time.Microsecond)
				}
				pass(5 * time.Minute)
				for i, room := range rooms {
					if got := inbox.Texts(room.At()); !slices.Equal(got, want[i]) {
						t.Errorf("room %d: %d of %d messages\ngot  %q\nwant %q", i, len(got), len(want[i]), got, want[i])
					}
				}
			})
		})
	}
}

// With nothing given but an address it all goes over the network.
func TestOverTheNetwork(t *testing.T) {
	srv := sim.New(sim.Options{})
	defer srv.Close()
	url, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	bot, ann := srv.AddBot(sim.BotOptions{}), srv.AddUser("ann")
	srv.AddGuild("G", ann).Join(bot.User(), ann)
	private := ann.DM(bot)
	a, err := discord.New(discord.Config{Token: secret.Value(bot.Token()), BaseURL: url, AutoThread: true}, discord.Options{Memory: newMemory(), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	inbox := adaptertest.NewInbox(t)
	taken := make(chan chat.Inbound, 1)
	go func() {
		ended <- a.Run(ctx, sink(func(batch []chat.Inbound) error { taken <- batch[0]; return inbox.Accept(ctx, batch) }))
	}()
	if err := srv.Recorder().WaitCount(ctx, 1, func(c sim.Counts) int { return c.Heartbeats }); err != nil {
		t.Fatal(err)
	}
	private.Say(ann, "hello")
	select {
	case in := <-taken:
		if _, err := a.Send(ctx, chat.Outbound{ID: "1", To: in.Address, Text: chat.PlainText("hello, ann")}); err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("nothing arrives")
	}
	if got := private.Visible(bot.User()); len(got) != 1 || got[0] != "hello, ann" {
		t.Errorf("visible: %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A sink is a chat.Sink that is a function.
type sink func([]chat.Inbound) error

func (s sink) Accept(_ context.Context, batch []chat.Inbound) error { return s(batch) }
