package crashtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/memory"
	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	sim "hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/hindsight"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/mem0"
	"hermesd/storage/bolt"
)

// A remembering is a memory provider that outlives the daemons.
type remembering struct {
	name   string
	server *sim.Server
	file   string // its configuration in the home; URL is replaced
	config string
	writes string        // end of the path of the call that stores a turn
	stored func() string // everything that was stored
	exact  bool          // nothing is stored twice
}

func rememberings() []remembering {
	h, d, m := honcho.New(honcho.Options{}), hindsight.New(hindsight.Options{Extract: ms, Consolidate: ms}), mem0.New(mem0.Options{Own: true})
	return []remembering{
		{
			name: "honcho", server: h.Server, file: "honcho.json", config: `{"baseUrl":"URL","apiKey":"key-of-honcho","recallMode":"tools"}`, writes: "/messages", exact: true,
			stored: func() string {
				var all []string
				for _, c := range h.Calls() {
					if place, ok := strings.CutSuffix(strings.TrimPrefix(c.Path, "/v3/workspaces/"), "/messages"); ok {
						workspace, session, _ := strings.Cut(place, "/sessions/")
						all = nil
						for _, m := range h.Messages(workspace, session) {
							all = append(all, m.Content)
						}
					}
				}
				return strings.Join(all, "\n")
			},
		},
		{
			name: "hindsight", server: d.Server, file: "hindsight/config.json", config: `{"mode":"local_external","api_url":"URL","memory_mode":"tools"}`, writes: "/memories", exact: true,
			stored: func() string {
				var all []string
				for _, doc := range d.Documents("hermes") {
					all = append(all, doc.Text)
				}
				return strings.Join(all, "\n")
			},
		},
		{
			name: "mem0", server: m.Server, file: "mem0.json", config: `{"host":"URL","api_key":"key-of-mem0"}`, writes: "/memories",
			stored: func() string { // its model merges what is said twice, so the calls count
				var all []string
				for _, c := range m.Calls() {
					if c.Effect && c.Path == "/memories" {
						all = append(all, string(c.Body))
					}
				}
				return strings.Join(all, "\n")
			},
		},
	}
}

// A remembered is the daemon with a memory provider.
type remembered struct {
	*testing.T
	*daemontest.Rig
	remembering
	said  int
	kills int
}

// say has a turn and returns when its answer is visible: it is committed.
func (r *remembered) say() {
	r.Helper()
	r.said++
	text := fmt.Sprintf("remember <%d>, please", r.said)
	r.Direct[0].Say(r.People[0], text)
	if _, err := r.Direct[0].WaitText(r.Context(), "done: "+text); err != nil {
		r.Fatal(err)
	}
}

// await returns when ok is true.
func (r *remembered) await(what string, ok func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Fatalf("never: %s; stored is\n%s", what, r.stored())
		}
	}
}

// sends returns how many calls that store a turn were received, and how many of them were
// handled.
func (r *remembered) sends() (received, handled int) {
	for _, c := range r.server.Calls() {
		if c.Method == "POST" && strings.HasSuffix(c.Path, r.writes) {
			received++
			if c.Effect {
				handled++
			}
		}
	}
	return received, handled
}

func (r *remembered) kill() {
	r.Helper()
	r.Kill()
	r.kills++
	r.server.Heal()
	if err := r.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.await("all turns are stored", func() bool {
		text := r.stored()
		for n := 1; n <= r.said; n++ {
			if !strings.Contains(text, fmt.Sprintf("remember <%d>", n)) && !strings.Contains(text, fmt.Sprintf(`remember \u003c%d\u003e`, n)) {
				return false
			}
		}
		return true
	})
}

// TestSIGKILLBetweenATurnAndItsMemory kills the daemon before a turn is sent to the memory
// provider, while it is sent, and before it is stored that it was.
func TestSIGKILLBetweenATurnAndItsMemory(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, m := range rememberings() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := newRemembered(t, bin, m)
			r.play()
			if err := r.Stop(90 * time.Second); err != nil {
				t.Errorf("the last stop: %v", err)
			}
			r.judge()
		})
	}
}

func newRemembered(t *testing.T, bin string, m remembering) *remembered {
	t.Cleanup(m.server.Close)
	if err := m.server.Start(); err != nil {
		t.Fatal(err)
	}
	rig, err := daemontest.New(daemontest.Options{
		Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 1, Out: testWriter{t},
		Model:  llm.Options{Reply: func(r llm.Request) llm.Reply { return llm.Reply{Text: "done: " + r.Newest()} }, NoBodies: true},
		Config: "gateway:\n  restart_notice: false\nlogging:\n  level: error\nmemory:\n  provider: " + m.name + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rig.Close)
	file := filepath.Join(rig.Home(), m.file)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(m.config, "URL", m.server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rig.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &remembered{T: t, Rig: rig, remembering: m}
}

// play kills the daemon at each of the points. A second turn waits behind the one that is
// sent: it is killed before it is sent.
func (r *remembered) play() {
	r.Helper()
	const long = time.Hour
	for _, f := range []sim.Fault{{Delay: long}, {Late: long}, {Kind: sim.CutAfter}} {
		f.Method, f.Path, f.Times = "POST", r.writes, -1
		r.server.Inject(f)
		received, handled := r.sends()
		r.say()
		r.await("it is sent", func() bool {
			now, effects := r.sends()
			return now > received && (f.Delay > 0 || effects > handled)
		})
		r.say()
		r.kill()
	}
	for range 3 { // between the answer and the settlement, or shortly before or after
		_, handled := r.sends()
		r.say()
		r.await("it is stored", func() bool { _, now := r.sends(); return now > handled })
		r.kill()
	}
}

// judge checks what the provider has, and that nothing more waits for it.
func (r *remembered) judge() {
	r.Helper()
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(r.stored())
	twice := 0
	for n := 1; n <= r.said; n++ {
		switch many := strings.Count(text, fmt.Sprintf("remember <%d>", n)) / 2; { // the answer repeats it
		case many == 0:
			r.Errorf("turn %d is lost", n)
		case many > 1:
			twice += many - 1
		}
	}
	if r.exact && twice > 0 || twice > r.kills {
		r.Errorf("%d of %d turns were stored again after %d kills:\n%s", twice, r.said, r.kills, text)
	}
	r.Logf("%d turns, %d kills, %d stored again", r.said, r.kills, twice)
	s, err := bolt.Open(r.Context(), filepath.Join(r.Home(), "hermesd.db"), bolt.Options{})
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	queued, err := s.QueuedEvents(r.Context(), memory.Queue)
	if err != nil {
		r.Fatal(err)
	}
	for _, q := range queued {
		accepted := strings.Contains(string(q.Doc), `"pending":true`) // and is asked for
		if q.Aside != "" || !strings.HasPrefix(q.Key, "end:") && !accepted {
			r.Errorf("%s waits or is set aside: %q, %s", q.Key, q.Aside, q.Doc)
		}
	}
}
