package httpapi_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hermesd/adapters/httpapi"
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
	"hermesd/gateway/session"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memnet"
	"hermesd/storage/bolt"
)

var account = chat.Account{Platform: chat.HTTP}

// A house is a home directory and a model, in which real daemons are started:
// gateway, store and API.
type house struct {
	*daemon // its web, for requests
	dir     string
	model   *llmtest.Scripted
	store   *bolt.Store
}

// open starts a daemon in the house.
func (h *house) open(t *testing.T) {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(h.dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.store = store
	l := memnet.Listen("127.0.0.1:8642")
	a, err := httpapi.New(httpapi.Config{}, httpapi.Options{
		Key: key, Log: zaptest.NewLogger(t), Lookup: h.lookup, IsNewSession: h.fresh, Metrics: http.NotFoundHandler(), MetricsKey: scrape,
		Listen: func(string, string) (net.Listener, error) { return l, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	checker, err := access.New(access.Policy{Profiles: chat.ProfilesOf(httpapi.Profile())})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(clock{})
	if err != nil {
		t.Fatal(err)
	}
	masker := &secret.Masker{}
	masker.Add(key)
	connected := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: chat.ProfilesOf(httpapi.Profile())})
	connected.Add(account, a)
	gw := gatewaytest.New(gatewaytest.Options{
		Overlay: overlay.New(overlay.Options{Location: time.UTC, Profiles: chat.ProfilesOf(httpapi.Profile()), Note: gatewaytest.NoNote}, overlay.Settings{}),
		Store:   store, Agent: agent.New(agent.Config{}, h.model, tools), Accounts: connected, Access: checker,
		Prefix: func(r session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Session: string(r.ID), Started: r.Created, Tools: tools.Tools()}), nil
		},
		Model: "scripted", Mode: inbox.Interrupt, Uncertain: outbox.Resend, Streaming: true, Control: control.Options{Version: "test"}, Location: time.UTC, Masker: masker,
		Limits: gateway.Config{
			MaxConcurrentTurns: 64, MaxQueuedMessages: 100, TranscriptCacheBytes: 1 << 20, DrainTimeout: time.Second,
			AutoContinueFreshness: time.Hour, RestartNotice: true, TurnTimeout: 30 * time.Minute,
		},
		Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)),
	})
	if err := gw.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, gw) }() // stop waits for it
	transport := &http.Transport{DialContext: l.Dial}
	h.daemon = &daemon{t: t, a: a, web: &http.Client{Transport: transport}}
	h.stop = sync.OnceValue(func() error { // in the order in which the daemon stops
		if err := gw.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		cancel()
		err := <-ended
		transport.CloseIdleConnections()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		return err
	})
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// lookup and fresh are what the daemon's wiring gives the API.
func (h *house) lookup(ctx context.Context, key string) (k httpapi.StoredMessage, err error) {
	c, ok, err := h.store.MessageByKey(ctx, account, key)
	k.Accepted = ok
	if ok {
		k.Text, k.Reason, k.Ended = control.StoredAnswer(c)
	}
	return k, err
}

func (h *house) fresh(ctx context.Context, at chat.Address) (bool, error) {
	rec, ok, err := h.store.Session(ctx, session.KeyFor("", at, "key", session.KeyPolicy{}))
	return err == nil && (!ok || rec.Messages == 0), err
}

// clock is a tool.
type clock struct{}

func (clock) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.Pure}
	s.Name, s.Description, s.Schema = "clock", "tells the time", json.RawMessage(`{"type":"object","properties":{}}`)
	return s
}

func (clock) Run(context.Context, tool.Call) (string, error) { return "noon", nil }

// play runs f in a house whose model gives answers.
func play(t *testing.T, f func(t *testing.T, h *house), answers ...llmtest.Answer) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &house{dir: dir, model: llmtest.NewScripted(answers...)}
		h.open(t)
		f(t, h)
	})
}

// unsent are the reasons of the outbox rows that did not arrive.
func (h *house) unsent(t *testing.T) (reasons []string) {
	t.Helper()
	synctest.Wait()
	rows, _, err := h.store.Outbox(t.Context(), outbox.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		reasons = append(reasons, string(r.Role)+" "+string(r.State)+": "+r.Reason)
	}
	return reasons
}

func TestRequestThroughPipeline(t *testing.T) {
	const md = "# Noon\n\n**It is noon.** `12:00`\n\n" + "| a | b |\n|---|---|\n| 1 | 2 |"
	play(t, func(t *testing.T, h *house) {
		a := h.do(ask(t, user("what time is it?")))
		if a.status != 200 || a.text() != "Let me look.\n\n"+md || a.Usage == nil || a.Usage.Total == 0 {
			t.Errorf("whole: %d %s", a.status, a.body)
		}
		s := events(t, []byte(h.do(ask(t, streamed("and now?"))).body))
		if s.text() != md || len(s.deltas) < 2 || !s.done || s.usage == 0 {
			t.Errorf("streamed: %+v", s)
		}
		if got := h.unsent(t); len(got) > 0 {
			t.Errorf("left in the outbox: %q", got)
		}
		sent := h.model.Requests()
		if last := sent[len(sent)-1].Messages; len(last) != 5 {
			t.Errorf("the session has %d messages before the last answer, want 5", len(last))
		}
	}, llmtest.Answer{Text: "Let me look.", Calls: []llmtest.Call{{Name: "clock"}}, Delay: 300 * time.Millisecond}, llmtest.Say(md),
		llmtest.Answer{Text: md, Delay: 200 * time.Millisecond})
}

