package connection_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	slackgo "github.com/slack-go/slack"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/connection"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
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
				Client: func(c connection.Doer) *slackgo.Client {
					return slackgo.New(bot.Token(), slackgo.OptionAppLevelToken(bot.App().Token()), slackgo.OptionAPIURL(srv.APIURL()), slackgo.OptionHTTPClient(c))
				},
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

func TestAProxyThatIsNone(t *testing.T) {
	err := connection.Run(t.Context(), connection.Options{Handler: &diary{}, Proxy: "http://a b", Log: zap.NewNop()})
	var ce *chat.ConfigError
	if !errors.As(err, &ce) || strings.Contains(ce.Reason, "a b") {
		t.Errorf("%v", err)
	}
}
