package telegram_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tg "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"hermesd/internal/sim/telegram"
)

// TestOffsets checks the rules of getUpdates: five updates 1000 to 1004, one
// call, what it returns and what stays pending.
func TestOffsets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		params []string
		got    string
		left   int
	}{
		{"no offset: the earliest, nothing confirmed", nil, "1000 1001 1002 1003 1004", 5},
		{"offset 0 is no offset", []string{"offset", "0"}, "1000 1001 1002 1003 1004", 5},
		{"limit", []string{"limit", "2"}, "1000 1001", 5},
		{"limit below 1 is 1", []string{"limit", "0"}, "1000", 5},
		{"limit above 100 is 100", []string{"limit", "999"}, "1000 1001 1002 1003 1004", 5},
		{"the first id confirms nothing", []string{"offset", "1000"}, "1000 1001 1002 1003 1004", 5},
		{"an offset confirms all lower ids", []string{"offset", "1003"}, "1003 1004", 2},
		{"with a limit too", []string{"offset", "1003", "limit", "1"}, "1003", 2},
		{"last id + 1 confirms all", []string{"offset", "1005"}, "", 0},
		{"up to ten above the next id counts", []string{"offset", "1015"}, "", 0},
		{"further above is nonsense: from the beginning", []string{"offset", "1016"}, "1000 1001 1002 1003 1004", 5},
		{"an offset below all ids", []string{"offset", "1"}, "1000 1001 1002 1003 1004", 5},
		{"-1: the last one, all others forgotten", []string{"offset", "-1"}, "1004", 1},
		{"-2", []string{"offset", "-2"}, "1003 1004", 2},
		{"-9: more than there are", []string{"offset", "-9"}, "1000 1001 1002 1003 1004", 5},
		{"no number is no offset", []string{"offset", "x"}, "1000 1001 1002 1003 1004", 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t, telegram.Options{})
			for i := range 5 {
				p.dm.Say(p.ann, fmt.Sprint(i))
			}
			if got := ids(p.updates(t, tc.params...)); got != tc.got {
				t.Errorf("got %q, want %q", got, tc.got)
			}
			if left := p.bot.Pending(); left != tc.left {
				t.Errorf("%d pending, want %d", left, tc.left)
			}
			if c := p.Recorder().Counts(); c.Confirmed != 5-tc.left || c.Offered != 5 {
				t.Errorf("counts: %+v", c)
			}
		})
	}
}

func TestUnconfirmedIsDeliveredAgain(t *testing.T) {
	p := newPlace(t, telegram.Options{NoPollGuard: true})
	p.dm.Say(p.ann, "a")
	for range 3 {
		if got := ids(p.updates(t)); got != "1000" {
			t.Fatalf("got %q", got)
		}
	}
	p.updates(t, "offset", "1001")
	o := p.Recorder().Offers()[0]
	if o.Times != 3 || o.Delivered.IsZero() || o.Confirmed.IsZero() || o.Text != "a" || o.Message != 1 {
		t.Errorf("offer: %+v", o)
	}
}

// TestBusyPolling checks the real server's protection against busy polling, in
// fake time.
func TestBusyPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		p.dm.Say(p.ann, "a")
		p.dm.Say(p.ann, "b")
		p.updates(t)
		if got := ids(p.updates(t)); got != "1000" {
			t.Errorf("the same offset at once: %q, want one update", got)
		}
		p.updates(t, "offset", "1002")
		start := time.Now()
		if p.updates(t, "offset", "1002"); time.Since(start) != 3*time.Second {
			t.Errorf("held for %v, want 3 s", time.Since(start))
		}
	})
}

func TestReseed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		p.dm.Say(p.ann, "old")
		if err := p.bot.Reseed(5); err != telegram.ErrPending {
			t.Errorf("with updates waiting: %v", err)
		}
		p.updates(t, "offset", "1001")
		if err := p.bot.Reseed(500); err != nil {
			t.Fatal(err)
		}
		p.dm.Say(p.ann, "new")
		if got := ids(p.updates(t, "offset", "1001")); got != "500" {
			t.Errorf("with the old offset: %q", got)
		}
		if got := ids(p.updates(t, "offset", "501")); got != "" || p.bot.Pending() != 0 {
			t.Errorf("with the new one: %q", got)
		}
		<-time.After(8 * 24 * time.Hour)
		p.dm.Say(p.ann, "after a quiet week")
		if id := p.updates(t)[0].ID; id == 501 || id < 2_000_000 {
			t.Errorf("id %d, want one chosen again", id)
		}
	})
}

func TestUpdatesExpireAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		p.dm.Say(p.ann, "old")
		<-time.After(20 * time.Hour)
		p.dm.Say(p.ann, "young")
		<-time.After(5 * time.Hour)
		if got := ids(p.updates(t)); got != "1001" {
			t.Errorf("got %q", got)
		}
		if o := p.Recorder().Offers(); !o[0].Forgotten || !o[0].Confirmed.IsZero() || o[1].Forgotten {
			t.Errorf("offers: %+v", o)
		}
	})
}

func TestAllowedUpdates(t *testing.T) {
	p := newPlace(t, telegram.Options{NoPollGuard: true})
	m := p.dm.Say(p.ann, "a")
	if err := p.dm.React(p.ann, m.ID, "👍"); err != nil {
		t.Fatal(err)
	}
	if got := ids(p.updates(t)); got != "1000" {
		t.Errorf("reactions come unasked: %q", got)
	}
	p.updates(t, "offset", "1001", "allowed_updates", `["message_reaction","nonsense"]`)
	p.dm.Say(p.ann, "b")
	if err := p.dm.React(p.ann, m.ID, "👍"); err != nil {
		t.Fatal(err)
	}
	a := p.call(t, "getUpdates")
	if s := string(a.Result); !strings.Contains(s, `"message_reaction"`) || strings.Contains(s, `"message":`) {
		t.Errorf("with only reactions asked for: %s", s)
	}
	p.updates(t, "allowed_updates", `[]`)
	p.dm.Say(p.ann, "c")
	if got := p.updates(t); got[len(got)-1].Message == nil {
		t.Error("an empty list does not bring the default back")
	}
}

// TestLongPoll waits in fake time over in-memory connections.
func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		start := time.Now()
		if got := p.updates(t, "timeout", "30"); len(got) != 0 || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v, want nothing after 30 s", got, time.Since(start))
		}
		start = time.Now()
		if p.updates(t, "timeout", "300", "offset", "1"); time.Since(start) != 50*time.Second {
			t.Errorf("after %v, want the greatest timeout, 50 s", time.Since(start))
		}
		start = time.Now()
		time.AfterFunc(7*time.Second, func() { p.dm.Say(p.ann, "hello") })
		if got := p.updates(t, "timeout", "30"); ids(got) != "1000" || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %v, want the update after 7 s", got, time.Since(start))
		}
	})
}

// TestSecondPoller checks that the earlier poll ends with 409: immediately the
// first time, after three seconds if it soon happens again.
func TestSecondPoller(t *testing.T) {
	const text = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		start := time.Now()
		type end struct {
			answer
			after time.Duration
		}
		ends := make([]end, 3)
		var polls sync.WaitGroup
		for i := range ends {
			polls.Go(func() {
				a := p.call(t, "getUpdates", "timeout", "20")
				ends[i] = end{a, time.Since(start)}
			})
			synctest.Wait()
			<-time.After(time.Second)
		}
		polls.Wait()
		mustRefuse(t, ends[0].answer, 409, text)
		mustRefuse(t, ends[1].answer, 409, text)
		mustOK(t, ends[2].answer)
		for i, want := range []time.Duration{1 * time.Second, 5 * time.Second, 22 * time.Second} {
			if ends[i].after != want {
				t.Errorf("poll %d ended after %v, want %v", i, ends[i].after, want)
			}
		}
		waiting := make(chan answer)
		go func() { waiting <- p.call(t, "getUpdates", "timeout", "20", "offset", "5") }() // received below
		synctest.Wait()
		p.dm.Say(p.ann, "x")
		mustOK(t, <-waiting)
	})
}

