package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hermesd/adapters/telegram"
	"hermesd/agent"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/retry"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
	"hermesd/internal/sim/llm"
	sim "hermesd/internal/sim/telegram"
	"hermesd/storage/bolt"
)

// A world is a home directory, a platform and a model that outlive the daemons. It must be
// used in a synctest bubble.
type world struct {
	t         *testing.T
	dir       string
	platform  *sim.Server
	bot       *sim.Bot
	model     *llm.Server
	people    []*sim.User
	forum     *sim.Chat
	topic     int
	mode      inbox.Mode
	streaming bool
	rough     bool

	*life       // the current one
	lives []int // number of points that each life passed
	died  []string

	mu sync.Mutex // guards the fields below
	// unsure counts the messages that were being sent at a kill, or when the platform went
	// off the network.
	unsure   int
	receipts map[post]bool
	runs     map[string]int // runs of the at-most-once tool, by input
}

// A post identifies a message of the platform.
type post struct {
	chat int64
	id   int
}

type options struct {
	mode      inbox.Mode
	streaming bool
	rough     bool // turns may fail if their users are notified
	people    int
	seed      uint64
}

var account = chat.Account{Platform: chat.Telegram}

func newWorld(t *testing.T, o options) *world {
	w := &world{
		t: t, dir: gatewaytest.MemoryDir(t), mode: o.mode, streaming: o.streaming, rough: o.rough,
		platform: sim.New(sim.Options{Latency: 40 * time.Millisecond, Seed: o.seed}),
		model:    llm.New(llm.Options{Reply: answers, FirstByte: 200 * time.Millisecond}),
		receipts: map[post]bool{}, runs: map[string]int{},
	}
	w.bot = w.platform.AddBot(sim.BotOptions{Username: "hermes_bot"})
	for range o.people {
		w.people = append(w.people, w.platform.AddUser(sim.Person{}))
	}
	w.forum = w.platform.AddChat(sim.ChatOptions{Forum: true, Title: "Forum", Members: w.people, Bots: []*sim.Bot{w.bot}})
	w.topic = w.forum.AddTopic(w.people[0], "News")
	return w
}

func (w *world) file() string { return filepath.Join(w.dir, "hermesd.db") }
func (w *world) left() string { return filepath.Join(w.dir, "left.db") }

// direct returns the direct chat of a person.
func (w *world) direct(n int) *sim.Chat { return w.people[n].Chat(w.bot) }

// start starts a life that is killed at a point, or not at all if at is 0.
func (w *world) start(at int) {
	w.t.Helper()
	l := &life{w: w, at: at, ran: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(context.Background())
	var err error
	if l.store, err = bolt.Open(context.Background(), w.file(), bolt.Options{}); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.life = l
	w.mu.Unlock()
	w.countUnsure()
	store := mortalStore{l.store, l}
	tools, err := tool.NewSet(&pay{l}, &look{l})
	if err != nil {
		w.t.Fatal(err)
	}
	l.agent = agent.New(agent.Config{}, w.provider(l), tools)
	log := zaptest.NewLogger(w.t, zaptest.Level(zap.DPanicLevel))
	tr := w.platform.Transport()
	l.idle = append(l.idle, tr.CloseIdleConnections)
	l.adapter, err = telegram.New(telegram.Config{Token: secret.Value(w.bot.Token()), BaseURL: w.platform.URL()},
		telegram.Options{Transport: mortalWire{tr, l, telegramCall}, Memory: store, Log: log})
	if err != nil {
		w.t.Fatal(err)
	}
	connected := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: chat.ProfilesOf(telegram.Profile(), schedule.Profile()), ReplyToMode: map[chat.Account]string{account: "first"}})
	connected.Add(account, l.adapter)
	l.gateway = gatewaytest.New(gatewaytest.Options{
		Store: store, Agent: l.agent, Accounts: connected, Access: w.access(),
		Prefix: func(r session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Session: string(r.ID), Started: r.Created, Tools: tools.Tools()}), nil
		},
		Model: "claude", CacheTTL: "5m", Mode: w.mode, Policy: session.KeyPolicy{GroupPerUser: true}, Uncertain: outbox.Resend,
		Streaming: w.streaming, Backlog: 24 * time.Hour, Control: control.Options{Version: "test"}, Location: time.UTC,
		Limits: gateway.Config{
			MaxConcurrentTurns: 64, MaxQueuedMessages: 100, TranscriptCacheBytes: 1 << 20, DrainTimeout: time.Minute,
			AutoContinueFreshness: time.Hour, RestartNotice: true, TurnTimeout: 30 * time.Minute,
		},
		Log: log,
	})
	if err := l.gateway.Start(context.Background()); err != nil && !l.passed("started") {
		w.t.Fatal(err)
	}
	go func() { // rest waits for it
		defer close(l.ran)
		if err := l.adapter.Run(l.ctx, l.gateway); err != nil {
			w.t.Errorf("the adapter ended: %v", err)
		}
	}()
}

