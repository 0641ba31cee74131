package connection_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	slackgo "github.com/slack-go/slack"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/connection"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/memnet"
	sim "hermesd/internal/sim/slack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A diary is an owner that writes down what it is told, and acknowledges.
type diary struct {
	mu   sync.Mutex
	days []string
	at   time.Time
}

func (d *diary) write(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.days = append(d.days, s)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.days)
}

func (d *diary) Take(e inbound.Envelope, ack func() error) {
	if err := ack(); err != nil {
		d.write(err.Error())
	}
	d.write("take " + e.Type)
}
func (d *diary) Lost(since time.Time)         { d.write("lost " + since.UTC().Format(time.TimeOnly)) }
func (d *diary) Set(s chat.State, why string) { d.write(string(s) + " " + why) }
func (d *diary) Shared(why string)            { d.write(strings.TrimSpace("shared " + why)) }
func (d *diary) Alive()                       { d.mu.Lock(); defer d.mu.Unlock(); d.at = time.Now() }
func (d *diary) Proof() time.Time             { d.mu.Lock(); defer d.mu.Unlock(); return d.at }

func TestTheOwnerIsToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := sim.New(sim.Options{})
		defer srv.Close()
		team := srv.AddTeam("Acme")
		bot := srv.AddApp(sim.AppOptions{}).Install(team)
		ann := team.AddUser(sim.Person{})
		tr := srv.Transport()
		defer tr.CloseIdleConnections()
		w := &apiclient.Client{RT: tr, Base: srv.APIURL()}
		d := &diary{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // awaited below
			ended <- connection.Run(ctx, connection.Options{
				Handler: d, Wire: w, Socket: srv.Dial, Last: time.Now(), Log: zap.NewNop(),
				API: slackgo.New(bot.Token(), slackgo.OptionAppLevelToken(bot.App().Token()), slackgo.OptionAPIURL(srv.APIURL()), slackgo.OptionHTTPClient(w)),
			})
		}()
		<-time.After(25 * time.Second)
		ann.DM(bot).Say(ann, "hello")
		<-time.After(time.Second)
		bot.App().Cut()
		<-time.After(time.Second)
		bot.App().Disconnect(sim.Warning)
		<-time.After(time.Minute)
		want := []string{
			"shared", "lost 00:00:00", "connected ",
			"take events_api",
			"retrying the connection to Slack was lost", "shared", "lost 00:00:25", "connected ",
			"shared", "connected ",
		}
		if got := d.read(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if n := srv.Recorder().Counts().Acked; n != 1 {
			t.Errorf("%d events are acknowledged", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestSocketMessages checks that a socket passes on envelopes of every type, ignores what is
// no message of Slack, and is replaced before it is closed, however Slack's request is framed.
func TestSocketMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen("slack.test")
		defer func() { _ = l.Close() }()
		first := []string{
			`{"type":"hello","num_connections":1}`, "", "nonsense", `{"type":"new"}`, `[]`, `{"type":7,"envelope_id":"e1"}`,
			`{"type":"events_api","envelope_id":"e2","payload":{"blocks":7}}`, `{"type":"newer","envelope_id":"e3"}`,
			`{"type":"disconnect","reason":"refresh_requested","debug_info":{"host":"` + strings.Repeat("h", 9000) + `"}}`,
		}
		acks := make(chan string, 10)
		sockets := 0
		srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/apps.connections.open" {
				_, _ = io.WriteString(w, `{"ok":true,"url":"ws://slack.test/link"}`)
				return
			}
			sockets++
			send := first
			if sockets > 1 {
				send = first[:1]
			}
			c, err := (&websocket.Upgrader{WriteBufferSize: 64}).Upgrade(w, r, nil) // longer messages are fragmented
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			for _, m := range send {
				if c.WriteMessage(websocket.TextMessage, []byte(m)) != nil {
					return
				}
			}
			for { // until the client has gone
				_, m, err := c.ReadMessage()
				if err != nil {
					return
				}
				acks <- strings.TrimSpace(string(m))
			}
		})}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }() // awaited below
		tr := &http.Transport{DialContext: l.Dial}
		d := &diary{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		w := &apiclient.Client{RT: tr, Base: "http://slack.test/api/"}
		go func() { // awaited below
			ended <- connection.Run(ctx, connection.Options{
				Handler: d, Wire: w, Socket: l.Dial, Last: time.Now(), Log: zap.NewNop(),
				API: slackgo.New("xoxb-1", slackgo.OptionAppLevelToken("xapp-1"), slackgo.OptionAPIURL(w.Base), slackgo.OptionHTTPClient(w)),
			})
		}()
		<-time.After(5 * time.Second)
		want := []string{"shared", "lost 00:00:00", "connected ", "take events_api", "take newer", "shared", "connected "}
		if got := d.read(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
		_ = srv.Close()
		<-served
		close(acks)
		if got := slices.Collect(func(yield func(string) bool) {
			for a := range acks {
				if !yield(a) {
					return
				}
			}
		}); !slices.Equal(got, []string{`{"envelope_id":"e2"}`, `{"envelope_id":"e3"}`}) {
			t.Errorf("acknowledged: %q", got)
		}
	})
}

func TestProxies(t *testing.T) {
	d, err := connection.Dialer(connection.Options{Proxy: "http://proxy.test:3128"})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := d.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "wss-primary.slack.com"}}); err != nil || u == nil || u.Host != "proxy.test:3128" || d.NetDialTLSContext != nil {
		t.Errorf("a socket does not go through the proxy: %v, %v", u, err)
	}
}

func TestAProxyThatIsNone(t *testing.T) {
	err := connection.Run(t.Context(), connection.Options{Handler: &diary{}, Proxy: "http://a b", Log: zap.NewNop()})
	var ce *chat.ConfigError
	if !errors.As(err, &ce) || strings.Contains(ce.Reason, "a b") {
		t.Errorf("%v", err)
	}
}
