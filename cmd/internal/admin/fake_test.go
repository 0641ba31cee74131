package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeStore is a store in memory, which is also the sink for messages of terminals.
type fakeStore struct {
	admin.Store
	mu       sync.Mutex
	err      error
	chains   []store.MessageHistory
	rows     []outbox.Row
	sessions []session.Record
	prompts  map[session.ID]store.Doc[prompt.Prefix]
	said     map[session.ID][]store.Doc[llm.Message]
	called   map[session.ID][]store.Doc[ledger.Record]
}

func (s *fakeStore) Accept(_ context.Context, batch []chat.Inbound) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range batch {
		id := inbox.ID(len(s.chains) + 1)
		s.chains = append(s.chains, store.MessageHistory{Entry: inbox.Entry{ID: id, Inbound: in, State: inbox.Waiting, Accepted: time.Now()}})
	}
	return s.err
}

// end sets the outcome of the newest message.
func (s *fakeStore) end(o inbox.Outcome, rows ...outbox.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.chains[len(s.chains)-1]
	c.Entry.State, c.Entry.Outcome, c.Entry.Ended = inbox.Done, &o, time.Now()
	c.Rows = rows
	c.Trace = json.RawMessage(`{"session":"s1","calls":[{"provider":"demo","model":"d"}]}`)
}

func (s *fakeStore) MessageHistory(_ context.Context, id string) ([]store.MessageHistory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.MessageHistory
	for _, c := range s.chains {
		if c.Entry.ID.String() == id || c.Entry.Inbound.ID == id {
			found = append(found, c)
		}
	}
	return found, s.err
}

func (s *fakeStore) Outbox(_ context.Context, q outbox.Query) (rows []outbox.Row, older int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows = slices.DeleteFunc(slices.Clone(s.rows), func(r outbox.Row) bool {
		return q.ID != 0 && r.ID != q.ID || !q.Sent && r.State == outbox.Sent
	})
	if q.Max > 0 {
		older = max(len(rows)-q.Max, 0)
	}
	return rows[older:], older, s.err
}

func (s *fakeStore) set(id outbox.ID, state outbox.State, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rows {
		if s.rows[i].ID == id {
			s.rows[i].State, s.rows[i].Reason = state, why
			return s.err
		}
	}
	return errors.New("no such row")
}

func (s *fakeStore) RetryRow(_ context.Context, id outbox.ID) error {
	return s.set(id, outbox.Queued, "")
}

func (s *fakeStore) DropRow(_ context.Context, id outbox.ID, why string) error {
	return s.set(id, outbox.Dead, why)
}

func (s *fakeStore) Sessions(_ context.Context, q session.Query) (recs []session.Record, err error) {
	for _, r := range s.sessions {
		if (q.Before.IsZero() || r.Updated.Before(q.Before)) && (q.Max == 0 || len(recs) < q.Max) {
			recs = append(recs, r)
		}
	}
	return recs, s.err
}

func (s *fakeStore) SessionByID(_ context.Context, id session.ID) (session.Record, bool, error) {
	i := slices.IndexFunc(s.sessions, func(r session.Record) bool { return r.ID == id })
	if i < 0 {
		return session.Record{}, false, s.err
	}
	return s.sessions[i], true, s.err
}

func (s *fakeStore) Prompt(_ context.Context, id session.ID) (store.Doc[prompt.Prefix], error) {
	return s.prompts[id], s.err
}

func (s *fakeStore) Calls(_ context.Context, id session.ID, from int) ([]store.Doc[ledger.Record], error) {
	return s.called[id][min(from, len(s.called[id])):], s.err
}

const one session.ID = "20261121_090000_aaaa1111"

// filled returns a store with records of every kind.
func filled(t *testing.T) *fakeStore {
	t.Helper()
	raw, err := json.Marshal(prompt.Build(prompt.Inputs{Name: "Test", Tools: []llm.Tool{{Name: "clock", Schema: json.RawMessage(`{}`)}}}))
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeStore{
		sessions: []session.Record{{ID: one, Messages: 3}, {ID: "20261121_080000_bbbb2222"}},
		prompts:  map[session.ID]store.Doc[prompt.Prefix]{one: raw},
		said:     map[session.ID][]store.Doc[llm.Message]{},
	}
	for _, m := range []llm.Message{llm.UserText("hi"), llm.AssistantText("my key is sk-very-secret"), llm.UserText("bye")} {
		m.Raw = json.RawMessage(`{}`)
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		s.said[one] = append(s.said[one], raw)
	}
	to := chat.Address{Platform: chat.Telegram, Chat: "7"}
	for i, st := range []outbox.State{outbox.Sent, outbox.NotSent, outbox.Uncertain, outbox.Attempting, outbox.Dead} {
		s.rows = append(s.rows, outbox.Row{ID: outbox.ID(i + 1), State: st, Role: outbox.Reply, Msg: chat.Outbound{To: to}})
	}
	return s
}

// A rig is a handler with all its dependencies.
type rig struct {
	store   *fakeStore
	console *console.Adapter
	woken   chan chat.Address
	handler *admin.Handler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{store: filled(t), console: console.New(console.Options{OnAttach: func(chat.Address) {}}), woken: make(chan chat.Address, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.console.Run(ctx, r.store) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	mask := &secret.Masker{}
	mask.Add("sk-very-secret")
	r.handler = admin.NewHandler(admin.Options{
		Log:   zap.NewNop(),
		Store: r.store, Home: "/home/x", Version: "1.2.3", Masker: mask, Prices: pricing.Builtin(),
		Daemon: admin.Daemon{
			Running: true, Console: r.console, Commands: command.Specs(),
			Wake: func(a chat.Address) { r.woken <- a },
			Status: func() admin.Status {
				return admin.Status{Status: control.Status{Version: "1.2.3", Model: "demo", TurnsRunning: 2}}
			},
		},
	})
	return r
}

// patience is longer than anything takes that does not hang.
const patience = 2 * time.Minute

// ends closes everything that must be closed before the test ends.
func ends(t *testing.T, f func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	})
}

// each runs a test over the socket and in process.
func each(t *testing.T, test func(t *testing.T, r *rig, c *admin.Client)) {
	t.Run("socket", func(t *testing.T) {
		r, home := newRig(t), t.TempDir()
		s, err := admin.Serve(home, r.handler)
		if err != nil {
			t.Fatal(err)
		}
		ends(t, s.Close)
		c, err := admin.Dial(t.Context(), home)
		if err != nil {
			t.Fatal(err)
		}
		ends(t, c.Close)
		test(t, r, c)
	})
	t.Run("in process", func(t *testing.T) {
		r := newRig(t)
		c := admin.Local(r.handler)
		ends(t, c.Close)
		test(t, r, c)
	})
}

func wantError(t *testing.T, err error, code int, part string) {
	t.Helper()
	var e *admin.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Text, part) {
		t.Errorf("got %v, want %d with %q", err, code, part)
	}
}

func (s *fakeStore) Rows(_ context.Context, id session.ID, span session.Span) ([]store.Doc[llm.Message], error) {
	return s.said[id][span.From:span.To], s.err
}
