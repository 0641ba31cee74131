package discord_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/discord"
)

// heartbeat is how often the simulator wants to hear from its clients.
const heartbeat = 41250 * time.Millisecond

// A world is the simulator with two bots and their people, reached in memory.
type world struct {
	t      *testing.T
	srv    *sim.Server
	bots   map[string]*sim.Bot
	people []*sim.User
	guild  *sim.Guild
	open   []*sim.Channel // in which everything is answered
	closed *sim.Channel   // in which the bot has to be named
	forum  *sim.Channel
	memory *memory
	words  i18n.Printer

	mu    sync.Mutex // guards what follows
	conns []*wireConn
}

func newWorld(t *testing.T, o sim.Options) *world {
	w := &world{t: t, srv: sim.New(o), bots: map[string]*sim.Bot{}, memory: newMemory()}
	t.Cleanup(w.srv.Close)
	for i, account := range []string{"", "second"} {
		w.bots[account] = w.srv.AddBot(sim.BotOptions{Name: fmt.Sprintf("hermes%d", i+1)})
	}
	for i := range 3 {
		w.people = append(w.people, w.srv.AddUser([]string{"ann", "bob", "cid"}[i]))
	}
	w.guild = w.srv.AddGuild("Guild", w.people[0])
	w.guild.Join(w.people...)
	w.guild.Join(w.bots[""].User(), w.bots["second"].User())
	for i := range 3 {
		w.open = append(w.open, w.guild.AddChannel(sim.ChannelOptions{Name: fmt.Sprint("open", i)}))
	}
	w.closed = w.guild.AddChannel(sim.ChannelOptions{Name: "closed"})
	w.forum = w.guild.AddChannel(sim.ChannelOptions{Name: "forum", Kind: sim.Forum})
	return w
}

func (w *world) config(account string) discord.Config {
	c := discord.Config{
		Token: secret.Value(w.bots[account].Token()), RequireMention: true, AutoThread: true, Reactions: true,
	}
	for _, ch := range w.open {
		c.FreeResponseChats = append(c.FreeResponseChats, ch.ID())
	}
	return c
}

