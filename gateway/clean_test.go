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
	"hermesd/gateway"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
	"hermesd/storage/bolt"
)

func TestAPassThatNoTurnAdoptsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 86_000), sized("Three.", 86_500), sized("Four.", 500))
		f := &folder{limit: 1 << 30, delay: time.Minute}
		w.compressing(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.say("7", "c")
		w.settle(2 * time.Hour)
		if f.passes != 1 {
			t.Errorf("%d passes", f.passes)
		}
		w.say("7", "d")
		w.settle(5 * time.Second) // the first pass would be there at once
		if got := w.room.visible("7"); got[len(got)-1] != "Three." {
			t.Errorf("visible %q", got)
		}
		w.settle(time.Hour)
		if f.passes != 2 {
			t.Errorf("%d passes", f.passes)
		}
	})
}

// counting counts the passes that were begun, not only those that came to an end.
type counting struct {
	*folder
	begun int
}

func (c *counting) Compress(ctx context.Context, v agent.ContextView) (agent.Compaction, error) {
	c.begun++
	return c.folder.Compress(ctx, v)
}

func TestACompactionThatANewerMessageInterruptsIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 20), sized("Three.", 30))
		f := &counting{folder: &folder{limit: 1 << 30, delay: time.Minute}}
		w.compressing(f.folder, 100_000)
		compressing := w.set
		w.set = func(o *gateway.Options) {
			compressing(o)
			o.Compression.Engine = func(session.Record, turn.ModelChoice, json.RawMessage) (agent.Engine, error) { return f, nil }
		}
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.say("7", "/compress the trip")
		w.settle(10 * time.Second)
		w.say("7", "c")
		w.settle(10 * time.Minute)
		seen := strings.Join(w.room.visible("7"), "\n")
		if f.begun != 1 || !strings.Contains(seen, "2 messages are archived") || !strings.Contains(seen, "Three.") {
			t.Errorf("%d passes, visible:\n%s", f.begun, seen)
		}
		if d := cmp.Diff([]string{"a", "One.", "b", "Two.", "c", "Three."}, w.all()); d != "" {
			t.Error(d)
		}
	})
}

func TestAStopEndsACompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), sized("Two.", 20), sized("Three.", 30))
		f := &folder{limit: 1 << 30, delay: time.Minute}
		w.compressing(f, 100_000)
		w.start()
		defer w.stop()
		w.talk("a", "b")
		w.say("7", "/compress")
		w.settle(10 * time.Second)
		w.say("7", "/stop")
		w.settle(10 * time.Minute)
		if got := w.talk("c"); got != "Three." || f.passes != 0 {
			t.Errorf("%q after %d passes", got, f.passes)
		}
		if seen := strings.Join(w.room.visible("7"), "\n"); strings.Contains(seen, "could not summarise") {
			t.Errorf("visible:\n%s", seen)
		}
	})
}

// hanging is an answer that never comes.
func hanging() llmtest.Answer { return llmtest.Answer{Text: "never", Wait: make(chan struct{})} }

// TestAResumedTurnStaysInItsSession: the conversation was pointed to a new session
// while the turn was cut short.
func TestAResumedTurnStaysInItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Answer{Calls: []llmtest.Call{{Name: "lookup"}}}, hanging(), llmtest.Say("Two."), llmtest.Say("Three."))
		w.tools = append(w.tools, lookup{})
		w.start()
		w.talk("a")
		w.say("7", "b")
		w.settle(time.Minute)
		w.kill()
		first := w.renew()
		w.start()
		defer w.stop()
		w.settle(time.Minute)
		if got := w.room.visible("7"); got[len(got)-1] != "Two." {
			t.Errorf("visible %q", got)
		}
		if got := w.talk("c"); got != "Three." {
			t.Errorf("visible %q", got)
		}
		rec, ok, err := w.store.SessionByID(t.Context(), first)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		old := w.ever(rec)
		if all := strings.Join(old, "|"); !strings.HasPrefix(all, "a|One.|b|") || !strings.HasSuffix(all, "Two.") {
			t.Errorf("the first session: %s", all)
		}
		now, ok, err := w.store.Session(t.Context(), rec.Key)
		if err != nil || !ok || now.ID == first {
			t.Fatal(now.ID, ok, err)
		}
		if d := cmp.Diff([]string{"c", "Three."}, w.ever(now)); d != "" {
			t.Error(d)
		}
	})
}

// renew points the only conversation to a new, empty session, and returns the id
// of the one before. No daemon may run.
func (w *harness) renew() session.ID {
	w.t.Helper()
	ctx := w.t.Context()
	store, err := bolt.Open(ctx, filepath.Join(w.dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	recs, err := store.Sessions(ctx, 1)
	if err != nil || len(recs) != 1 {
		w.t.Fatal(len(recs), err)
	}
	old := recs[0]
	raw, err := store.Prompt(ctx, old.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().UTC()
	rec := session.Record{ID: session.NewID(now), Key: old.Key, Address: old.Address, Created: now, Updated: now, Owner: old.Owner, OwnersOnly: old.OwnersOnly}
	if _, err := store.Branch(ctx, old.ID, 0, session.Creation{Record: rec, Prompt: raw}); err != nil {
		w.t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		w.t.Fatal(err)
	}
	return old.ID
}

// TestAResumedTurnHasTheStateOfItsEngine: the process dies after a compaction
// inside the turn and before its commit.
func TestAResumedTurnHasTheStateOfItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, sized("One.", 10), llmtest.Answer{Calls: []llmtest.Call{{Name: "lookup"}}, Usage: llm.Usage{Input: 60_000, Output: 5}}, hanging(), sized("Two.", 400))
		f := &folder{limit: 50_000}
		w.compressing(f, 100_000)
		compressing, states := w.set, []string{}
		w.set = func(o *gateway.Options) {
			compressing(o)
			o.Compression.Engine = func(_ session.Record, _ turn.ModelChoice, state json.RawMessage) (agent.Engine, error) {
				states = append(states, string(state))
				return f, nil
			}
		}
		w.tools = append(w.tools, lookup{})
		w.start()
		w.talk("a")
		w.say("7", "b")
		w.settle(time.Minute)
		w.kill()
		w.start()
		defer w.stop()
		w.settle(time.Minute)
		if got := w.room.visible("7"); got[len(got)-1] != "Two." || f.passes != 1 {
			t.Errorf("visible %q after %d passes", got, f.passes)
		}
		if d := cmp.Diff([]string{"", `{"passes":1}`}, states); d != "" {
			t.Error(d)
		}
	})
}