func (w *world) provider(l *life) *retry.Provider {
	p := anthropic.New(anthropic.Options{
		BaseURL: w.model.URL, Key: "sk-simulated",
		HTTP: &http.Client{Transport: mortalWire{w.model.Transport(), l, modelCall}},
	})
	return retry.New([]retry.Target{{Provider: p, Model: "claude"}}, retry.Options{Chance: func() float64 { return 0.5 }})
}

func (w *world) access() *access.Checker {
	var ids []string
	for _, u := range w.people {
		ids = append(ids, strconv.FormatInt(u.ID(), 10))
	}
	c, err := access.New(access.Policy{Accounts: map[chat.Account]access.AccountRules{account: {AllowFrom: ids}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// countUnsure counts the messages of which it is unknown whether they arrived: at the start
// of a life those of the last one.
func (w *world) countUnsure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil {
		return
	}
	rows, _, err := w.store.Outbox(context.Background(), outbox.Query{})
	if err != nil && !errors.Is(err, bolt.ErrClosed) {
		w.t.Error(err)
	}
	for _, r := range rows {
		if r.Delete == 0 && (r.State == outbox.Attempting || r.State == outbox.Uncertain) {
			w.unsure++
		}
	}
}

// story returns all events in the chats, for the log of a failed test.
func (w *world) story() string {
	var b strings.Builder
	for _, c := range w.platform.Chats() {
		fmt.Fprintf(&b, "chat %d\n", c.ID())
		for _, m := range c.Messages() {
			fmt.Fprintf(&b, "  %s %d", m.Sent.Format("04:05.000"), m.ID)
			if m.ReplyTo != 0 {
				fmt.Fprintf(&b, " to %d", m.ReplyTo)
			}
			for _, v := range m.Versions {
				fmt.Fprintf(&b, " %.50q ->", v.Text)
			}
			fmt.Fprintf(&b, " %.50q", m.Text)
			if len(m.Text) > 50 {
				fmt.Fprintf(&b, "…%.20q", m.Text[len(m.Text)-20:])
			}
			if !m.Deleted.IsZero() {
				b.WriteString(" deleted")
			}
			b.WriteString("\n")
		}
	}
	for _, c := range w.platform.Recorder().Calls() {
		if c.Method != "getupdates" && c.Method != "sendchataction" {
			fmt.Fprintf(&b, "  %s %s to %d: %d %v %v %q\n", c.At.Format("04:05.000"), c.Method, c.Chat, c.Message, c.Handled, c.Fault, c.Error)
		}
	}
	return b.String()
}

// receipt records that the store has the receipt of a message.
func (w *world) receipt(ctx context.Context, s store.Store, st outbox.Settlement) {
	row, err := s.Row(ctx, st.ID)
	if err != nil {
		w.t.Errorf("row %s: %v", st.ID, err)
		return
	}
	id, _ := strconv.ParseInt(row.Msg.To.Chat, 10, 64)
	n, _ := strconv.Atoi(st.Receipt.ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receipts[post{id, n}] = true
}

// close closes the world; the current life must have ended.
func (w *world) close() {
	w.platform.Close()
	w.model.Close()
}

// An act is an event of a script after a pause.
type act struct {
	after time.Duration
	do    func()
}

// kill kills the current life. It may be called from any goroutine.
func (w *world) kill() {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l != nil {
		l.kill()
	}
}

// play runs a script while daemons are killed: each at its point, and the next one starts
// two seconds later; the last one is not killed. It returns when the script has ended and
// nothing is left to do.
func (w *world) play(script []act, deaths ...int) {
	w.t.Helper()
	over := make(chan struct{})
	go func() { // awaited below
		defer close(over)
		for _, a := range script {
			time.Sleep(a.after)
			a.do()
		}
	}()
	for i := 0; ; i++ {
		at := 0
		if i < len(deaths) {
			at = deaths[i]
		}
		w.start(at)
		dead := w.live(over)
		w.lives, w.died = append(w.lives, w.n), append(w.died, w.diedAt)
		if !dead {
			break
		}
		w.bury()
		time.Sleep(2 * time.Second)
	}
	<-over
}

// live returns true when the current life has ended, and false when the script has ended
// and nothing has happened for a while.
func (w *world) live(over <-chan struct{}) (dead bool) {
	w.t.Helper()
	select {
	case <-w.ctx.Done():
		return true
	case <-over:
	}
	for calm, waited := 0, 0; calm < 4; waited++ {
		select {
		case <-w.ctx.Done():
			return true
		case <-time.After(5 * time.Second):
		}
		synctest.Wait()
		if calm++; !w.done() {
			calm = 0
		}
		if waited > 10_000 {
			w.t.Errorf("after %v there is still something to do: %+v, %d updates", 5*time.Second*time.Duration(waited), w.store.Stats(), w.bot.Pending())
			return false
		}
	}
	return false
}

// done reports whether nothing is waiting in the store or at the platform.
func (w *world) done() bool {
	s := w.store.Stats()
	return s.Waiting+s.Claimed+s.Outbox == 0 && w.bot.Pending() == 0
}

var token = regexp.MustCompile(`#m[0-9]+#`)

// whole is the end of each answer, which a preview of a part of it does not have.
const whole = " Done."

// answers returns the answer to a message, determined by its first word and its tokens. The
// tokens are at its start, so that a preview that stays counts as an answer.
func answers(r llm.Request) llm.Reply {
	said := r.Newest()
	tokens := strings.Join(asking(r), " ")
	args := fmt.Sprintf(`{"for":%q}`, tokens)
	asks := func(word string) bool { return strings.Contains(said, word) }
	switch {
	case len(r.Results()) > 0:
	case asks("pay"):
		return llm.Reply{Text: "I pay.", Calls: []llm.Call{{Name: "pay", Args: args}}}
	case asks("look"):
		return llm.Reply{Calls: []llm.Call{{Name: "look", Args: args}}}
	case asks("slow"):
		return llm.Reply{Text: tokens + " takes " + strings.Repeat("some time ", 12) + whole[1:], PerDelta: 300 * time.Millisecond}
	case asks("long"):
		return llm.Reply{Text: tokens + " is long: " + strings.Repeat("word ", 1000) + whole[1:], Pieces: 4000}
	}
	return llm.Reply{Text: tokens + " has this answer." + whole}
}

// asking returns the tokens in the user messages since the last answer.
func asking(r llm.Request) (tokens []string) {
	for _, m := range slices.Backward(r.Messages) {
		goesOn := slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Type == "tool_use" || b.Text == "[No answer.]" })
		if m.Role == "assistant" && !goesOn {
			break
		}
		var here []string
		for _, b := range m.Blocks {
			if m.Role == "user" && b.Type == "text" {
				here = append(here, token.FindAllString(b.Text, -1)...)
			}
		}
		tokens = append(here, tokens...)
	}
	return tokens
}

// pay is an at-most-once tool.
type pay struct{ l *life }

func (p *pay) Spec() tool.Spec { return spec("pay", tool.AtMostOnce) }

func (p *pay) Run(_ context.Context, c tool.Call) (string, error) {
	err := p.l.pass("tool", func() error {
		w := p.l.w
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runs[string(c.Input)]++
		return nil
	})
	return "paid", err
}

// look is a pure tool that takes a moment.
type look struct{ l *life }

func (l *look) Spec() tool.Spec { return spec("look", tool.Pure) }

func (l *look) Run(ctx context.Context, _ tool.Call) (string, error) {
	if l.l.passed("before looking") {
		return "", errDead
	}
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
	}
	if l.l.passed("after looking") {
		return "", errDead
	}
	return "seen", ctx.Err()
}

func spec(name string, e tool.Effect) tool.Spec {
	s := tool.Spec{Effect: e}
	s.Name, s.Description, s.Schema = name, name+"s", json.RawMessage(`{"type":"object"}`)
	return s
}
