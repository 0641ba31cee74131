package telegram_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/telegram"
)

// A world is the simulator with two bots and their people, reached in memory.
type world struct {
	t      *testing.T
	srv    *sim.Server
	bots   map[string]*sim.Bot
	people []*sim.User
	groups []*sim.Chat
	closed *sim.Chat // the group in which the bot has to be named
	forum  *sim.Chat
	topic  int
	memory *memory

	mu    sync.Mutex // guards what follows
	conns []*wireConn
	paths map[string]string // file ids that lead elsewhere
}

func newWorld(t *testing.T, o sim.Options) *world {
	w := &world{t: t, srv: sim.New(o), bots: map[string]*sim.Bot{}, memory: newMemory(), paths: map[string]string{}}
	t.Cleanup(w.srv.Close)
	for i, account := range []string{"", "second"} {
		w.bots[account] = w.srv.AddBot(sim.BotOptions{Username: fmt.Sprintf("hermes%d_bot", i+1), Topics: true})
	}
	for range 3 {
		w.people = append(w.people, w.srv.AddUser(sim.Person{}))
	}
	bots := []*sim.Bot{w.bots[""], w.bots["second"]}
	for i := range 3 {
		w.groups = append(w.groups, w.srv.AddChat(sim.ChatOptions{Type: sim.Supergroup, Title: fmt.Sprint("Group ", i), Members: w.people, Bots: bots[:1]}))
	}
	w.closed = w.srv.AddChat(sim.ChatOptions{Type: sim.Supergroup, Title: "Closed", Members: w.people, Bots: bots[:1]})
	w.forum = w.srv.AddChat(sim.ChatOptions{Forum: true, Title: "Forum", Members: w.people, Bots: bots[:1]})
	w.topic = w.forum.AddTopic(w.people[0], "News")
	return w
}

func (w *world) config(account string) telegram.Config {
	c := telegram.Config{Token: secret.Value(w.bots[account].Token()), BaseURL: w.srv.URL(), RequireMention: true}
	for _, g := range append(slices.Clone(w.groups), w.forum) {
		c.FreeResponseChats = append(c.FreeResponseChats, strconv.FormatInt(g.ID(), 10))
	}
	return c
}

// adapter makes an adapter over connections of its own.
func (w *world) adapter(c telegram.Config, account string) *telegram.Adapter {
	w.t.Helper()
	tr := &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 64}
	w.t.Cleanup(tr.CloseIdleConnections)
	a, err := telegram.New(c, telegram.Options{Log: zap.NewNop(), Account: account, Transport: &detour{w: w, Transport: tr}, Memory: w.memory})
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
	c.Token = "123456:" + secret.Value(w.Secret())
	return w.adapter(c, "")
}

// Secret is in the tokens of all bots and of none.
func (w *world) Secret() string { return "AA000000000000000000" }

func (w *world) Direct(account string, n int) adaptertest.TestChat {
	for len(w.people) <= n {
		w.people = append(w.people, w.srv.AddUser(sim.Person{}))
	}
	return &room{at: chat.Address{Kind: chat.DM, Account: account}, w: w, c: w.people[n].Chat(w.bots[account]), by: w.people[n]}
}

func (w *world) Group(account string, n int) adaptertest.TestChat {
	return &room{at: chat.Address{Kind: chat.Group, Account: account}, w: w, c: w.groups[n], by: w.people[0]}
}

func (w *world) Redeliver(account string) {
	b := w.bots[account]
	for _, o := range w.srv.Recorder().Offers() {
		if o.Bot == b.ID() {
			b.Repeat(o.Update)
		}
	}
}

func (w *world) Confirmed(account string) int {
	n := 0
	for _, o := range w.srv.Recorder().Offers() {
		if o.Bot == w.bots[account].ID() && !o.Confirmed.IsZero() {
			n++
		}
	}
	return n
}

func (w *world) Cut() {
	for _, c := range w.take() {
		_ = c.Close()
	}
}

