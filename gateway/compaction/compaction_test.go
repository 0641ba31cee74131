package compaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/hygiene"
	"hermesd/storage/bolt"
)

// halving is an engine that archives half of the messages after a minute, or at once
// without a model.
type halving struct {
	err    error
	limits agent.Limits
	ended  bool
}

func (e *halving) Name() string               { return "halving" }
func (e *halving) Update(llm.Usage)           {}
func (e *halving) ShouldCompress(int) bool    { return false }
func (e *halving) State() json.RawMessage     { return json.RawMessage(`{}`) }
func (e *halving) Status() agent.EngineStatus { return agent.EngineStatus{} }
func (e *halving) Limits(l agent.Limits)      { e.limits = l }
func (e *halving) Reset()                     {}
func (e *halving) End()                       { e.ended = true }

func (e *halving) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	if !v.WithoutModel {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return agent.Compaction{}, ctx.Err()
		}
	}
	if e.err != nil {
		return agent.Compaction{}, e.err
	}
	n := len(v.Messages) / 2
	return agent.Compaction{From: 0, To: n, Messages: v.Messages[n:], Before: 100, After: 50}, nil
}

// A fixture is a Compactor and a stored conversation of eight messages, whose model has a
// context length of 1,000 tokens.
type fixture struct {
	*compaction.Run
	conv    *conversation.Conversation
	passes  *hygiene.Passes
	engines []*halving // in the order of their creation
	told    []string
	events  []observe.Event
}

func newFixture(t *testing.T, reported int) *fixture {
	t.Helper()
	db, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	locks := new(session.Locks)
	f := &fixture{passes: hygiene.NewPasses(agent.New(agent.Config{}, llmtest.NewScripted(), tools), locks, zap.NewNop())}
	t.Cleanup(func() {
		f.passes.Close()
		f.passes.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	book := conversation.NewBook(conversation.Parts{
		Store: db, Locks: locks, Passes: f.passes, HasBackground: func(session.ID) bool { return false },
		Prefix: func(session.Record) (prompt.Prefix, []string) { return prompt.Build(prompt.Inputs{}), nil },
		Options: conversation.Options{
			Reset: func(chat.Address) session.ResetPolicy { return session.ResetPolicy{} }, CacheBytes: 1 << 20, Log: zap.NewNop(),
		},
	})
	f.conv = storedConversation(t, db, book)
	f.conv.Model.Model, f.conv.Model.Window = "m", 1000
	f.conv.Record.PromptTokens, f.conv.Record.PromptMessages = reported, f.conv.Transcript.Len()
	c := compaction.New(compaction.Parts{
		Store: db, Passes: f.passes, Observe: func(e observe.Event) { f.events = append(f.events, e) },
		Options: compaction.Options{
			Settings: hygiene.Settings{Enabled: true, Threshold: 0.5}, MaxWait: time.Second,
			Refresh: func(_ session.Record, p prompt.Prefix) prompt.Prefix { return p }, Learn: func(string, string, int) {},
			Engine: func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) {
				f.engines = append(f.engines, new(halving))
				return f.engines[len(f.engines)-1], nil
			},
		},
	})
	f.Run = c.Run(compaction.Turn{ID: "t1", Notify: func(s string) { f.told = append(f.told, s) }, Log: zap.NewNop()}, f.conv)
	return f
}

// storedConversation returns a conversation of eight messages that is in the store.
func storedConversation(t *testing.T, db *bolt.Store, book *conversation.Book) *conversation.Conversation {
	t.Helper()
	e := inbox.Entry{
		Inbound: chat.Inbound{IdempotencyKey: "1", ID: "1", Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}},
		Session: "k", Lane: "k", State: inbox.Waiting, Accepted: time.Now(),
	}
	if _, err := db.Accept(t.Context(), []store.Admission{{Entry: e}}); err != nil {
		t.Fatal(err)
	}
	claim, err := db.Claim(t.Context(), e.Lane, 0)
	if err != nil {
		t.Fatal(err)
	}
	conv, err := book.Use(t.Context(), e, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		for _, role := range []llm.Role{llm.User, llm.Assistant} {
			conv.Transcript.Append(llm.Message{Role: role, Blocks: []llm.Block{{Type: llm.Text, Text: strings.Repeat("x", i+1)}}})
		}
	}
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}}
	if err := book.Delta(conv, &m, llm.Usage{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.CommitTurn(t.Context(), claim, m); err != nil {
		t.Fatal(err)
	}
	book.Committed(conv, m)
	return conv
}

// compactions returns the events of compactions.
func (f *fixture) compactions() (out []observe.Compacted) {
	for _, e := range f.events {
		out = append(out, e.(observe.Compacted))
	}
	return out
}

func TestASmallConversationIsNotCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 800)
		w, texts := f.Window(t.Context(), false)
		if w == nil || w.Engine != f.engines[0] || w.Ready != nil || w.Reported != 800 || len(texts) > 0 {
			t.Errorf("window %+v, texts %q", w, texts)
		}
		if f.passes.Get(f.conv.Record.ID) != nil || f.conv.Engine.Limits != (agent.Limits{Model: "m", Window: 1000}) {
			t.Error("a pass was started, or the engine has no limits")
		}
		f.Options.Enabled = false
		if w, _ := f.Window(t.Context(), false); w != nil {
			t.Error("there is a window without an engine")
		}
	})
}

func TestALaterTurnAdoptsAPassThatTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 840)
		f.conv.Record.PromptTokens = 860 // above 85 %: compacted, but not urgent and within the limit
		f.Options.Threshold = 0.9
		w, texts := f.Window(t.Context(), false)
		if len(f.engines) != 2 || w.Engine != f.engines[1] || w.Ready != nil || len(texts) > 0 {
			t.Fatalf("after MaxWait: %d engines, window %+v, texts %q", len(f.engines), w, texts)
		}
		time.Sleep(2 * time.Minute)
		w, texts = f.Window(t.Context(), false)
		if w.Ready == nil || w.AdoptAt != 8 || w.Reason != agent.WhyHygiene || len(texts) != 1 || f.passes.Stats().Adopted != 1 {
			t.Fatalf("window %+v, texts %q", w, texts)
		}
		if w.Engine != f.engines[0] || !f.engines[1].ended || f.engines[0].ended {
			t.Error("the engine of the pass is not the one of the session, or the other one has not ended")
		}
	})
}

func TestAnUrgentCompactionIsWaitedForAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 960)
		start := time.Now()
		w, _ := f.Window(t.Context(), false)
		if w.Ready == nil || time.Since(start) != time.Minute || len(f.told) != 1 {
			t.Errorf("window %+v after %v, told %q", w, time.Since(start), f.told)
		}
	})
}

func TestAConversationAboveTheLimitIsCompactedWithoutAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 900) // the limit is 850, and 950 would be urgent
		start := time.Now()
		w, _ := f.Window(t.Context(), false)
		if w.Ready == nil || time.Since(start) != time.Second {
			t.Errorf("window %+v after %v", w, time.Since(start))
		}
	})
}

func TestAFailedPassIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 100)
		if _, texts := f.Window(t.Context(), false); len(texts) > 0 { // creates the engine
			t.Fatal(texts)
		}
		f.engines[0].err = errors.New("the model is away")
		f.conv.Record.PromptTokens = 960
		w, texts := f.Window(t.Context(), false)
		if w.Ready != nil || len(texts) != 1 || !strings.Contains(texts[0], "the model is away") {
			t.Errorf("window %+v, texts %q", w, texts)
		}
		if got := f.compactions(); len(got) != 1 || !got[0].Failed || got[0].Engine != "halving" || got[0].Turn != "t1" {
			t.Errorf("events %+v", got)
		}
	})
}

func TestACompactionOnRequestBecomesPartOfTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 100)
		text, made, err := f.Compress(t.Context(), "the plan")
		if err != nil || made == nil || !strings.Contains(text, "4 messages are archived") {
			t.Fatalf("%q, %+v, %v", text, made, err)
		}
		if f.conv.Transcript.Len() != 4 || f.conv.Record.PendingBreak != agent.WhyCompression || f.conv.HasChanges() {
			t.Errorf("%d messages, break %q", f.conv.Transcript.Len(), f.conv.Record.PendingBreak)
		}
		if err := f.Add(*made); err != nil {
			t.Fatal(err)
		}
		if got := f.compactions(); !f.conv.HasChanges() || len(got) != 1 || got[0].Failed || got[0].After != 50 {
			t.Errorf("events %+v", got)
		}
	})
}

func TestACompactionOnRequestThatIsNotPossibleIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 100)
		f.Options.Enabled = false
		if text, made, err := f.Compress(t.Context(), ""); made != nil || err != nil || !strings.Contains(text, "switched off") {
			t.Errorf("without an engine: %q, %v", text, err)
		}
		f = newFixture(t, 860)
		f.Options.Threshold = 0.9
		f.Window(t.Context(), false) // starts a pass
		if text, made, err := f.Compress(t.Context(), ""); made != nil || err != nil || !strings.Contains(text, "already") {
			t.Errorf("during another pass: %q, %v", text, err)
		}
	})
}

// TestANewerMessageDoesNotEndACompactionOnRequest interrupts two requests: the pass of
// the first one is used by the second one, unless the cause is not a newer message.
func TestANewerMessageDoesNotEndACompactionOnRequest(t *testing.T) {
	for _, cause := range []error{active.SupersededError{Entry: 7}, active.StoppedError{Person: "/stop"}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, 100)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(30*time.Second, func() { cancel(cause) })
			if _, made, err := f.Compress(ctx, ""); made != nil || !errors.Is(err, cause) {
				t.Fatalf("interrupted: %v", err)
			}
			start, want := time.Now(), time.Minute
			if _, ok := cause.(active.SupersededError); ok {
				want = 30 * time.Second
			}
			if _, made, err := f.Compress(t.Context(), ""); made == nil || err != nil || time.Since(start) != want {
				t.Errorf("after %v: it took %v, want %v; %v", cause, time.Since(start), want, err)
			}
		})
	}
}
