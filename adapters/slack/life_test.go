package slack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	sim "hermesd/internal/sim/slack"
)

func TestASocketIsHandedOverWithoutAGap(t *testing.T) {
	for _, why := range []sim.Reason{sim.Refresh, sim.Warning} {
		inBubble(t, func(t *testing.T, w *world) {
			inbox, dm, app := adaptertest.NewInbox(t), w.Direct("", 0), w.bots[""].App()
			a := w.Connect("")
			running(t, a, inbox)
			since := a.Health().Since
			var want []string
			for i := range 40 {
				if i%10 == 5 {
					app.Disconnect(why)
				}
				want = append(want, fmt.Sprintf("message %d", i))
				dm.Say(want[i])
				pass(time.Duration(i%4) * time.Second / 2)
			}
			pass(time.Minute)
			if got := inbox.Texts(dm.At()); !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
			for _, o := range w.srv.Recorder().Offers("message") {
				if len(o.Deliveries) != 1 || o.Latency() < 0 {
					t.Errorf("%q was delivered %d times, acknowledged after %v", o.Text, len(o.Deliveries), o.Latency())
				}
			}
			if h := a.Health(); h.State != chat.Connected || h.Since != since || h.Error != "" {
				t.Errorf("the handover shows: %+v", h)
			}
			if n := len(w.srv.Recorder().Links()); n != 5 {
				t.Errorf("%d sockets for 4 handovers", n)
			}
			if n := len(w.srv.Recorder().Calls("conversations.history", "conversations.list")); n != 0 {
				t.Errorf("%d histories were asked although no time was lost", n)
			}
			if n := w.srv.Recorder().Counts().MostOpen; n > 2 {
				t.Errorf("%d sockets at a time", n)
			}
		})
	}
}

func TestOneSocketAtATimeHoweverOftenItBreaks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		running(t, w.Connect(""), adaptertest.NewInbox(t))
		for range 50 {
			w.Cut()
			pass(20 * time.Second)
		}
		if n := w.bots[""].App().Open(); n != 1 {
			t.Errorf("%d sockets are open", n)
		}
		if n := w.srv.Recorder().Counts().MostOpen; n != 1 {
			t.Errorf("%d sockets at a time", n)
		}
		if n := len(w.srv.Recorder().Calls("apps.connections.open")); n != 51 {
			t.Errorf("%d sockets were asked for", n)
		}
	})
}

func TestTokensThatAreNotGood(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(*world)
		app        sim.AppOptions
	}{
		{"bot token revoked", "token (SLACK_BOT_TOKEN)", func(w *world) { w.bots[""].Refuse("token_revoked") }, sim.AppOptions{}},
		{"app removed", "install it again", func(w *world) { w.bots[""].Refuse("account_inactive") }, sim.AppOptions{}},
		{"wrong kind", "another kind of token", func(w *world) { w.bots[""].Refuse("not_allowed_token_type") }, sim.AppOptions{}},
		{"unknown app token", "app_token (SLACK_APP_TOKEN)", func(w *world) {
			w.change = func(c *slack.Config) { c.AppToken = "xapp-1-A1-1-wrong" }
		}, sim.AppOptions{}},
		{"app token without its scope", "connections:write", func(*world) {}, sim.AppOptions{NoSocketScope: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Options{}, c.app)
			c.do(w)
			a := w.Connect("")
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err := a.Run(ctx, adaptertest.NewInbox(t))
			var ce *chat.ConfigError
			if !errors.As(err, &ce) || !strings.Contains(ce.Reason, c.want) || strings.Contains(ce.Reason, "\n") {
				t.Errorf("%s: %v", c.name, err)
			}
			if h := a.Health(); h.State != chat.Failed || !strings.Contains(h.Error, c.want) {
				t.Errorf("%s: %+v", c.name, h)
			}
		})
	}
}

func TestATokenThatIsRevokedWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("")
		end := running(t, a, adaptertest.NewInbox(t))
		w.bots[""].Refuse("token_revoked")
		_, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: w.Direct("", 0).At(), Text: chat.PlainText("x")})
		var se *chat.SendError
		if !errors.As(err, &se) || se.Outcome != chat.Transient || !se.AccountWide || !strings.Contains(se.Reason, "revoked") {
			t.Errorf("send: %v", err)
		}
		w.Cut()
		pass(time.Minute)
		var ce *chat.ConfigError
		if err := end(); !errors.As(err, &ce) || !strings.Contains(ce.Reason, "revoked") || a.Health().State != chat.Failed {
			t.Errorf("%v, %+v", err, a.Health())
		}
	})
}

