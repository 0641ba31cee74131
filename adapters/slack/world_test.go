package slack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/slack"
)

// A world is the simulator with two apps in one workspace and their people,
// reached in memory.
type world struct {
	t      *testing.T
	srv    *sim.Server
	team   *sim.Team
	bots   map[string]*sim.Bot
	people []*sim.User
	groups []*sim.Channel // group direct messages that are answered always
	open   *sim.Channel   // a channel in which everything is answered
	closed *sim.Channel   // one in which the bot has to be named
	memory *memory
	log    *zap.Logger
	change func(*slack.Config)
	words  i18n.Printer
}

func newWorld(t *testing.T, o sim.Options, app sim.AppOptions) *world {
	w := &world{t: t, srv: sim.New(o), bots: map[string]*sim.Bot{}, memory: &memory{m: map[string][]byte{}}, log: zap.NewNop()}
	t.Cleanup(w.srv.Close)
	w.team = w.srv.AddTeam("Acme")
	for _, account := range []string{"", "second"} {
		w.bots[account] = w.srv.AddApp(app).Install(w.team)
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		w.people = append(w.people, w.team.AddUser(sim.Person{Name: name, RealName: strings.ToUpper(name[:1]) + name[1:]}))
	}
	all := append(slices.Clone(w.people), w.bots[""].User())
	for range 3 {
		w.groups = append(w.groups, w.team.GroupDM(all...))
	}
	w.open = w.team.AddChannel(sim.ChannelOptions{Name: "open", Members: all})
	w.closed = w.team.AddChannel(sim.ChannelOptions{Name: "closed", Members: all})
	return w
}

func (w *world) config(account string) slack.Config {
	b := w.bots[account]
	c := slack.Config{
		Token: secret.Value(b.Token()), AppToken: secret.Value(b.App().Token()), APIURL: w.srv.APIURL(),
		RequireMention: true, ReplyInThread: true, Reactions: true, FreeResponseChats: []string{w.open.ID()},
	}
	for _, g := range w.groups {
		c.FreeResponseChats = append(c.FreeResponseChats, g.ID())
	}
	if w.change != nil {
		w.change(&c)
	}
	return c
}