// adapter makes an adapter over connections of its own.
func (w *world) adapter(c discord.Config, account string) *discord.Adapter {
	w.t.Helper()
	tr := sim.Transport(w.dial)
	w.t.Cleanup(tr.CloseIdleConnections)
	a, err := discord.New(c, discord.Options{
		Log:     zap.NewNop(),
		Account: account, Transport: tr, Dial: w.srv.Dial, Memory: w.memory, Files: &http.Client{Transport: tr}, Words: w.words,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) Connect(account string) chat.Adapter {
	return w.adapter(w.config(account), account)
}

func (w *world) Wrong() chat.Adapter {
	c := w.config("")
	c.Token = "MTAw.wrong." + secret.Value(w.Secret())
	return w.adapter(c, "")
}

// Secret is in the tokens of all bots and of none.
func (w *world) Secret() string { return "unreal-token-of-a-simulated-bot" }

func (w *world) Direct(account string, n int) adaptertest.TestChat {
	for len(w.people) <= n {
		w.people = append(w.people, w.srv.AddUser(fmt.Sprint("person", len(w.people))))
		w.guild.Join(w.people[len(w.people)-1])
	}
	at := chat.Address{Kind: chat.DM, Account: account}
	return &room{at: at, w: w, c: w.people[n].DM(w.bots[account]), by: w.people[n], bot: w.bots[account]}
}

func (w *world) Group(account string, n int) adaptertest.TestChat {
	at := chat.Address{Kind: chat.Group, Account: account, Scope: w.guild.ID()}
	return &room{at: at, w: w, c: w.open[n], by: w.people[0], bot: w.bots[account]}
}

func (w *world) Redeliver(account string) {
	for _, o := range w.srv.Recorder().Offers("MESSAGE_CREATE") {
		if o.Bot != w.bots[account].ID() {
			continue
		}
		for _, c := range w.srv.Channels() {
			if c.ID() == o.Channel && o.Times > 0 {
				_ = c.Redeliver(o.Message) // one that is gone is not delivered again
			}
		}
	}
}

// Confirmed counts what the adapter will never ask for again: what lies before
// the marks that it has stored.
func (w *world) Confirmed(account string) int {
	raw, err := w.memory.Value(context.Background(), "discord.marks."+w.bots[account].ID())
	if err != nil {
		w.t.Fatal(err)
	}
	var marks map[string]struct {
		At string `json:"at"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &marks); err != nil {
			w.t.Fatal(err)
		}
	}
	n := 0
	for _, c := range w.srv.Channels() {
		for _, m := range c.Messages() {
			if at := marks[c.ID()].At; at != "" && !m.From.IsBot() && m.ID <= at { // of equal length
				n++
			}
		}
	}
	return n
}

func (w *world) Cut() {
	w.srv.CutAll()
	for _, c := range w.take() {
		_ = c.Close()
	}
}

func (w *world) Swallow() {
	w.srv.Swallow()
	for _, c := range w.take() {
		c.dead.Store(true)
	}
}

func (w *world) take() []*wireConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.conns
	w.conns = nil
	return out
}

func (w *world) Faults() []adaptertest.Fault {
	inject := func(f sim.Fault) func() {
		return func() { f.Route = sim.RouteCreateMessage; w.srv.Inject(f) }
	}
	fail := func(status, code int) func() {
		return inject(sim.Fault{Kind: sim.Fail, Status: status, Code: code, Message: "refused"})
	}
	return []adaptertest.Fault{
		{Name: "rate of the channel", Inject: inject(sim.Fault{Kind: sim.Fail, RetryAfter: 149 * time.Second}), Outcome: chat.Transient, After: 149 * time.Second},
		{Name: "internal error", Inject: fail(500, 0), Outcome: chat.Uncertain},
		{Name: "bad gateway", Inject: fail(502, 0), Outcome: chat.Uncertain},
		{Name: "bad gateway after it was sent", Inject: inject(sim.Fault{Kind: sim.FailAfter, Status: 502}), Outcome: chat.Uncertain},
		{Name: "a page of a proxy", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 504, NoJSON: true}), Outcome: chat.Uncertain},
		{Name: "a page that refuses", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 403, NoJSON: true}), Outcome: chat.Transient},
		{Name: "no direct messages", Inject: fail(403, 50007), Outcome: chat.Permanent},
		{Name: "no such channel", Inject: fail(404, 10003), Outcome: chat.Permanent},
		{Name: "no rights", Inject: fail(403, 50013), Outcome: chat.Permanent},
		{Name: "bad token", Inject: fail(401, 0), Outcome: chat.Transient},
		{Name: "hangs", Inject: inject(sim.Fault{Kind: sim.Hang}), Outcome: chat.Uncertain},
		{Name: "hangs after it was sent", Inject: inject(sim.Fault{Kind: sim.HangAfter}), Outcome: chat.Uncertain},
		{Name: "cut", Inject: inject(sim.Fault{Kind: sim.Cut}), Outcome: chat.Uncertain},
		{Name: "cut after it was sent", Inject: inject(sim.Fault{Kind: sim.CutAfter}), Outcome: chat.Uncertain},
		{Name: "half an answer", Inject: inject(sim.Fault{Kind: sim.CutBody}), Outcome: chat.Uncertain},
		{Name: "garbage", Inject: inject(sim.Fault{Kind: sim.GarbageAfter}), Outcome: chat.Uncertain},
		{Name: "late", Inject: inject(sim.Fault{Kind: sim.Slow, Delay: 2 * time.Minute}), Outcome: chat.Uncertain},
	}
}

// A room is a channel of the simulator.
type room struct {
	at  chat.Address
	w   *world
	c   *sim.Channel
	by  *sim.User
	bot *sim.Bot
}

func (r *room) At() chat.Address {
	at := r.at
	at.Platform, at.Chat = chat.Discord, r.c.ID()
	return at
}

func (r *room) Say(text string) { r.c.Say(r.by, text) }

func (r *room) Visible() []string { return r.c.Visible(r.bot.User()) }

func (r *room) Remove(id string) {
	if err := r.c.Delete(id); err != nil {
		r.w.t.Error(err)
	}
}

// A wireConn can be made to carry nothing more while it stands.
type wireConn struct {
	net.Conn
	dead atomic.Bool
	gone chan struct{}
	once sync.Once
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := w.srv.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	wc := &wireConn{Conn: c, gone: make(chan struct{})}
	w.mu.Lock()
	w.conns = append(w.conns, wc)
	w.mu.Unlock()
	return wc, nil
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.dead.Load() {
		<-c.gone
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.dead.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *wireConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// A memory is what survives a restart.
type memory struct {
	mu     sync.Mutex
	m      map[string][]byte
	writes int
}

func newMemory() *memory { return &memory{m: map[string][]byte{}} }

// clone returns a copy of what is there now.
func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{m: maps.Clone(m.m)}
}

func (m *memory) Value(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[key], nil
}

func (m *memory) SetValue(_ context.Context, key string, v []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m[key] = v
	m.writes++
	return nil
}

// yesterday is a platform whose clock is a day behind ours, and that has a bad day.
type yesterday struct{}

func (yesterday) RoundTrip(*http.Request) (*http.Response, error) {
	date := time.Now().Add(-24 * time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestThePlatformTellsByHowMuchOurClockIsAhead(t *testing.T) {
	a, err := discord.New(discord.Config{Token: "MTA5.unreal.unreal"}, discord.Options{Memory: newMemory(), Log: zap.NewNop(), Transport: yesterday{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: chat.Address{Platform: chat.Discord, Kind: chat.DM, Chat: "1"}, Text: chat.PlainText("hello")}); err == nil {
		t.Error("it is sent")
	}
	if got := a.Health().ClockAhead.Round(time.Hour); got != 24*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
