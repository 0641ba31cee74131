package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/session"
	"hermesd/storage/bolt"
)

// silentPlatform is a platform that accepts everything.
type silentPlatform struct{}

func (silentPlatform) Run(ctx context.Context, _ chat.Sink) error { <-ctx.Done(); return nil }
func (silentPlatform) Send(_ context.Context, m chat.Outbound) (chat.Receipt, error) {
	return chat.Receipt{ID: m.ID}, nil
}
func (silentPlatform) Capabilities() chat.Capabilities {
	return chat.Capabilities{MaxTextSize: 4096, TextSize: func(r chat.RichText) int { return len(r.Text) }}
}
func (silentPlatform) Health() chat.Health { return chat.Health{State: chat.Connected} }

// rogueTool returns a tool that ignores its context and does not return before end is
// closed. It signals when it runs.
func rogueTool(name string, running chan<- struct{}, end <-chan struct{}) tool.Tool {
	s := tool.Spec{Effect: tool.Pure}
	s.Name, s.Description, s.Schema = name, name, json.RawMessage(`{"type":"object"}`)
	return tool.New(s, func(context.Context, tool.Call, struct{}) (string, error) {
		running <- struct{}{}
		if name == "hang" {
			<-end
			return "", nil
		}
		for n := 0; ; n++ {
			select {
			case <-end:
				return fmt.Sprint(n), nil
			default:
			}
		}
	})
}

// rogueGateway is a gateway in which, after misbehave, one session burns a processor
// in a tool and another one hangs in one.
func rogueGateway(t *testing.T) (g *pipeline.Pipeline, misbehave func()) {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	running, end := make(chan struct{}), make(chan struct{})
	tools, err := tool.NewSet(rogueTool("spin", running, end), rogueTool("hang", running, end))
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewScripted()
	model.Default = func(r llmtest.Recorded) llmtest.Answer {
		last := r.Messages[len(r.Messages)-1]
		if _, ok := tools.Lookup(r.Newest()); ok && last.Blocks[0].Type != llm.ToolResult {
			return llmtest.Use(r.Newest(), "{}")
		}
		return llmtest.Say("fine")
	}
	on := chat.Account{Platform: chat.Telegram}
	check, err := access.New(access.Policy{Accounts: map[chat.Account]access.AccountRules{on: {AllowAll: true}}})
	if err != nil {
		t.Fatal(err)
	}
	a := agent.New(agent.Config{}, model, tools)
	connected := accounts.New(accounts.Options{Log: zap.NewNop()})
	connected.Add(on, silentPlatform{})
	g = gatewaytest.New(gatewaytest.Options{
		Store: store, Agent: a, Accounts: connected, Access: check,
		Prefix: func(session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Tools: tools.Tools()}), nil
		},
		Mode: inbox.Queue, Model: "scripted",
		Limits: gateway.Config{MaxConcurrentTurns: 64, MaxQueuedMessages: 100, TranscriptCacheBytes: 1 << 20, DrainTimeout: time.Minute},
	})
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(end)
		a.Wait()
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, func() {
		for i, name := range tools.Names() {
			acceptTime(t, g, -1-i, name)
			<-running
		}
	}
}

// acceptTime sends text as user n and returns how long it took to be accepted.
func acceptTime(t *testing.T, g *pipeline.Pipeline, n int, text string) time.Duration {
	t.Helper()
	in := chat.Inbound{
		IdempotencyKey: fmt.Sprint("k", n), ID: fmt.Sprint(n), Kind: chat.Message, Text: text, SentAt: time.Now(), Addressed: true,
		Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: fmt.Sprint(10_000 + n)},
		Sender:  chat.Person{ID: fmt.Sprint(10_000 + n), Name: "Ann"},
	}
	began := time.Now()
	if err := g.Accept(t.Context(), []chat.Inbound{in}); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// maxRounds limits the repetitions of a measurement. Other load on the machine
// delays some rounds; a defect of the daemon delays each of them.
const maxRounds = 10

// minLatency measures until a round is below the limit, and returns the minimum of all
// rounds.
func minLatency(limit time.Duration, round func() time.Duration) time.Duration {
	least := round()
	for n := 1; n < maxRounds && least > limit; n++ {
		least = min(least, round())
	}
	return least
}

// p99 returns the 99th percentile of the latency, with each message from a different
// user.
func p99(t *testing.T, g *pipeline.Pipeline, from int) time.Duration {
	t.Helper()
	took := make([]time.Duration, 120)
	for i := range took {
		took[i] = acceptTime(t, g, from+i, "hello")
	}
	return worst(took)
}

// worst returns the 99th percentile.
func worst(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// Messages of others are accepted and answered while one session burns a processor and
// another one hangs.
func TestBusySessionsDoNotStopOthers(t *testing.T) {
	g, misbehave := rogueGateway(t)
	misbehave()
	p99(t, g, 1000)
	for end := time.Now().Add(testTimeout); ; <-time.After(10 * time.Millisecond) {
		st := g.Control().Status()
		if st.TurnsRunning == 2 && st.TurnsQueued == 0 { // those that misbehave
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d turns run and %d wait", st.TurnsRunning, st.TurnsQueued)
		}
	}
}

// TestBusySessionsDelayNobody measures how long others take to be accepted meanwhile.
// It judges the time, so `make latency` runs it, and not `go test`.
func TestBusySessionsDelayNobody(t *testing.T) {
	if os.Getenv("HERMESD_LATENCY") == "" {
		t.Skip("`make latency` measures it")
	}
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("the only processor is the one that is burnt")
	}
	const limit = 50 * time.Millisecond
	g, misbehave := rogueGateway(t)
	people := 0
	round := func() time.Duration {
		people += 1000
		return p99(t, g, people)
	}
	alone := minLatency(limit, round) // the baseline of a busy machine
	misbehave()
	loaded := minLatency(limit, round)
	t.Logf("p99 of accepting: %v alone, %v next to a session that spins and one that hangs", alone, loaded)
	if loaded > limit+alone {
		t.Errorf("the p99 is %v next to them and %v without", loaded, alone)
	}
}
