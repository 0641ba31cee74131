package slack_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"hermesd/internal/sim/slack"
)

// bubble runs a test with its own place in a synctest bubble.
func bubble(t *testing.T, o slack.Options, a slack.AppOptions, test func(*testing.T, *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newPlace(t, o, a)) })
}

func TestHelloTellsHowManySocketsThereAre(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	for n := 1; n <= 3; n++ {
		k := p.dial(t, p.ticket(t))
		if hello := k.next(); hello.Type != "hello" || hello.Links != n || hello.Debug.Life != 18060 {
			t.Errorf("hello %d: %s", n, hello.Raw)
		}
	}
	k := p.dial(t, p.ticket(t)+"&debug_reconnects=true")
	if hello := k.next(); hello.Debug.Life != 360 {
		t.Errorf("with debug_reconnects: %s", hello.Raw)
	}
}

func TestATicketOpensOneSocket(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		refused := func(address string) {
			t.Helper()
			_, resp, err := p.Dialer().DialContext(t.Context(), address, nil)
			if !errors.Is(err, websocket.ErrBadHandshake) || resp.StatusCode != http.StatusForbidden {
				t.Fatalf("%s: %v", address, err)
			}
		}
		address := p.ticket(t)
		p.dial(t, address)
		refused(address)
		late := p.ticket(t)
		<-time.After(61 * time.Second)
		refused(late)
	})
}

func TestTheEleventhSocketIsTold(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	for range 10 {
		p.open(t)
	}
	k := p.dial(t, p.ticket(t))
	if f := k.next(); f.Type != "disconnect" || f.Reason != "too_many_websockets" {
		t.Errorf("frame: %s", f.Raw)
	}
	if f, ok := <-k.in; ok {
		t.Errorf("after it: %s", f.Raw)
	}
	if p.app.Open() != 10 || p.Recorder().Counts().MostOpen != 10 {
		t.Errorf("open: %d, %+v", p.app.Open(), p.Recorder().Counts())
	}
}

func TestOpeningNeedsTheAppToken(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{NoSocketScope: true})
	mustRefuse(t, p.call(t, "apps.connections.open"), "not_allowed_token_type")
	mustRefuse(t, p.callAs(t, p.app.Token(), "chat.postMessage", "channel", p.room.ID(), "text", "x"), "not_allowed_token_type")
	mustRefuse(t, p.callAs(t, "", "apps.connections.open"), "not_authed")
	mustRefuse(t, p.callAs(t, "xapp-other", "apps.connections.open"), "invalid_auth")
	if a := p.callAs(t, p.app.Token(), "apps.connections.open"); a.Error != "missing_scope" || a.Needed != "connections:write" {
		t.Errorf("without the scope: %+v", a)
	}
}

// TestRedelivery checks that an event without an acknowledgement within 3 s is
// sent again after 1 s, 1 min and 5 min, and is lost then.
func TestRedelivery(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		start := time.Now()
		p.dm.Say(p.ann, "hello")
		seen := map[string]bool{}
		first := ""
		for attempt, at := range []time.Duration{0, 4 * time.Second, 67 * time.Second, 370 * time.Second} {
			f := k.next()
			if first == "" {
				first = f.Payload.EventID
			}
			if f.Type != "events_api" || f.Attempt != attempt || time.Since(start) != at || seen[f.Envelope] || f.Payload.EventID != first {
				t.Errorf("attempt %d at %v: %s", attempt, time.Since(start), f.Raw)
			}
			if want := map[bool]string{true: "timeout"}[attempt > 0]; f.Why != want || f.Accepts {
				t.Errorf("attempt %d: reason %q", attempt, f.Why)
			}
			seen[f.Envelope] = true
		}
		k.quiet(time.Hour)
		o := p.Recorder().Offers()[0]
		if c := p.Recorder().Counts(); c.Lost != 1 || c.Delivered != 4 || c.Repeated != 3 || !o.Lost || o.Latency() >= 0 {
			t.Errorf("counts: %+v, offer %+v", c, o)
		}
	})
}

func TestAnAcknowledgementEndsIt(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		p.dm.Say(p.ann, "hello")
		k.next()
		f := k.next() // the second attempt
		<-time.After(2 * time.Second)
		k.ack(f)
		k.quiet(time.Hour)
		o := p.Recorder().Offers()[0]
		if o.Lost || o.Latency() != 2*time.Second || len(o.Deliveries) != 2 || p.Recorder().Links()[0].Acked != 1 {
			t.Errorf("offer: %+v", o)
		}
	})
}