// adapter makes an adapter over connections of its own.
func (w *world) adapter(c slack.Config, account string) *slack.Adapter {
	w.t.Helper()
	tr := w.srv.Transport()
	w.t.Cleanup(tr.CloseIdleConnections)
	a, err := slack.New(c, slack.Options{
		Account: account, Transport: tr, Socket: w.srv.Dial, Memory: w.memory, Commands: []string{"help", "new", "status"}, Words: w.words, Log: w.log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) Connect(account string) chat.Adapter { return w.adapter(w.config(account), account) }

func (w *world) Wrong() chat.Adapter {
	c := w.config("")
	c.Token = secret.Value(w.Secret() + "9-1-wrong")
	return w.adapter(c, "")
}

// Secret is in the tokens of all bots and of none.
func (w *world) Secret() string { return "xoxb-200000000000" }

func (w *world) Direct(account string, n int) adaptertest.TestChat {
	for len(w.people) <= n {
		w.people = append(w.people, w.team.AddUser(sim.Person{}))
	}
	by := w.people[n]
	return &room{kind: chat.DM, account: account, w: w, c: by.DM(w.bots[account]), by: by}
}

func (w *world) Group(account string, n int) adaptertest.TestChat {
	return &room{kind: chat.Group, account: account, w: w, c: w.groups[n], by: w.people[0]}
}

func (w *world) Redeliver(account string) {
	for _, o := range w.srv.Recorder().Offers() {
		if o.App == w.bots[account].App().ID() {
			w.srv.Redeliver(o.Event)
		}
	}
}

func (w *world) Confirmed(account string) int {
	n := 0
	for _, o := range w.srv.Recorder().Offers() {
		if o.App == w.bots[account].App().ID() && !o.Acked.IsZero() {
			n++
		}
	}
	return n
}

func (w *world) Cut() {
	for _, b := range w.bots {
		b.App().Cut()
	}
}

func (w *world) Swallow() {
	for _, b := range w.bots {
		b.App().Swallow()
	}
}

func (w *world) Faults() []adaptertest.Fault {
	inject := func(f sim.Fault) func() {
		return func() { f.Method = "chat.postMessage"; w.srv.Inject(f) }
	}
	fail := func(code string) func() { return inject(sim.Fault{Kind: sim.Fail, Error: code}) }
	return []adaptertest.Fault{
		{Name: "flood", Inject: inject(sim.Fault{Kind: sim.Fail, Error: "ratelimited", RetryAfter: 149 * time.Second}), Outcome: chat.Transient, After: 149 * time.Second},
		{Name: "a flood without a time", Inject: fail("ratelimited"), Outcome: chat.Transient},
		{Name: "internal error", Inject: fail("internal_error"), Outcome: chat.Uncertain},
		{Name: "fatal error after it was sent", Inject: inject(sim.Fault{Kind: sim.FailAfter, Error: "fatal_error"}), Outcome: chat.Uncertain},
		{Name: "service unavailable", Inject: inject(sim.Fault{Kind: sim.Fail, Error: "service_unavailable", Status: 503}), Outcome: chat.Transient},
		{Name: "bad gateway", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 502}), Outcome: chat.Uncertain},
		{Name: "bad gateway after it was sent", Inject: inject(sim.Fault{Kind: sim.FailAfter, Status: 504}), Outcome: chat.Uncertain},
		{Name: "a proxy's refusal", Inject: inject(sim.Fault{Kind: sim.Fail, Status: 407}), Outcome: chat.Transient},
		{Name: "archived", Inject: fail("is_archived"), Outcome: chat.Permanent},
		{Name: "no such channel", Inject: fail("channel_not_found"), Outcome: chat.Permanent},
		{Name: "too long", Inject: fail("msg_too_long"), Outcome: chat.Permanent},
		{Name: "restricted", Inject: fail("restricted_action"), Outcome: chat.Permanent},
		{Name: "a scope is missing", Inject: fail("missing_scope"), Outcome: chat.Transient},
		{Name: "token revoked", Inject: fail("token_revoked"), Outcome: chat.Transient},
		{Name: "never heard of", Inject: fail("some_new_error"), Outcome: chat.Permanent},
		{Name: "hangs", Inject: inject(sim.Fault{Kind: sim.Hang}), Outcome: chat.Uncertain},
		{Name: "hangs after it was sent", Inject: inject(sim.Fault{Kind: sim.HangAfter}), Outcome: chat.Uncertain},
		{Name: "cut", Inject: inject(sim.Fault{Kind: sim.Cut}), Outcome: chat.Uncertain},
		{Name: "cut after it was sent", Inject: inject(sim.Fault{Kind: sim.CutAfter}), Outcome: chat.Uncertain},
		{Name: "half an answer", Inject: inject(sim.Fault{Kind: sim.CutBody}), Outcome: chat.Uncertain},
		{Name: "garbage", Inject: inject(sim.Fault{Kind: sim.Garbage}), Outcome: chat.Uncertain},
		{Name: "garbage after it was sent", Inject: inject(sim.Fault{Kind: sim.GarbageAfter}), Outcome: chat.Uncertain},
		{Name: "late", Inject: inject(sim.Fault{Delay: 2 * time.Minute}), Outcome: chat.Uncertain},
	}
}

// A room is a channel of the simulator.
type room struct {
	kind    chat.Kind
	account string
	w       *world
	c       *sim.Channel
	by      *sim.User
}

func (r *room) At() chat.Address {
	return chat.Address{Platform: chat.Slack, Account: r.account, Kind: r.kind, Scope: r.w.team.ID(), Chat: r.c.ID()}
}

func (r *room) Say(text string) { r.c.Say(r.by, text) }

func (r *room) Visible() []string { return visible(r.c) }

// visible returns what people read of our messages: the blocks where there are
// any, without the edges between them, else the text.
func visible(c *sim.Channel) []string {
	var out []string
	for _, m := range c.FromBots() {
		text := m.Text
		if len(m.Blocks) > 0 {
			text = sections(m.Blocks)
		}
		out = append(out, strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text))
	}
	return out
}

// sections returns the texts of the sections of a message, one after the other.
func sections(raw json.RawMessage) string {
	var blocks []struct {
		Type string `json:"type"`
		Text struct {
			Text string `json:"text"`
		} `json:"text"`
	}
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, s := range blocks {
		if s.Type == "section" {
			b.WriteString(s.Text.Text)
		}
	}
	return b.String()
}