func TestAConversionThatPanicsTakesNothingElseWithIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, dm := adaptertest.NewInbox(t), w.Direct("", 0)
		a := w.Connect("").(*slack.Adapter)
		a.PanicOn("poison")
		running(t, a, inbox)
		for _, s := range []string{"one", "poison", "two"} {
			dm.Say(s)
		}
		pass(10 * time.Minute)
		all := inbox.Events()
		if len(all) != 3 || all[1].IgnoreRule != "unreadable_event" || !strings.Contains(all[1].Text, "poison") || all[2].Text != "two" || inbox.Offered() != 3 {
			t.Errorf("%q in %d offers", said(inbox), inbox.Offered())
		}
	})
}

func TestScopesThatAreMissingAreNamed(t *testing.T) {
	lacks := func(not ...string) []string {
		return slices.DeleteFunc(sim.AllScopes(), func(s string) bool { return slices.Contains(not, s) })
	}
	for _, c := range []struct {
		name   string
		scopes []string
		want   string
	}{
		{"two that matter", lacks("im:history", "files:read"), "the app lacks the scopes files:read, im:history;"},
		{"decoration", lacks("reactions:write", "commands"), ""},
		{"none", sim.AllScopes(), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, sim.Options{}, sim.AppOptions{Scopes: c.scopes})
			a := w.Connect("")
			running(t, a, adaptertest.NewInbox(t))
			if h := a.Health(); h.State != chat.Connected || !strings.HasPrefix(h.Error, c.want) || c.want == "" && h.Error != "" {
				t.Errorf("%s: %+v", c.name, h)
			}
			w.bots[""].SetScopes(sim.AllScopes()...)
			w.Cut()
			pass(time.Minute)
			if h := a.Health(); h.State != chat.Connected || h.Error != "" {
				t.Errorf("%s: installed again: %+v", c.name, h)
			}
		})
	}
}

func TestTheSocketLimitIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Options{}, sim.AppOptions{MaxSockets: 1})
		first, inbox := w.Connect(""), adaptertest.NewInbox(t)
		end := running(t, first, adaptertest.NewInbox(t))
		second := w.Connect("")
		running(t, second, inbox)
		pass(5 * time.Minute)
		if h := second.Health(); h.State != chat.Retrying || !strings.Contains(h.Error, "ten sockets") {
			t.Errorf("%+v", h)
		}
		if n := len(w.srv.Recorder().Calls("apps.connections.open")); n < 4 || n > 20 {
			t.Errorf("it tried %d times in 5 minutes", n)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		w.Direct("", 0).Say("hello")
		eventually(t, "the second one does not connect", 2*time.Minute, func() bool { return second.Health().State == chat.Connected })
		eventually(t, "the message is missing", 2*time.Minute, func() bool { return len(inbox.Events()) == 1 })
	})
}

func TestSocketModeIsSwitchedOffAndOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.Connect("")
		running(t, a, adaptertest.NewInbox(t))
		w.bots[""].App().SetSocketMode(false)
		pass(time.Second)
		w.Cut() // also a socket that was opened just before
		pass(time.Minute)
		if h := a.Health(); h.State != chat.Retrying || h.Error == "" {
			t.Errorf("%+v", h)
		}
		w.bots[""].App().SetSocketMode(true)
		eventually(t, "it does not come back", 2*time.Minute, func() bool { return a.Health().State == chat.Connected && a.Health().Error == "" })
	})
}

func TestSlackIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, dm := adaptertest.NewInbox(t), w.Direct("", 0)
		w.srv.Down()
		a := w.Connect("")
		running(t, a, inbox)
		pass(10 * time.Minute)
		if h := a.Health(); h.State != chat.Retrying || !strings.Contains(h.Error, "could not be reached") {
			t.Errorf("%+v", h)
		}
		_ = w.srv.Up()
		eventually(t, "it does not come back", 2*time.Minute, func() bool { return a.Health().State == chat.Connected })
		w.srv.Inject(sim.Fault{Kind: sim.Fail, Method: "apps.connections.open", Error: "ratelimited", RetryAfter: 90 * time.Second})
		w.Cut()
		begin := time.Now()
		pass(time.Second)
		eventually(t, "it does not come back", 5*time.Minute, func() bool { return a.Health().State == chat.Connected && w.bots[""].App().Open() == 1 })
		if took := time.Since(begin); took < 90*time.Second {
			t.Errorf("it tried again after %v, Slack asked for 90s", took)
		}
		dm.Say("hello")
		eventually(t, "the message is missing", time.Minute, func() bool { return len(inbox.Texts(dm.At())) == 1 })
	})
}

