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

	"hermesd/adapters/telegram"
	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
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
	"hermesd/gateway/overlay"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/storage/bolt"
)

// A harness holds a home directory, a fake adapter and a scripted model, which outlive
// the daemons that are started and killed.
type harness struct {
	t         *testing.T
	dir       string
	adapter   *fakeAdapter
	model     *llmtest.Scripted
	tools     []tool.Tool
	configure func(*gatewaytest.Options)

	systemMessage string   // the operator's system message
	promptNotices []string // notices about the prompt

	store     *bolt.Store
	gw        *pipeline.Pipeline
	sendCount int
}

func newHarness(t *testing.T, answers ...llmtest.Answer) *harness {
	return &harness{t: t, dir: gatewaytest.MemoryDir(t), adapter: newFakeAdapter(), model: llmtest.NewScripted(answers...)}
}

var account = chat.Account{Platform: chat.Telegram}

// accountsOf returns the accounts of a daemon whose only adapter is a.
func accountsOf(a chat.Adapter) *accounts.Set {
	p := telegram.Profile()
	if a.Capabilities().RawMarkdown { // as the HTTP API
		p.Unasked, p.Unattended, p.Answers = false, true, true
	}
	s := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: chat.ProfilesOf(p, schedule.Profile()), ReplyToMode: map[chat.Account]string{account: "first"}})
	s.Add(account, a)
	return s
}

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
	o := gatewaytest.Options{
		Overlay: overlay.New(overlay.Options{Location: time.UTC, Note: gatewaytest.NoNote}, overlay.Settings{}),
		Store:   store, Agent: agent.New(agent.Config{}, w.model, tools),
		Accounts: accountsOf(w.adapter), Access: defaultChecker(w.t),
		Prefix: func(r session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Session: string(r.ID), Started: r.Created, Hint: chat.ProfilesOf(telegram.Profile()).Of(r.Address.Platform).Hint, Tools: tools.Tools(), SystemMessage: w.systemMessage}), w.promptNotices
		},
		Model: "scripted", Mode: inbox.Interrupt, Policy: session.KeyPolicy{GroupPerUser: true}, Uncertain: outbox.Resend,
		Streaming: true, Backlog: 24 * time.Hour, Control: control.Options{Version: "test"}, Location: time.UTC,
		Limits: gateway.Config{
			MaxConcurrentTurns: 64, MaxQueuedMessages: 100, TranscriptCacheBytes: 1 << 20, DrainTimeout: time.Minute,
			AutoContinueFreshness: time.Hour, RestartNotice: true, TurnTimeout: 30 * time.Minute,
		},
		Log: zaptest.NewLogger(w.t, zaptest.Level(zap.ErrorLevel)),
	}
	if w.configure != nil {
		w.configure(&o)
	}
	w.gw = gatewaytest.New(o)
	if err := w.gw.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// stop shuts the daemon down.
func (w *harness) stop() {
	w.t.Helper()
	w.checkBreaks()
	if err := w.gw.Stop(context.Background()); err != nil {
		w.t.Errorf("stop: %v", err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// checkBreaks reports undeclared prefix breaks.
func (w *harness) checkBreaks() {
	w.t.Helper()
	if n := w.gw.Control().Status().Breaks["undeclared"]; n > 0 {
		w.t.Errorf("%d prefixes broke undeclared", n)
	}
}

// kill ends the daemon like SIGKILL: the next one finds the store file of this moment.
// The store must be idle.
func (w *harness) kill() {
	w.t.Helper()
	live, left := filepath.Join(w.dir, "hermesd.db"), filepath.Join(w.dir, "left.db")
	if err := copyFile(left, live); err != nil {
		w.t.Fatal(err)
	}
	w.checkBreaks()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no drain
	_ = w.gw.Stop(ctx)
	_ = w.store.Close()
	if err := os.Rename(left, live); err != nil {
		w.t.Fatal(err)
	}
}

// sendText sends text in a direct chat and returns the message ID once it is accepted.
func (w *harness) sendText(chatID, text string) string { return w.accept(w.newMessage(chatID, text)) }

func (w *harness) newMessage(chatID, text string) chat.Inbound {
	w.sendCount++
	id := fmt.Sprint(w.sendCount)
	return chat.Inbound{
		IdempotencyKey: chatID + ":" + id, ID: id, Kind: chat.Message, Text: text, SentAt: time.Now(), Addressed: true,
		Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: chatID},
		Sender:  chat.Person{ID: chatID, Name: "Ann " + chatID},
	}
}

func (w *harness) accept(in chat.Inbound) string {
	w.t.Helper()
	if err := w.gw.Accept(w.t.Context(), []chat.Inbound{in}); err != nil {
		w.t.Fatalf("accept %q: %v", in.Text, err)
	}
	return in.ID
}

// advance lets d pass and waits until all goroutines are blocked.
func (w *harness) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcome returns the outcome of a message.
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

// transcript returns the stored transcript of the newest session.
func (w *harness) transcript() []llm.Message {
	w.t.Helper()
	recs, err := w.store.Sessions(w.t.Context(), session.Query{Max: 1})
	if err != nil || len(recs) == 0 {
		w.t.Fatalf("sessions: %v, %d", err, len(recs))
	}
	rows, err := w.store.Rows(w.t.Context(), recs[0].ID, recs[0].Active())
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

// unfinished returns the lanes with unfinished entries and the unsent rows.
func (w *harness) unfinished() (lanes []inbox.Lane, rows []outbox.Row) {
	w.t.Helper()
	lanes, err := w.store.Lanes(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	rows, _, err = w.store.Outbox(w.t.Context(), outbox.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	return lanes, rows
}

type sessionRecord = session.Record

// defaultChecker returns a checker that allows users 7, 8, 9 and 1000 to 1199.
func defaultChecker(t testing.TB) *access.Checker {
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