func (r *room) Remove(id string) {
	if err := r.c.Delete(id); err != nil {
		r.w.t.Error(err)
	}
}

// A memory is what survives a restart.
type memory struct {
	mu     sync.Mutex
	m      map[string][]byte
	writes []time.Time
	err    error
}

func (m *memory) Value(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[key], m.err
}

func (m *memory) SetValue(_ context.Context, key string, v []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m[key], m.writes = v, append(m.writes, time.Now())
	return m.err
}

// inBubble runs test in fake time with a fresh world.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, sim.Options{}, sim.AppOptions{})) })
}

// running starts an adapter and waits until it is connected; the end of the
// test, or the returned function, ends it.
func running(t *testing.T, a chat.Adapter, sink chat.Sink) (end func() error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, sink) }() // end waits for it
	var once sync.Once
	var err error
	end = func() error {
		once.Do(func() { stop(); err = <-ended })
		return err
	}
	t.Cleanup(func() { _ = end() })
	pass(time.Second)
	return end
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// eventually lets time pass until ok, at most for d.
func eventually(t *testing.T, what string, d time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); pass(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", d, what)
		}
	}
}

// said returns the events of an inbox in short.
func said(b *adaptertest.Inbox) []string {
	var out []string
	for _, in := range b.Events() {
		out = append(out, fmt.Sprintf("%s %s %q rule=%s", in.Kind, in.Address.Kind, in.Text, in.IgnoreRule))
	}
	return out
}

// yesterday is a platform whose clock is a day behind ours, and that has a bad day.
type yesterday struct{}

func (yesterday) RoundTrip(*http.Request) (*http.Response, error) {
	date := time.Now().Add(-24 * time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
}

func TestThePlatformTellsByHowMuchOurClockIsAhead(t *testing.T) {
	a, err := slack.New(slack.Config{Token: "xoxb-unreal", AppToken: "xapp-1-A0-unreal"}, slack.Options{Log: zap.NewNop(), Transport: yesterday{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send(t.Context(), chat.Outbound{ID: "o1", To: chat.Address{Platform: chat.Slack, Kind: chat.DM, Chat: "1"}, Text: chat.PlainText("hello")}); err == nil {
		t.Error("it is sent")
	}
	if got := a.Health().ClockAhead.Round(time.Hour); got != 24*time.Hour {
		t.Errorf("ahead by %v", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOverTheNetwork is the one test with connections of the adapter's own, and
// so with the real clock.
func TestOverTheNetwork(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	t.Setenv("https_proxy", "")
	w := newWorld(t, sim.Options{PingEvery: 100 * time.Millisecond}, sim.AppOptions{})
	if _, err := w.srv.Start(); err != nil {
		t.Fatal(err)
	}
	a, err := slack.New(w.config(""), slack.Options{Log: zap.NewNop(), Memory: w.memory})
	if err != nil {
		t.Fatal(err)
	}
	inbox := adaptertest.NewInbox(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, inbox) }() // awaited below
	acked := func(n int) {
		t.Helper()
		err := w.srv.Recorder().WaitCount(ctx, n, func(c sim.Counts) int { return c.Acked })
		if err != nil {
			t.Fatalf("%d of %d events are acknowledged; %+v", w.srv.Recorder().Counts().Acked, n, a.Health())
		}
	}
	dm := w.people[0].DM(w.bots[""])
	dm.Say(w.people[0], "one")
	acked(1)
	w.bots[""].App().Disconnect(sim.Refresh)
	if err := w.srv.Recorder().WaitCount(ctx, 2, func(c sim.Counts) int { return c.Links }); err != nil {
		t.Fatal("there is no second socket")
	}
	dm.Say(w.people[0], "two")
	acked(2)
	at := chat.Address{Platform: chat.Slack, Kind: chat.DM, Scope: w.team.ID(), Chat: dm.ID()}
	if _, err := a.Send(ctx, chat.Outbound{ID: "o1", To: at, Text: chat.PlainText("hello")}); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(inbox.Texts(at), visible(dm)); got != "[one two] [hello]" {
		t.Errorf("got %s", got)
	}
	if h := a.Health(); h.State != chat.Connected || h.Error != "" || h.LastContact.IsZero() {
		t.Errorf("%+v", h)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