// stuck is a sink whose Accept does not return until it may.
type stuck struct {
	*adaptertest.Inbox
	mu  sync.Mutex
	may chan struct{}
}

func (s *stuck) Accept(ctx context.Context, batch []chat.Inbound) error {
	s.mu.Lock()
	may := s.may
	s.mu.Unlock()
	if may != nil {
		select {
		case <-may:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Inbox.Accept(ctx, batch)
}

func TestAStoreThatHangsStallsNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		sink, dm := &stuck{Inbox: adaptertest.NewInbox(t), may: make(chan struct{})}, w.Direct("", 0)
		a := w.Connect("")
		running(t, a, sink)
		var want []string
		for i := range 200 { // four times what the library holds
			want = append(want, fmt.Sprintf("message %d", i))
			dm.Say(want[i])
		}
		pass(10 * time.Minute)
		if h := a.Health(); h.State != chat.Connected || time.Since(h.LastContact) > 30*time.Second {
			t.Errorf("the socket suffers: %+v", h)
		}
		if n := len(w.srv.Recorder().Links()); n != 1 {
			t.Errorf("%d sockets", n)
		}
		if n := w.Confirmed(""); n != 0 {
			t.Errorf("%d events are acknowledged and not stored", n)
		}
		close(sink.may)
		pass(time.Minute)
		if got := sink.Texts(dm.At()); !slices.Equal(got, want) {
			t.Errorf("got %d messages", len(got))
		}
	})
}

// slow is a sink that takes its time once.
type slow struct {
	*adaptertest.Inbox
	left int
}

func (s *slow) Accept(ctx context.Context, batch []chat.Inbound) error {
	if s.left--; s.left >= 0 {
		<-time.After(5 * time.Second)
	}
	return s.Inbox.Accept(ctx, batch)
}

func TestWhatIsAcknowledgedTooLateComesAgainAndIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		sink, dm := &slow{Inbox: adaptertest.NewInbox(t), left: 1}, w.Direct("", 0)
		running(t, w.Connect(""), sink)
		dm.Say("hello")
		pass(time.Minute)
		o := w.srv.Recorder().Offers("message")[0]
		if len(o.Deliveries) != 2 || o.Deliveries[0].Envelope == o.Deliveries[1].Envelope || o.Acked.IsZero() {
			t.Errorf("deliveries %+v", o.Deliveries)
		}
		if got := sink.Texts(dm.At()); !slices.Equal(got, []string{"hello"}) || sink.Offered() != 2 {
			t.Errorf("got %q in %d offers", got, sink.Offered())
		}
	})
}

func TestAMentionIsOneWhateverComesFirst(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil map[string]sim.Spoil // by kind of event
	}{
		{"both arrive", nil},
		{"the acknowledgement of the message is lost", map[string]sim.Spoil{"message": sim.LoseAck}},
		{"the acknowledgement of the mention is lost", map[string]sim.Spoil{"app_mention": sim.LoseAck}},
		{"the message comes later", map[string]sim.Spoil{"message": sim.Lose}},
		{"the mention comes later", map[string]sim.Spoil{"app_mention": sim.Lose}},
		{"the message comes later, the other acknowledgement is lost", map[string]sim.Spoil{"message": sim.Lose, "app_mention": sim.LoseAck}},
		{"the socket is cut between them", map[string]sim.Spoil{"message": sim.CutLink}},
		{"both come twice", map[string]sim.Spoil{"message": sim.Twice, "app_mention": sim.Twice}},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			inbox := adaptertest.NewInbox(t)
			running(t, w.Connect(""), inbox)
			for kind, spoil := range c.spoil {
				w.bots[""].App().Spoil(spoil, 1, func(o sim.Offer) bool { return o.Kind == kind })
			}
			m := w.closed.Say(w.people[0], w.bots[""].User().Mention()+" hello")
			pass(10 * time.Minute)
			all := inbox.Events()
			if len(all) != 1 || all[0].Text != "hello" || all[0].Address.Thread != m.TS || all[0].Address.Kind != chat.Thread || all[0].IgnoreRule != "" {
				t.Errorf("%s: %+v", c.name, all)
			}
			for _, o := range w.srv.Recorder().Offers("message", "app_mention") {
				if o.Acked.IsZero() {
					t.Errorf("%s: %s is never acknowledged", c.name, o.Kind)
				}
			}
		})
	}
}

func TestEnvelopesThatCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inbox, dm, app := adaptertest.NewInbox(t), w.Direct("", 0), w.bots[""].App()
		a := w.Connect("")
		running(t, a, inbox)
		for _, raw := range []string{
			"", "{", "null", "[]", `"x"`, `{}`, `{"type":"events_api"}`, `{"type":"who_knows","envelope_id":"e1","payload":{}}`,
			`{"type":"events_api","envelope_id":"e2","payload":[]}`, `{"type":"interactive","envelope_id":"e3","payload":"x"}`,
			`{"type":"slash_commands","envelope_id":"e4"}`, `{"type":"events_api","envelope_id":"e5","payload":{"event":{"type":"message","channel":"D1","ts":1}}}`,
		} {
			app.SendRaw(raw)
			pass(100 * time.Millisecond)
		}
		dm.Say("still there?")
		eventually(t, "the message is missing", time.Minute, func() bool { return len(inbox.Texts(dm.At())) == 1 })
		app.Spoil(sim.Strange, 1, func(o sim.Offer) bool { return o.Kind == "message" })
		dm.Say("strange")
		pass(10 * time.Minute)
		for _, o := range w.srv.Recorder().Offers("message") {
			if o.Acked.IsZero() {
				t.Errorf("%q is never acknowledged", o.Text)
			}
		}
		if h := a.Health(); h.State != chat.Connected {
			t.Errorf("%+v", h)
		}
	})
}

func TestConfigs(t *testing.T) {
	good := slack.Config{Token: "xoxb-1-secret", AppToken: "xapp-1-secret"}
	for _, c := range []struct {
		change func(*slack.Config)
		want   string
	}{
		{func(*slack.Config) {}, ""},
		{func(c *slack.Config) { c.Token = "" }, "token: missing"},
		{func(c *slack.Config) { c.AppToken = "" }, "app_token: missing"},
		{func(c *slack.Config) { c.Token, c.AppToken = c.AppToken, c.Token }, "token: this is the other kind"},
		{func(c *slack.Config) { c.AppToken = c.Token }, "app_token: this is the other kind"},
		{func(c *slack.Config) { c.Token = "xoxp-secret" }, "token: this is not a bot token"},
		{func(c *slack.Config) { c.APIURL = "slack.com" }, "api_url: must be"},
		{func(c *slack.Config) { c.APIURL = "ftp://slack.com" }, "api_url: must begin"},
		{func(c *slack.Config) { c.Proxy = "secret" }, "proxy: must be"},
		{func(c *slack.Config) { c.AllowedChats = []string{"#general"} }, `allowed_chats: "#general" is not a channel id`},
		{func(c *slack.Config) { c.IgnoredChats = []string{"C1", "x"} }, `ignored_chats: "x"`},
		{func(c *slack.Config) { c.FreeResponseChats = []string{"C1", "c2"} }, `free_response_chats: "c2"`},
		{func(c *slack.Config) { c.MentionPatterns = []string{"("} }, "mention_patterns:"},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%v, want %q", err, c.want)
		}
		_, made := slack.New(cfg, slack.Options{Log: zap.NewNop()})
		var ce *chat.ConfigError
		if (made == nil) != (err == nil) || made != nil && (!errors.As(made, &ce) || ce.Reason != err.Error()) {
			t.Errorf("New: %v, want %v", made, err)
		}
	}
	if got := fmt.Sprintf("%+v", good); strings.Contains(got, "secret") && !strings.Contains(got, "<secret>") {
		t.Errorf("a config shows %s", got)
	}
}

func TestAnotherProcessOnTheSameTokenIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, inbox := w.Connect(""), adaptertest.NewInbox(t)
		end := running(t, first, inbox)
		pass(10 * time.Minute)
		if h := first.Health(); h.Error != "" || len(w.srv.Recorder().Links()) != 1 {
			t.Errorf("alone: %+v", h)
		}
		second := w.Connect("")
		running(t, second, inbox)
		pass(5 * time.Minute)
		if h := second.Health(); h.State != chat.Connected || !strings.Contains(h.Error, "another process uses this app token") {
			t.Errorf("two: %+v", h)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		pass(5 * time.Minute)
		if h := second.Health(); h.Error != "" {
			t.Errorf("alone again: %+v", h)
		}
		n := len(w.srv.Recorder().Links())
		pass(time.Hour)
		if m := len(w.srv.Recorder().Links()); m != n {
			t.Errorf("%d sockets more in an hour", m-n)
		}
	})
}
