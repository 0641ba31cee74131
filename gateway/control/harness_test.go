package control_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"go.uber.org/zap"

	"hermesd/agent/llm/pricing"
	"hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/control"
	"hermesd/gateway/delivery"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	externalmemory "hermesd/gateway/memory"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
	"hermesd/hygiene"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

// A harness has the parts of a control, over one store.
type harness struct {
	t        *testing.T
	store    *bolt.Store
	parts    control.Parts
	turns    turns
	host     *host
	homes    []chat.Address
	accepted int

	mu    sync.Mutex // guards woken
	woken []inbox.Lane
}

// turns are set by tests.
type turns struct{ offered, onlyAuthor bool }

func (s *turns) OfferedClaim(inbox.Lane) (store.Claim, bool)    { return store.Claim{}, s.offered }
func (s *turns) IsOnlyAuthor(inbox.Lane, access.Principal) bool { return s.onlyAuthor }
func (s *turns) Compactions() hygiene.Stats                     { return hygiene.Stats{Started: 3} }

// A host counts restarts and ended background commands.
type host struct {
	gatewaytest.NoHost
	restarts, background int
	memories             *memory.Store
	library              *skills.Library
	disabled             []string
}

func (h *host) CanRestart() bool { return true }
func (h *host) Restart()         { h.restarts++ }
func (h *host) Background(session.ID) (int, func()) {
	return h.background, func() { h.background = 0 }
}
func (h *host) Memories(session.Record) (*memory.Store, []memory.Target) {
	return h.memories, []memory.Target{memory.Notes}
}
func (h *host) Skills() (*skills.Catalog, []string) { return h.library.Catalog(), h.disabled }

// An adapter is an account without a platform.
type adapter struct {
	chat.Adapter
	health chat.Health
}

func (a adapter) Health() chat.Health { return a.health }
func (adapter) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return len(utf16.Encode([]rune(r.Text))) }}
}

func (w *harness) SetHome(_ context.Context, at chat.Address) error {
	w.homes = append(w.homes, at)
	return nil
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	library, err := skills.New(skills.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w := &harness{t: t, store: store, host: &host{memories: memory.New(memory.Config{Dir: t.TempDir()}), library: library}}
	lanes := lane.New[inbox.Lane](4)
	lanes.Start(func(_ context.Context, l inbox.Lane) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.woken = append(w.woken, l)
	})
	connected := accounts.New(accounts.Options{Log: zap.NewNop()})
	connected.Add(chat.Account{Platform: chat.Slack}, adapter{health: chat.Health{State: chat.Connected}})
	connected.Add(chat.Account{Platform: chat.Telegram}, adapter{health: chat.Health{State: chat.Connected, Since: time.Now()}})
	out := delivery.New(delivery.Options{Store: store, Accounts: connected, Masker: new(secret.Masker), Settled: func(outbox.Row, outbox.Settlement) {}, Observe: func(observe.Event) {}, Log: zap.NewNop()})
	t.Cleanup(func() { // after the test, before the store is closed
		lanes.Stop()
		if err := lanes.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if err := out.Close(time.Minute); err != nil {
			t.Error(err)
		}
	})
	w.parts = control.Parts{
		Store: store, Host: w.host, Models: gatewaytest.OneModel{Model: "demo", Window: 1000}, Targets: w,
		Overlay: overlay.New(overlay.Options{Location: time.UTC, Note: gatewaytest.NoNote}, overlay.Settings{Personality: map[string]string{"poet": "", "pirate": ""}}),
		Runtime: control.Runtime{
			Lanes: lanes, Turns: &w.turns, Accounts: connected, Pause: control.NewPause(store, "", ""),
			Usage: usage.NewMeter(new(active.Turns)), Cron: schedule.NewScheduler(store, nil, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()}), Delivery: out, Memory: externalmemory.Off(),
		},
		Options: control.Options{Version: "1.2.3", Model: "demo", Prices: pricing.Builtin(), Log: zap.NewNop()},
	}
	return w
}

// accept stores a waiting message of a person in a direct chat.
func (w *harness) accept(person string) inbox.Entry {
	w.t.Helper()
	at := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: person}
	w.accepted++
	key := session.KeyFor("", at, person, session.KeyPolicy{})
	e := inbox.Entry{
		Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint(person, ":", w.accepted), ID: fmt.Sprint(w.accepted), Kind: chat.Message, Address: at, Sender: chat.Person{ID: person}, Text: "hi", SentAt: time.Now()},
		Session: key, Lane: inbox.LaneOf(key), State: inbox.Waiting, Accepted: time.Now(),
	}
	if _, err := w.store.Accept(w.t.Context(), []store.Admission{{Entry: e}}); err != nil {
		w.t.Fatal(err)
	}
	return e
}

// wokenLanes waits until the lanes are idle and returns those that ran.
func (w *harness) wokenLanes() []inbox.Lane {
	w.t.Helper()
	if err := w.parts.Runtime.Lanes.Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.woken)
}