func (w *world) Swallow() {
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
		return func() { f.Method = "sendMessage"; w.srv.Inject(f) }
	}
	return []adaptertest.Fault{
		{Name: "flood", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 429, RetryAfter: 149 * time.Second}), Outcome: chat.Transient, After: 149 * time.Second},
		{Name: "internal error", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 500}), Outcome: chat.Transient},
		{Name: "bad gateway", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 502}), Outcome: chat.Uncertain},
		{Name: "bad gateway after it was sent", Inject: inject(sim.Fault{Kind: sim.FailAfter, Status: 502}), Outcome: chat.Uncertain},
		{Name: "a proxy's page", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 504, NoJSON: true}), Outcome: chat.Uncertain},
		{Name: "blocked", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 403, Description: "Forbidden: bot was blocked by the user"}), Outcome: chat.Permanent},
		{Name: "no such chat", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 400, Description: "Bad Request: chat not found"}), Outcome: chat.Permanent},
		{Name: "hangs", Inject: inject(sim.Fault{Kind: sim.Hang}), Outcome: chat.Uncertain},
		{Name: "hangs after it was sent", Inject: inject(sim.Fault{Kind: sim.HangAfter}), Outcome: chat.Uncertain},
		{Name: "cut", Inject: inject(sim.Fault{Kind: sim.Cut}), Outcome: chat.Uncertain},
		{Name: "cut after it was sent", Inject: inject(sim.Fault{Kind: sim.CutAfter}), Outcome: chat.Uncertain},
		{Name: "half an answer", Inject: inject(sim.Fault{Kind: sim.CutBody}), Outcome: chat.Uncertain},
		{Name: "garbage", Inject: inject(sim.Fault{Kind: sim.GarbageAfter}), Outcome: chat.Uncertain},
		{Name: "late", Inject: inject(sim.Fault{Kind: sim.Slow, Delay: 2 * time.Minute}), Outcome: chat.Uncertain},
	}
}

// A room is a chat of the simulator.
type room struct {
	at chat.Address
	w  *world
	c  *sim.Chat
	by *sim.User
}

func (r *room) At() chat.Address {
	at := r.at
	at.Platform, at.Chat = chat.Telegram, strconv.FormatInt(r.c.ID(), 10)
	return at
}

func (r *room) Say(text string) { r.c.Say(r.by, text) }

func (r *room) Visible() []string {
	var out []string
	for _, m := range r.c.FromBots() {
		out = append(out, m.Text)
	}
	return out
}

func (r *room) Remove(id string) {
	n, _ := strconv.Atoi(id)
	if err := r.c.Delete(n); err != nil {
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

// A detour answers getFile for files that the simulator would never name so.
type detour struct {
	*http.Transport
	w *world
}

func (d *detour) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/getFile") {
		return d.Transport.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	d.w.mu.Lock()
	paths := maps.Clone(d.w.paths)
	d.w.mu.Unlock()
	for id, path := range paths {
		if bytes.Contains(body, []byte(id)) {
			answer := fmt.Sprintf(`{"ok":true,"result":{"file_id":%q,"file_path":%q}}`, id, path)
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return d.Transport.RoundTrip(r)
}

// A memory is what survives a restart.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func newMemory() *memory { return &memory{m: map[string][]byte{}} }

func (m *memory) Value(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[key], nil
}

func (m *memory) SetValue(_ context.Context, key string, v []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m[key] = v
	return nil
}

// yesterday is a platform whose clock is a day behind ours, and that has a bad day.
type yesterday struct{}

func (yesterday) RoundTrip(*http.Request) (*http.Response, error) {
	date := time.Now().Add(-24 * time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestThePlatformTellsByHowMuchOurClockIsAhead(t *testing.T) {
	a, err := telegram.New(telegram.Config{Token: "123456:unreal"}, telegram.Options{Log: zap.NewNop(), Transport: yesterday{}, Memory: newMemory()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "1"}, Text: chat.PlainText("hello")}); err == nil {
		t.Error("it is sent")
	}
	if got := a.Health().ClockAhead.Round(time.Hour); got != 24*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