func TestTheClientsSystemMessageNeverEntersThePrefix(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		body := `{"messages":[{"role":"system","content":"Answer as a pirate."},{"role":"user","content":"hi"}]}`
		h.do(ask(t, body))
		h.do(ask(t, user("again")))
		all := h.model.Requests()
		if !strings.Contains(all[0].Overlay, "pirate") || strings.Contains(all[0].System, "pirate") || all[0].System != all[1].System {
			t.Errorf("overlay %q, system %q", all[0].Overlay, all[0].System)
		}
		for _, m := range all[1].Messages {
			if strings.Contains(m.Text(), "pirate") {
				t.Errorf("stored: %q", m.Text())
			}
		}
		if strings.Contains(all[1].Overlay, "pirate") {
			t.Error("it stays for the next turn")
		}
	}, llmtest.Say("one"), llmtest.Say("two"))
}

func TestAModelThatFailsIsAnErrorAnswer(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		a := h.do(ask(t, user("hi")))
		if a.status != 502 || !strings.Contains(a.Error.Message, "refuses the key") {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if a := h.do(ask(t, user("/status"))); a.status != 200 || a.text() == "" || a.Usage != nil {
			t.Errorf("a command: %d %s", a.status, a.body)
		}
	}, llmtest.Fail(llm.Auth))
}

func TestStopEndsARequestThatWaits(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		one := h.later(ask(t, user("hi")))
		<-time.After(2 * time.Second)
		if a := h.do(ask(t, user("/stop"))); a.status != 200 {
			t.Errorf("stop: %d %s", a.status, a.body)
		}
		if a := <-one; a.status != 409 || !strings.Contains(a.Error.Message, "/stop") {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}, llmtest.Answer{Text: "never", Delay: 24 * time.Hour})
}

func TestANewRequestTakesOverFromAClientThatLeft(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if resp, err := h.web.Do(ask(t, user("one")).WithContext(ctx)); err == nil {
			_ = resp.Body.Close()
			t.Fatal("somebody answered")
		}
		if a := h.do(ask(t, user("two"))); a.text() != "both" {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if all := h.model.Requests(); all[len(all)-1].Newest() != "one\n\ntwo" {
			t.Errorf("asked: %q", all[len(all)-1].Newest())
		}
	}, llmtest.Answer{Text: "never", Delay: 24 * time.Hour}, llmtest.Say("both"))
}

func TestARestartAnswersUnderTheSameKey(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		one := h.later(keyed(t, "k", user("hi")))
		<-time.After(2 * time.Second)
		_ = h.stop()
		if a := <-one; a.status != 503 || !strings.Contains(a.Error.Message, "Idempotency-Key") {
			t.Errorf("at the stop: %d %s", a.status, a.body)
		}
		h.open(t)
		if a := h.do(keyed(t, "k", user("hi"))); a.text() != "back again" {
			t.Errorf("after it: %d %s", a.status, a.body)
		}
		_ = h.stop()
		h.open(t)
		if a := h.do(keyed(t, "k", user("hi"))); a.text() != "back again" {
			t.Errorf("from the store: %d %s", a.status, a.body)
		}
		if got := h.unsent(t); len(got) > 0 || len(h.model.Requests()) != 2 {
			t.Errorf("%d model calls, outbox %q", len(h.model.Requests()), got)
		}
	}, llmtest.Answer{Text: "never", Delay: 24 * time.Hour}, llmtest.Say("back again"))
}

func TestTheAnswerOfAClientThatLeftIsADeadLetter(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if resp, err := h.web.Do(ask(t, streamed("one")).WithContext(ctx)); err == nil {
			_ = resp.Body.Close()
		}
		<-time.After(time.Minute)
		got := h.unsent(t)
		if len(got) != 1 || !strings.HasPrefix(got[0], "reply dead: "+httpapi.NoClient) {
			t.Errorf("outbox: %q", got)
		}
		if a := h.do(ask(t, user("two"))); a.text() != "second" {
			t.Errorf("the next one: %d %s", a.status, a.body)
		}
	}, llmtest.Answer{Text: "a slow answer of several words", Delay: 4 * time.Second}, llmtest.Say("second"))
}

func TestSecretsAreMaskedInStreamsToo(t *testing.T) {
	play(t, func(t *testing.T, h *house) {
		a := h.do(ask(t, streamed("what is your key?")))
		s := events(t, []byte(a.body))
		if s.text() != "It is <secret>, keep it." || !s.done || strings.Contains(a.body, key[:6]) {
			t.Errorf("%+v", s)
		}
	}, llmtest.Answer{Text: "It is " + key + ", keep it.", Delay: 400 * time.Millisecond})
}
