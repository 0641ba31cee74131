package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage/bolt"
)

// A harness is a home directory, a room and a model, which outlive the daemons
// that are started and killed in them.
type harness struct {
	t     *testing.T
	dir   string
	room  *room
	model *llmtest.Scripted
	tools []tool.Tool
	set   func(*gateway.Options)

	extra string   // the operator's own text in the prompt
	notes []string // what is to be told of the prompt

	store *bolt.Store
	gw    *gateway.Gateway
	sent  int
}

func newHarness(t *testing.T, answers ...llmtest.Answer) *harness {
	return &harness{t: t, dir: home(t), room: newRoom(), model: llmtest.NewScripted(answers...)}
}

// home is a directory in memory where there is such a thing: what these tests
// kill are processes, not machines.
func home(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "hermesd-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

var account = chat.Account{Platform: chat.Telegram}

// start starts a daemon.
func (w *harness) start() {
	w.t.Helper()
	store, err := bolt.Open(w.t.Context(), filepath.Join(w.dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
	tools, err := tool.NewSet(w.tools...)
	if err != nil {
		w.t.Fatal(err)
	}
	o := gateway.Options{
		Store: store, Agent: agent.New(agent.Config{}, w.model, tools),
		Adapters: map[chat.Account]chat.Adapter{account: w.room},
		Access:   allowed(w.t),
		Prefix: func(r session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Session: string(r.ID), Started: r.Created, Platform: string(r.Address.Platform), Tools: tools.Tools(), SystemMessage: w.extra}), w.notes
		},
		ReplyToMode: map[chat.Account]string{account: "first"}, Model: "scripted",
		Mode: inbox.Interrupt, Policy: session.KeyPolicy{GroupPerUser: true}, Uncertain: outbox.Resend,
		Streaming: true, Backlog: 24 * time.Hour, Version: "test", Location: time.UTC,
		Limits: gateway.Config{
			MaxConcurrentTurns: 64, MaxWaiting: 100, CacheBytes: 1 << 20, DrainTimeout: time.Minute,
			AutoContinueFreshness: time.Hour, RestartNotice: true, TurnTimeout: 30 * time.Minute,
		},
		Log: zaptest.NewLogger(w.t, zaptest.Level(zap.ErrorLevel)),
	}
	if w.set != nil {
		w.set(&o)
	}
	w.gw = gateway.New(o)
	if err := w.gw.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// stop ends the daemon in good order.
func (w *harness) stop() {
	w.t.Helper()
	w.declared()
	if err := w.gw.Stop(context.Background()); err != nil {
		w.t.Errorf("stop: %v", err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// declared reports a prefix that broke although nobody said why.
func (w *harness) declared() {
	w.t.Helper()
	if n := w.gw.Status().Breaks["undeclared"]; n > 0 {
		w.t.Errorf("%d prefixes broke undeclared", n)
	}
}

// kill ends the daemon as SIGKILL would: the next one finds what was in the file
// at this moment. Nothing may be under way in the store.
func (w *harness) kill() {
	w.t.Helper()
	live, left := filepath.Join(w.dir, "hermesd.db"), filepath.Join(w.dir, "left.db")
	if err := copyFile(left, live); err != nil {
		w.t.Fatal(err)
	}
	w.declared()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the dead do not drain
	_ = w.gw.Stop(ctx)
	_ = w.store.Close()
	if err := os.Rename(left, live); err != nil {
		w.t.Fatal(err)
	}
}

// say has a person send text to a direct chat, and returns once it is accepted.
func (w *harness) say(chatID, text string) string { return w.offer(w.message(chatID, text)) }

func (w *harness) message(chatID, text string) chat.Inbound {
	w.sent++
	id := fmt.Sprint(w.sent)
	return chat.Inbound{
		IdempotencyKey: chatID + ":" + id, ID: id, Kind: chat.Message, Text: text, SentAt: time.Now(), Addressed: true,
		Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: chatID},
		Sender:  chat.Person{ID: chatID, Name: "Ann " + chatID},
	}
}

func (w *harness) offer(in chat.Inbound) string {
	w.t.Helper()
	if err := w.gw.Accept(w.t.Context(), []chat.Inbound{in}); err != nil {
		w.t.Fatalf("accept %q: %v", in.Text, err)
	}
	return in.ID
}

// settle lets everything happen that happens within d.
func (w *harness) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcome returns how the message ended.
func (w *harness) outcome(key string) string {
	w.t.Helper()
	chains, err := w.store.MessageHistory(w.t.Context(), key)
	if err != nil || len(chains) != 1 {
		w.t.Fatalf("why %s: %d chains, %v", key, len(chains), err)
	}
	o := chains[0].Entry.Outcome
	switch {
	case o == nil:
		return string(chains[0].Entry.State)
	case o.MergedInto != 0:
		return fmt.Sprintf("%s(with %s)", o.Result, o.MergedInto)
	case o.Reason != "":
		return fmt.Sprintf("%s(%s)", o.Result, o.Reason)
	}
	return string(o.Result)
}

// transcript returns what is stored of the newest session.
func (w *harness) transcript() []llm.Message {
	w.t.Helper()
	recs, err := w.store.Sessions(w.t.Context(), 1)
	if err != nil || len(recs) == 0 {
		w.t.Fatalf("sessions: %v, %d", err, len(recs))
	}
	rows, err := w.store.Transcript(w.t.Context(), recs[0].ID, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make([]llm.Message, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal(r, &out[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := llm.ValidateMessages(out); err != nil {
		w.t.Errorf("the stored transcript is not legal: %v", err)
	}
	return out
}

// open returns the entries and rows that have not come to their end.
func (w *harness) open() (lanes []inbox.Lane, rows []outbox.Row) {
	w.t.Helper()
	lanes, err := w.store.Lanes(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	rows, err = w.store.Outbox(w.t.Context(), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return lanes, rows
}

type sessionRecord = session.Record

// allowed lets everybody in but the person 666.
func allowed(t testing.TB) *access.Checker {
	t.Helper()
	ids := []string{"7", "8", "9"}
	for i := range 200 {
		ids = append(ids, fmt.Sprint(1000+i))
	}
	c, err := access.New(access.Policy{Accounts: map[chat.Account]access.AccountRules{account: {AllowFrom: ids}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func noTools(t testing.TB) tool.Set {
	t.Helper()
	s, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
