package gateway_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

func TestCompactionDiscardedIfNotAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30), answerWithUsage("Four.", 40))
		f := &foldingEngine{limit: 1 << 30, delay: time.Minute}
		w.useEngine(f, 100_000)
		w.compactAtMessages(4)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "c")
		w.advance(2 * time.Hour)
		if f.passes != 1 {
			t.Errorf("%d passes", f.passes)
		}
		w.sendText("7", "d")
		w.advance(5 * time.Second) // the first compaction would be adopted at once
		if got := w.adapter.visible("7"); got[len(got)-1] != "Three." {
			t.Errorf("visible %q", got)
		}
		w.advance(time.Hour)
		if f.passes != 2 {
			t.Errorf("%d passes", f.passes)
		}
	})
}

// A countingEngine counts the compactions that were started, including unfinished ones.
type countingEngine struct {
	*foldingEngine
	begun int
}

func (c *countingEngine) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	c.begun++
	return c.foldingEngine.Compress(ctx, v)
}

func TestCompactionInterruptedIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30))
		f := &countingEngine{foldingEngine: &foldingEngine{limit: 1 << 30, delay: time.Minute}}
		w.useEngine(f.foldingEngine, 100_000)
		compressing := w.configure
		w.configure = func(o *gatewaytest.Options) {
			compressing(o)
			o.Compression.Enabled, o.Compression.Engine = true, func(session.Record, conversation.ModelChoice, json.RawMessage) (agent.Engine, error) { return f, nil }
		}
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "/compress the trip")
		w.advance(10 * time.Second)
		w.sendText("7", "c")
		w.advance(10 * time.Minute)
		seen := strings.Join(w.adapter.visible("7"), "\n")
		if f.begun != 1 || !strings.Contains(seen, "2 messages are archived") || !strings.Contains(seen, "Three.") {
			t.Errorf("%d passes, visible:\n%s", f.begun, seen)
		}
		if d := cmp.Diff([]string{"a", "One.", "b", "Two.", "c", "Three."}, w.allTexts()); d != "" {
			t.Error(d)
		}
	})
}

func TestStopEndsCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), answerWithUsage("Two.", 20), answerWithUsage("Three.", 30))
		f := &foldingEngine{limit: 1 << 30, delay: time.Minute}
		w.useEngine(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.sendText("7", "/compress")
		w.advance(10 * time.Second)
		w.sendText("7", "/stop")
		w.advance(10 * time.Minute)
		if got := w.talk("c"); got != "Three." || f.passes != 0 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		if seen := strings.Join(w.adapter.visible("7"), "\n"); strings.Contains(seen, "could not summarise") {
			t.Errorf("visible:\n%s", seen)
		}
	})
}

// hangingAnswer returns an answer that never arrives.
func hangingAnswer() llmtest.Answer { return llmtest.Answer{Text: "never", Wait: make(chan struct{})} }

// The session key got a new session while the turn was interrupted.
func TestResumedTurnStaysInItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Answer{Calls: []llmtest.Call{{Name: "lookup"}}}, hangingAnswer(), llmtest.Say("Two."), llmtest.Say("Three."))
		w.tools = append(w.tools, lookupTool{})
		w.start()
		w.talk("a")
		w.sendText("7", "b")
		w.advance(time.Minute)
		w.kill()
		first := w.replaceSession()
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); got[len(got)-1] != "Two." {
			t.Errorf("visible %q", got)
		}
		if got := w.talk("c"); got != "Three." {
			t.Errorf("visible %q", got)
		}
		rec, ok, err := w.store.SessionByID(t.Context(), first)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		old := w.sessionTexts(rec)
		if all := strings.Join(old, "|"); !strings.HasPrefix(all, "a|One.|b|") || !strings.HasSuffix(all, "Two.") {
			t.Errorf("the first session: %s", all)
		}
		now, ok, err := w.store.Session(t.Context(), rec.Key)
		if err != nil || !ok || now.ID == first {
			t.Fatal(now.ID, ok, err)
		}
		if d := cmp.Diff([]string{"c", "Three."}, w.sessionTexts(now)); d != "" {
			t.Error(d)
		}
	})
}

// replaceSession starts a new, empty session for the only session key and returns the
// ID of the old one. No daemon may run.
func (w *harness) replaceSession() session.ID {
	w.t.Helper()
	ctx := w.t.Context()
	db, err := bolt.Open(ctx, filepath.Join(w.dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	recs, err := db.Sessions(ctx, session.Query{Max: 1})
	if err != nil || len(recs) != 1 {
		w.t.Fatal(len(recs), err)
	}
	old := recs[0]
	raw, err := db.Prompt(ctx, old.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().UTC()
	rec := session.Record{ID: session.NewID(now), Key: old.Key, Address: old.Address, Created: now, Updated: now, Owner: old.Owner, OwnersOnly: old.OwnersOnly}
	if _, err := db.Branch(ctx, old.ID, 0, store.Creation{Record: rec, Prompt: raw}); err != nil {
		w.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		w.t.Fatal(err)
	}
	return old.ID
}

// The process dies after a compaction inside the turn and before its commit.
func TestResumedTurnRestoresEngineState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, answerWithUsage("One.", 10), llmtest.Answer{Calls: []llmtest.Call{{Name: "lookup"}}, Usage: llm.Usage{Input: 60_000, Output: 5}}, hangingAnswer(), answerWithUsage("Two.", 400))
		f := &foldingEngine{limit: 50_000}
		w.useEngine(f, 100_000)
		compressing, states := w.configure, []string{}
		w.configure = func(o *gatewaytest.Options) {
			compressing(o)
			o.Compression.Enabled, o.Compression.Engine = true, func(_ session.Record, _ conversation.ModelChoice, state json.RawMessage) (agent.Engine, error) {
				states = append(states, string(state))
				return f, nil
			}
		}
		w.tools = append(w.tools, lookupTool{})
		w.start()
		w.talk("a")
		w.sendText("7", "b")
		w.advance(time.Minute)
		w.kill()
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); got[len(got)-1] != "Two." || f.passes != 1 {
			t.Errorf("visible %q after %d passes", got, f.passes)
		}
		if d := cmp.Diff([]string{"", `{"passes":1}`}, states); d != "" {
			t.Error(d)
		}
	})
}