// TestPollThatFindsUpdatesDoesNotDisturb checks that only a poll that has to
// wait ends the previous one, as on the real server.
func TestPollThatFindsUpdatesDoesNotDisturb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{NoPollGuard: true})
		waiting := make(chan answer)
		go func() { waiting <- p.call(t, "getUpdates", "timeout", "20") }() // received below
		synctest.Wait()
		mustOK(t, p.call(t, "getUpdates"))
		select {
		case a := <-waiting:
			t.Fatalf("ended: %+v", a)
		default:
		}
		p.dm.Say(p.ann, "x")
		mustOK(t, <-waiting)
	})
}

// TestPollerGone checks that a poll of a disconnected client does not consume
// updates.
func TestPollerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.try(ctx, p.bot.Token(), "getUpdates", "timeout", "20"); err == nil {
			t.Fatal("answered")
		}
		synctest.Wait()
		p.dm.Say(p.ann, "x")
		synctest.Wait()
		if o := p.Recorder().Offers()[0]; o.Times != 0 {
			t.Errorf("delivered to nobody: %+v", o)
		}
		if got := ids(p.updates(t, "timeout", "20")); got != "1000" {
			t.Errorf("got %q", got)
		}
	})
}

func TestPollAndWebhookExclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{Webhooks: &receiver{}})
		waiting := make(chan answer)
		go func() { waiting <- p.call(t, "getUpdates", "timeout", "20") }() // received below
		synctest.Wait()
		mustOK(t, p.call(t, "setWebhook", "url", "http://hook.invalid/"))
		mustRefuse(t, <-waiting, 409, "Conflict: terminated by setWebhook request")
		start := time.Now()
		mustRefuse(t, p.call(t, "getUpdates"), 409,
			"Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
		if time.Since(start) != 3*time.Second {
			t.Errorf("second conflict after %v, want 3 s", time.Since(start))
		}
		mustOK(t, p.call(t, "deleteWebhook"))
		mustOK(t, p.call(t, "getUpdates"))
	})
}

// TestLibraryInABubble runs the real client in fake time: a minute of polls, a
// message in between, a stop.
func TestLibraryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{Latency: 100 * time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		b, err := tg.New(p.bot.Token(), tg.WithServerURL(p.URL()), tg.WithHTTPClient(30*time.Second, p.web),
			tg.WithNotAsyncHandlers(), tg.WithErrorsHandler(func(error) {}),
			tg.WithDefaultHandler(func(ctx context.Context, b *tg.Bot, u *models.Update) {
				_, _ = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: u.Message.Chat.ID, Text: "re: " + u.Message.Text})
			}))
		if err != nil {
			t.Fatal(err)
		}
		var done sync.WaitGroup
		done.Go(func() { b.Start(ctx) })
		<-time.After(time.Minute)
		start := time.Now()
		p.dm.Say(p.ann, "hi")
		m, err := p.dm.WaitText(ctx, "re: hi")
		if err != nil {
			t.Fatal(err)
		}
		// half a round trip for the update, half a round trip for the answer
		if took := m.Sent.Sub(start); took != 100*time.Millisecond {
			t.Errorf("answered after %v, want 100 ms", took)
		}
		stop()
		done.Wait()
		if n := p.Recorder().Counts().ByMethod["getupdates"]; n != 4 {
			t.Errorf("%d polls in a minute, want 4: at 0, 29 and 58 s and after the message", n)
		}
	})
}

// A receiver is the receiver of a webhook: it answers what is planned, then
// 200.
type receiver struct {
	mu      sync.Mutex
	plan    []func(*http.Request) (*http.Response, error)
	secrets []string
	times   []time.Time
	bodies  []string
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body := new(strings.Builder)
	if _, err := copyAll(body, req.Body); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.secrets = append(r.secrets, req.Header.Get("X-Telegram-Bot-Api-Secret-Token"))
	r.times = append(r.times, time.Now())
	r.bodies = append(r.bodies, body.String())
	act := func(*http.Request) (*http.Response, error) { return reply(200, "", nil), nil }
	if len(r.plan) > 0 {
		act, r.plan = r.plan[0], r.plan[1:]
	}
	r.mu.Unlock()
	return act(req)
}