// TestEventsWithoutASocket checks that they are retried too and that the app
// may miss most of them.
func TestEventsWithoutASocket(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		p.dm.Say(p.ann, "nobody there")
		<-time.After(30 * time.Second)
		k := p.open(t)
		f := k.next()
		if f.Attempt != 2 || f.Why != "connection_failed" {
			t.Errorf("frame: %s", f.Raw)
		}
		k.ack(f)
		k.close()
		synctest.Wait()
		p.dm.Say(p.ann, "nobody for long")
		<-time.After(7 * time.Minute)
		if o := p.Recorder().Offers()[1]; !o.Lost || len(o.Deliveries) != 4 || o.Deliveries[3].At.Sub(o.At) != 361*time.Second {
			t.Errorf("offer: %+v", o)
		}
	})
}

func TestAcknowledgementsThatDoNotCount(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		p.dm.Say(p.ann, "hello")
		f := k.next()
		<-time.After(3500 * time.Millisecond)
		k.ack(f) // too late
		again := k.next()
		big := fmt.Sprintf(`{"envelope_id":%q,"payload":{"text":%q}}`, again.Envelope, strings.Repeat("x", 20<<10))
		for _, raw := range []string{"no JSON", `{"envelope_id":"other"}`, big} {
			if err := k.conn.WriteMessage(websocket.TextMessage, []byte(raw)); err != nil {
				t.Fatal(err)
			}
		}
		other := p.open(t)
		other.ack(again) // not its socket
		<-time.After(2 * time.Second)
		if c := p.Recorder().Counts(); c.Acked != 0 || c.Late != 1 || c.Strange != 4 {
			t.Errorf("counts: %+v", c)
		}
		k.ack(again)
		synctest.Wait()
		if c := p.Recorder().Counts(); c.Acked != 1 {
			t.Errorf("counts: %+v", c)
		}
	})
}

func TestAnotherSocketMayAcknowledgeIfTheServerIsSoMade(t *testing.T) {
	bubble(t, slack.Options{AckAnySocket: true}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k, other := p.open(t), p.open(t)
		p.dm.Say(p.ann, "hello")
		var f frame
		select {
		case f = <-k.in:
			other.ack(f)
		case f = <-other.in:
			k.ack(f)
		}
		synctest.Wait()
		if c := p.Recorder().Counts(); c.Acked != 1 || c.Strange != 0 {
			t.Errorf("counts: %+v", c)
		}
	})
}

// TestEachEventGoesToOneSocket also checks that all sockets get some events.
func TestEachEventGoesToOneSocket(t *testing.T) {
	for _, random := range []bool{false, true} {
		bubble(t, slack.Options{RandomSocket: random, Seed: 7}, slack.AppOptions{}, func(t *testing.T, p *place) {
			links := []*link{p.open(t), p.open(t), p.open(t)}
			for range 30 {
				p.dm.Say(p.ann, "hello")
			}
			synctest.Wait()
			for i, k := range links {
				if n := len(k.in); n == 0 || !random && n != 10 {
					t.Errorf("random %v: socket %d got %d", random, i, n)
				}
			}
			if c := p.Recorder().Counts(); c.Delivered != 30 {
				t.Errorf("delivered: %d", c.Delivered)
			}
		})
	}
}

// TestDisconnect checks that the app gets a disconnect message and the grace
// period, and that new envelopes prefer other sockets.
func TestDisconnect(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		old := p.open(t)
		p.app.Disconnect(slack.Refresh)
		if f := old.next(); f.Type != "disconnect" || f.Reason != "refresh_requested" {
			t.Errorf("frame: %s", f.Raw)
		}
		p.dm.Say(p.ann, "before the new one")
		old.ack(old.next())
		k := p.open(t)
		p.dm.Say(p.ann, "with the new one")
		k.ack(k.next())
		<-time.After(11 * time.Second)
		if _, open := <-old.in; open {
			t.Error("the old socket goes on")
		}
		l := p.Recorder().Links()
		if c := p.Recorder().Counts(); c.Acked != 2 || c.Open != 1 || l[0].Why != "disconnected by the server" || !l[1].Closed.IsZero() {
			t.Errorf("counts %+v, links %+v", c, l)
		}
	})
}

func TestSocketsGrowOld(t *testing.T) {
	bubble(t, slack.Options{ConnectionLife: time.Minute}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k, start := p.open(t), time.Now()
		if f := k.next(); f.Type != "disconnect" || f.Reason != "warning" || time.Since(start) != time.Minute {
			t.Errorf("after %v: %s", time.Since(start), f.Raw)
		}
		if _, open := <-k.in; open || time.Since(start) != 70*time.Second {
			t.Errorf("closed after %v", time.Since(start))
		}
	})
}

func TestSocketModeTurnedOff(t *testing.T) {
	p := newPlace(t, slack.Options{Grace: time.Millisecond}, slack.AppOptions{})
	k := p.open(t)
	p.app.SetSocketMode(false)
	if f := k.next(); f.Reason != "link_disabled" {
		t.Errorf("frame: %s", f.Raw)
	}
	if a := p.callAs(t, p.app.Token(), "apps.connections.open"); a.OK {
		t.Error("opened")
	}
	p.app.SetSocketMode(true)
	p.open(t)
}

