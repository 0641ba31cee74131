package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/gateway/access"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/memory"
	"hermesd/gateway/turn"
	"hermesd/internal/secret"
	simmemory "hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/honcho"
)

// recallWait is how long a turn of an externalHarness waits for a recall.
const recallWait = 800 * time.Millisecond

// An externalHarness is a harness with Honcho as the external memory.
type externalHarness struct {
	*harness
	server *sim.Server
	memory *memory.Service
}

// newExternalHarness returns a harness whose model gives the same answer so many times.
func newExternalHarness(t *testing.T, answers int) *externalHarness {
	w := &externalHarness{harness: newHarness(t, slices.Repeat([]llmtest.Answer{llmtest.Say("Good.")}, answers)...), server: sim.New(sim.Options{})}
	t.Cleanup(w.server.Close)
	file := fmt.Sprintf(`{"baseUrl":%q,"apiKey":"key-of-honcho","recallSync":true}`, w.server.URL)
	if err := os.WriteFile(filepath.Join(w.dir, "honcho.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	w.configure = func(o *gatewaytest.Options) {
		p, warnings, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: w.dir, Getenv: func(string) string { return "" }, HTTP: &http.Client{Transport: w.server.Transport()}})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("open: %q, %v", warnings, err)
		}
		w.memory = memory.New(memory.Parts{
			Provider: p, Store: o.Store, Mask: new(secret.Masker).Mask, Log: zap.NewNop(), Observe: func(memory.Call) {}, Notify: func(context.Context, error) {},
			Settings: memory.Settings{RecallWait: recallWait, MaxChars: 10000, People: "everyone", Sync: true, QueueMax: 20000, Owners: func() []access.Principal { return nil }},
		})
		o.Memory = turn.Memory{External: w.memory}
	}
	return w
}

// answerTime says something in a chat and returns how long the answer took.
func (w *externalHarness) answerTime(in, text string) time.Duration {
	w.t.Helper()
	before, began := len(w.adapter.visible(in)), time.Now()
	w.sendText(in, text)
	for len(w.adapter.visible(in)) == before {
		if w.advance(time.Millisecond); time.Since(began) > time.Minute {
			w.t.Fatalf("%q is not answered", text)
		}
	}
	return time.Since(began)
}

// stored returns what Honcho has of ann in the order in which it came, by session.
func (w *externalHarness) stored() map[string][]string {
	all := map[string][]string{}
	for _, c := range w.server.Calls() {
		place, ok := strings.CutSuffix(strings.TrimPrefix(c.Path, "/v3/workspaces/"), "/messages")
		workspace, id, found := strings.Cut(place, "/sessions/")
		if !ok || !found || all[id] != nil {
			continue
		}
		for _, m := range w.server.Messages(workspace, id) {
			if m.Content != "Good." {
				all[id] = append(all[id], m.Content)
			}
		}
	}
	return all
}

// TestAnswersWaitForTheExternalMemoryNoLongerThanAllowed: an answer comes at most the
// configured wait later, whatever fails, and after three late recalls without any wait.
func TestAnswersWaitForTheExternalMemoryNoLongerThanAllowed(t *testing.T) {
	const slack = 5 * time.Millisecond
	for name, f := range map[string]simmemory.Fault{
		"slow":               {Delay: 10 * time.Second},
		"cut":                {Kind: simmemory.Cut},
		"cut, slow":          {Kind: simmemory.Cut, Delay: 10 * time.Second},
		"lost answers":       {Kind: simmemory.CutAfter},
		"401":                {Kind: simmemory.Refuse, Status: 401},
		"429":                {Kind: simmemory.Refuse, Status: 429, RetryAfter: 40 * time.Second},
		"500":                {Kind: simmemory.Refuse, Status: 500},
		"502":                {Kind: simmemory.Page},
		"pages of a proxy":   {Kind: simmemory.Page, Status: 200},
		"half of answers":    {Kind: simmemory.HalfAfter},
		"half of bodies":     {Kind: simmemory.ShortAfter},
		"empty":              {Kind: simmemory.Empty},
		"10 MB":              {Kind: simmemory.Huge, Size: 10 << 20},
		"answers that creep": {Late: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const turns = 8
				w := newExternalHarness(t, turns+1)
				w.start()
				defer w.stop()
				w.advance(time.Minute)
				if d := w.answerTime("7", "Does it work, before?"); d > slack {
					t.Errorf("with a memory that answers at once the answer takes %v", d)
				}
				w.advance(time.Minute)
				f.Times = -1
				w.server.Inject(f)
				waits := 0
				for n := range turns {
					d := w.answerTime("7", fmt.Sprintf("Does it work, message %d?", n))
					if d > recallWait+slack || n >= 3 && d > slack && (f.Delay > 0 || f.Late > 0) {
						t.Errorf("message %d is answered after %v", n, d)
					}
					if d > slack {
						waits++
					}
					w.advance(20 * time.Second)
				}
				if slow := f.Delay > 0 || f.Late > 0; slow && waits != 3 {
					t.Errorf("%d answers waited for a slow memory", waits)
				}
				w.server.Heal()
				w.advance(2 * time.Hour)
				if st := w.memory.Status(); st.Queue.Waiting+st.Queue.Aside != 0 {
					t.Errorf("after the fault: %+v", st.Queue)
				}
			})
		})
	}
}

// TestAThousandWaitingTurnsAreToldInOrder: the queue of a day without the external memory,
// and of a restart, drains in the order of each conversation, and each turn is told once.
func TestAThousandWaitingTurnsAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const people, rounds = 50, 20
		w := newExternalHarness(t, people*rounds)
		w.start()
		w.advance(time.Minute)
		w.server.Inject(simmemory.Fault{Kind: simmemory.Refuse, Status: 500, Times: -1})
		for n := range rounds {
			for p := range people {
				w.sendText(fmt.Sprint(1000+p), fmt.Sprintf("person %d, message %02d", p, n))
			}
			w.advance(time.Minute)
		}
		if n := w.memory.Status().Queue.Waiting; n < people*rounds {
			t.Errorf("%d events wait", n)
		}
		w.advance(time.Hour)
		w.stop()
		w.start()
		defer w.stop()
		w.advance(time.Hour)
		w.server.Heal()
		w.advance(time.Hour)
		if st := w.memory.Status(); st.Queue.Waiting+st.Queue.Aside != 0 || !st.Up {
			t.Errorf("%+v", st)
		}
		all := w.stored()
		for id, list := range all {
			if len(list) != rounds || !slices.IsSorted(list) || len(slices.Compact(list)) != rounds {
				t.Errorf("%s: %q", id, list)
			}
		}
		if len(all) != people {
			t.Errorf("%d conversations are stored", len(all))
		}
	})
}