// TestPings checks the interval of ten seconds and that a socket without pongs
// is closed.
func TestPings(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		conn, resp, err := p.Dialer().DialContext(t.Context(), p.ticket(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		start, pings := time.Now(), 0
		conn.SetPingHandler(func(string) error { // sends no pong
			pings++
			return nil
		})
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				break
			}
		}
		_ = conn.Close()
		if took := time.Since(start); pings < 2 || pings > 3 || took != 30*time.Second {
			t.Errorf("%d pings, closed after %v", pings, took)
		}
	})
}

// TestSwallow checks that nothing is sent or received through a black hole and
// that its events are sent again on a new socket.
func TestSwallow(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		if p.app.Swallow() != 1 {
			t.Error("no socket")
		}
		p.dm.Say(p.ann, "into the hole")
		k.quiet(5 * time.Minute)
		p.dm.Say(p.ann, "into the hole too")
		next := p.open(t)
		for {
			if f := next.next(); f.Payload.EventID == p.Recorder().Offers()[1].Event {
				break
			}
		}
		if d := p.Recorder().Offers()[1].Deliveries; k.pings.Load() > 0 || d[0].Socket != 1 || d[len(d)-1].Socket != 2 {
			t.Errorf("pinged %d times, deliveries %+v", k.pings.Load(), d)
		}
	})
}

func TestSpoils(t *testing.T) {
	for _, tc := range []struct {
		spoil slack.Spoil
		want  string // frames until the event is acknowledged
	}{
		{slack.Sound, "0"},
		{slack.Lose, "1"},
		{slack.LoseAck, "0 1"},
		{slack.Garble, "broken 1"},
		{slack.Strange, "strange"},
		{slack.Twice, "0 0"},
		{slack.Hold, "0"},
	} {
		bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
			k := p.open(t)
			p.app.Spoil(tc.spoil, 1, func(o slack.Offer) bool { return o.Kind == "message" })
			p.dm.Say(p.ann, "hello")
			var got []string
			for {
				select {
				case f := <-k.in:
					switch {
					case f.Envelope == "":
						got = append(got, "broken")
						continue
					case f.Payload.EventID == "":
						got = append(got, "strange")
					default:
						got = append(got, fmt.Sprint(f.Attempt))
					}
					k.ack(f)
					continue
				case <-time.After(10 * time.Second):
				}
				break
			}
			if c := p.Recorder().Counts(); strings.Join(got, " ") != tc.want || c.Acked != 1 {
				t.Errorf("spoil %d: got %v, want %s; %+v", tc.spoil, got, tc.want, c)
			}
		})
	}
}

func TestCutLinksAndHeal(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		p.app.Spoil(slack.CutLink, -1, nil)
		p.dm.Say(p.ann, "hello")
		if f := k.next(); f.Attempt != 0 {
			t.Errorf("frame: %s", f.Raw)
		}
		if _, open := <-k.in; open {
			t.Error("not cut")
		}
		p.app.Heal()
		k = p.open(t)
		k.ack(k.next())
		p.app.SendRaw(`{"type":"news"}`)
		if f := k.next(); f.Raw != `{"type":"news"}` {
			t.Errorf("raw: %s", f.Raw)
		}
		if p.app.Cut() != 1 {
			t.Error("nothing to cut")
		}
		if _, open := <-k.in; open {
			t.Error("not cut")
		}
	})
}

func TestRedeliverOnDemand(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		p.dm.Say(p.ann, "hello")
		f := k.next()
		k.ack(f)
		if !p.Redeliver(f.Payload.EventID) || p.Redeliver("Ev0") || p.Redeliver("") {
			t.Error("wrong answers")
		}
		again := k.next()
		if again.Payload.EventID != f.Payload.EventID || again.Envelope == f.Envelope || again.Attempt != 1 {
			t.Errorf("again: %s", again.Raw)
		}
		k.ack(again)
		k.quiet(time.Hour)
	})
}

func TestSocketsThatAreSilentFromTheStart(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		p.app.SwallowNext(1)
		p.dial(t, p.ticket(t)).quiet(2 * time.Minute)
		p.open(t)
	})
}

// TestHeldEvents checks that later events overtake held ones.
func TestHeldEvents(t *testing.T) {
	bubble(t, slack.Options{}, slack.AppOptions{}, func(t *testing.T, p *place) {
		k := p.open(t)
		p.app.Spoil(slack.Hold, 1, nil)
		p.dm.Say(p.ann, "first")
		p.dm.Say(p.ann, "second")
		if a, b := k.next(), k.next(); !strings.Contains(a.Raw, "second") || !strings.Contains(b.Raw, "first") {
			t.Errorf("got %s, then %s", a.Raw, b.Raw)
		}
	})
}
