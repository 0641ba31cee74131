package memory_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/hindsight"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/agent/memory/provider/mem0"
	"hermesd/agent/memory/provider/openviking"
	"hermesd/agent/memory/provider/retaindb"
	"hermesd/agent/memory/provider/supermemory"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/internal/secret"
	simmemory "hermesd/internal/sim/memory"
	simhindsight "hermesd/internal/sim/memory/hindsight"
	simhoncho "hermesd/internal/sim/memory/honcho"
	simmem0 "hermesd/internal/sim/memory/mem0"
	simopenviking "hermesd/internal/sim/memory/openviking"
	simretaindb "hermesd/internal/sim/memory/retaindb"
	simsupermemory "hermesd/internal/sim/memory/supermemory"
	"hermesd/storage/bolt"
)

const simKey = "key-of-the-test"

// A service is the simulated service of a provider; server is nil for a local one.
type service struct {
	server *simmemory.Server
	client *http.Client
	env    map[string]string
	open   func(provider.Source) (provider.Provider, []string, error)
	// count returns how many copies of a text of the owner's conversation are stored; nil
	// if they cannot be counted.
	count func(text string) int
}

func texts[T any](list []T, text func(T) string, part string) (n int) {
	for _, v := range list {
		n += strings.Count(text(v), part)
	}
	return n
}

// services returns how to start each service. What a person says is kept by all but
// holographic, which has facts only.
func services() map[string]func(t *testing.T) service {
	keys := []string{simKey}
	return map[string]func(t *testing.T) service{
		"honcho": func(t *testing.T) service {
			s := simhoncho.New(simhoncho.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"HONCHO_API_KEY": simKey, "HONCHO_BASE_URL": s.URL}, honcho.Open, func(text string) int {
				return texts(s.Messages("hermes", "agent-main-telegram-dm-7"), func(m simhoncho.Message) string { return m.Content }, text)
			}}
		},
		"hindsight": func(t *testing.T) service {
			s := simhindsight.New(simhindsight.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"HINDSIGHT_API_KEY": simKey, "HINDSIGHT_API_URL": s.URL}, hindsight.Open, func(text string) int {
				return texts(s.Documents("hermes"), func(d simhindsight.Document) string { return d.Text }, text)
			}}
		},
		"openviking": func(t *testing.T) service {
			s := simopenviking.New(simopenviking.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"OPENVIKING_URL": s.URL, "OPENVIKING_API_KEY": simKey}, openviking.Open, nil}
		},
		"mem0": func(t *testing.T) service {
			s := simmem0.New(simmem0.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"MEM0_API_KEY": simKey}, mem0.Open, nil}
		},
		"retaindb": func(t *testing.T) service {
			s := simretaindb.New(simretaindb.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"RETAINDB_API_KEY": simKey, "RETAINDB_BASE_URL": s.URL}, retaindb.Open, nil}
		},
		"supermemory": func(t *testing.T) service {
			s := simsupermemory.New(simsupermemory.Options{Keys: keys})
			t.Cleanup(s.Close)
			return service{s.Server, s.Client(), map[string]string{"SUPERMEMORY_API_KEY": simKey, "SUPERMEMORY_BASE_URL": s.URL}, supermemory.Open, func(text string) int {
				return texts(s.Memories("hermes"), func(m simsupermemory.Memory) string { return m.Text }, text)
			}}
		},
		"holographic": func(*testing.T) service { return service{open: holographic.Open} },
	}
}

// A daemon is a service over a real store and a simulated provider.
type daemon struct {
	service
	bench
	dir   string
	store *bolt.Store
}

func start(t *testing.T, s service, dir string) *daemon {
	t.Helper()
	return startWith(t, s, dir, func(db *bolt.Store) memory.Store { return db })
}

// startWith starts a daemon whose service uses what wrap returns for its store.
func startWith(t *testing.T, s service, dir string, wrap func(*bolt.Store) memory.Store) *daemon {
	t.Helper()
	db, err := bolt.Open(t.Context(), filepath.Join(dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{service: s, dir: dir, store: db, bench: bench{t: t}}
	parts := d.parts(settings())
	parts.Provider, parts.Store = d.client(), wrap(db)
	d.Service = memory.New(parts)
	d.Start(t.Context())
	t.Cleanup(d.stop)
	return d
}

// client opens the provider.
func (d *daemon) client() provider.Provider {
	d.t.Helper()
	p, warnings, err := d.open(provider.Source{Secrets: new(secret.Masker), Home: filepath.Join(d.dir, ".hermes"), Getenv: func(name string) string { return d.env[name] }, HTTP: d.service.client})
	if err != nil || len(warnings) > 0 {
		d.t.Fatal(warnings, err)
	}
	return p
}

func (d *daemon) stop() {
	d.Close()
	if err := d.store.Close(); err != nil {
		d.t.Error(err)
	}
}

func (d *daemon) say(id session.ID, turns int, text string) {
	d.t.Helper()
	turn := owner(id, turns, text)
	if err := d.store.EnqueueEvents(d.t.Context(), d.TurnEvents(turn, fmt.Sprint(id, turns), text, "Noted.", time.Now()), "", nil); err != nil {
		d.t.Fatal(err)
	}
	d.Wake()
}

// end ends a session after turns.
func (d *daemon) end(id session.ID, turns int) {
	d.t.Helper()
	if err := d.store.EnqueueEvents(d.t.Context(), d.EndEvents(owner(id, turns, "")), "", nil); err != nil {
		d.t.Fatal(err)
	}
	d.Wake()
}

// eachService runs a test for each service in virtual time.
func eachService(t *testing.T, test func(t *testing.T, name string, s service)) {
	for name, open := range services() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("HOME", dir)
			synctest.Test(t, func(t *testing.T) { test(t, name, open(t)) })
		})
	}
}

// What is said in one session is recalled in a later one, also after a restart, and a
// fact follows the built-in memory.
func TestLaterSessionsRecall(t *testing.T) {
	eachService(t, func(t *testing.T, name string, s service) {
		dir := t.TempDir()
		d := start(t, s, dir)
		recalls := func(id session.ID, part string, want bool) {
			t.Helper()
			question := "What do I prefer, papaya or espresso or mango?"
			d.begin(owner(id, 0, question)) // some are asked ahead
			later(time.Minute)
			static, _ := d.Static(t.Context(), owner(id, 0, question))
			block, _ := d.begin(owner(id, 1, question))
			if strings.Contains(block+static, part) != want {
				t.Errorf("%q in the block is %v:\n%s\n%s", part, !want, static, block)
			}
		}
		mirror := func(id session.ID, entries ...string) {
			t.Helper()
			if err := d.Mirror(t.Context(), owner(id, 1, ""), map[string][]string{"user": entries}); err != nil {
				t.Error(err)
			}
			later(10 * time.Minute)
		}
		d.say("20261128_010203_00000001", 0, "I prefer papaya over melon.")
		later(2 * time.Hour)
		kept := name != "holographic"
		recalls("20261128_010203_00000002", "papaya", kept)
		mirror("20261128_010203_00000002", "I prefer espresso after lunch.")
		recalls("20261128_010203_00000003", "espresso", true)
		d.stop()
		d = start(t, s, dir)
		recalls("20261128_010203_00000004", "papaya", kept)
		mirror("20261128_010203_00000004", "I prefer mango for breakfast.")
		recalls("20261128_010203_00000005", "mango", true)
		recalls("20261128_010203_00000006", "espresso", false)
		mirror("20261128_010203_00000006")
		recalls("20261128_010203_00000007", "mango", false)
		if st := d.Status(); !st.Up || st.Queue.Waiting+st.Queue.Aside != 0 || len(d.told()) != 0 {
			t.Errorf("%+v, notices %q", st, d.told())
		}
	})
}

// A fault of the service harms no turn, loses nothing, is reported once, and ends without
// a restart.
func TestFaultsOfServices(t *testing.T) {
	eachService(t, func(t *testing.T, name string, s service) {
		if s.server == nil {
			t.Skip("it is local")
		}
		for i, f := range []simmemory.Fault{
			{Kind: simmemory.Pass, Delay: 10 * time.Second}, {Kind: simmemory.Refuse, Status: 401}, {Kind: simmemory.Refuse, Status: 429, RetryAfter: 90 * time.Second},
			{Kind: simmemory.Refuse}, {Kind: simmemory.Page}, {Kind: simmemory.Cut}, {Kind: simmemory.CutAfter}, {Kind: simmemory.HalfAfter}, {Kind: simmemory.Empty},
		} {
			dir := t.TempDir()
			d := start(t, s, dir)
			later(time.Second)
			word := fmt.Sprintf("fruit%c", 'a'+i)
			id := session.ID(fmt.Sprintf("20261128_010203_0000001%d", i))
			f.Times = -1
			d.server.Inject(f)
			for turn := range 3 {
				if _, took := d.begin(owner(id, turn, "What fruit do I prefer?")); took > 800*time.Millisecond {
					t.Errorf("fault %+v: a turn waits %v", f, took)
				}
				d.say(id, turn, fmt.Sprintf("I prefer %s%d over melon.", word, turn))
				d.end(id, turn+1) // some wait for more turns
				later(20 * time.Second)
			}
			slow := f.Kind == simmemory.Pass
			if st := d.Status(); !slow && (st.Up || len(d.told()) != 1) { // some providers wait for less than 10 s
				t.Errorf("fault %+v: %+v, notices %q", f, st, d.told())
			}
			d.server.Heal()
			later(3 * time.Hour)
			d.begin(owner(id+"0", 0, "What fruit do I prefer?"))
			if st := d.Status(); !st.Up || st.Queue.Waiting+st.Queue.Aside != 0 || st.Breaker != "closed" {
				t.Errorf("fault %+v: %+v", f, st)
			}
			for turn := range 3 {
				text := fmt.Sprintf("%s%d", word, turn)
				if s.count != nil && s.count(text) != 1 {
					t.Errorf("fault %+v: %d copies of %s", f, s.count(text), text)
				}
			}
			d.stop()
		}
	})
}

// A process that ends while a service handles a turn stores it once where the provider
// can tell.
func TestEndOfTheProcessWhileAServiceWorks(t *testing.T) {
	eachService(t, func(t *testing.T, name string, s service) {
		if s.count == nil {
			t.Skip("copies cannot be counted")
		}
		dir := t.TempDir()
		d := start(t, s, dir)
		d.say("20261128_010203_00000001", 0, "I prefer papaya over melon.")
		later(time.Hour)
		d.server.Inject(simmemory.Fault{Method: "POST", Late: 10 * time.Second, Times: -1})
		d.say("20261128_010203_00000001", 1, "I prefer espresso over tea.")
		d.end("20261128_010203_00000001", 2) // some wait for more turns
		later(time.Second)
		d.stop()
		d.server.Heal()
		d = start(t, s, dir)
		d.say("20261128_010203_00000001", 2, "I prefer mango over plum.")
		later(2 * time.Hour)
		for _, word := range []string{"papaya", "espresso", "mango"} {
			if n := s.count(word); n != 1 {
				t.Errorf("%d copies of %s", n, word)
			}
		}
	})
}

// Reloads with a refused key and with a good one in turn, while a recall and a send are
// under way, lose nothing, and store nothing twice where the provider can tell.
func TestReloadsWhileAServiceWorks(t *testing.T) {
	eachService(t, func(t *testing.T, name string, s service) {
		good, bad := s.env, maps.Clone(s.env)
		for variable, value := range bad {
			if value == simKey {
				bad[variable] = "a-refused-key"
			}
		}
		s.env = bad
		d := start(t, s, t.TempDir())
		if s.server != nil {
			d.server.Inject(simmemory.Fault{Delay: time.Second, Late: 3 * time.Second, Times: -1})
		}
		const id = session.ID("20261128_010203_00000001")
		reload := func(env map[string]string) {
			t.Helper()
			if d.env = env; !d.Configure(d.client(), settings()) {
				t.Error("the provider is not replaced")
			}
			d.Reload()
		}
		for i := range 6 {
			d.say(id, i, fmt.Sprintf("I prefer papaya%d over melon.", i))
			r := d.Recall(owner(id, i, question))
			later([]time.Duration{500 * time.Millisecond, 2 * time.Second, time.Minute}[i%3])
			reload([]map[string]string{good, bad}[i%2])
			r.Await(t.Context())
		}
		if s.server != nil {
			d.server.Heal()
		}
		reload(good)
		later(2 * time.Hour)
		d.begin(owner(id, 9, question))
		if st := d.Status(); !st.Up || st.Breaker != "closed" || st.Queue.Waiting+st.Queue.Aside != 0 || len(d.told()) > 1 {
			t.Errorf("%+v, notices %q", st, d.told())
		}
		for i := range 6 {
			if text := fmt.Sprintf("papaya%d", i); s.count != nil && s.count(text) != 1 {
				t.Errorf("%d copies of %s", s.count(text), text)
			}
		}
	})
}

// A document that Supermemory accepts and cannot process is sent again, and holds up no
// later turn.
func TestAcceptedTurnsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simsupermemory.New(simsupermemory.Options{})
		t.Cleanup(s.Close)
		env := map[string]string{"SUPERMEMORY_API_KEY": simKey, "SUPERMEMORY_BASE_URL": s.URL}
		d := start(t, service{s.Server, s.Client(), env, supermemory.Open, nil}, t.TempDir())
		later(time.Second)
		s.FailDocuments(2)
		const turns = 20
		for i := range turns {
			d.say("20261128_010203_00000001", i, fmt.Sprintf("I prefer fruit%02d.", i))
			d.end("20261128_010203_00000001", i+1) // so that the next turn is another document
			later(0)
		}
		later(time.Minute)
		if n := s.Count("POST", "/v4/conversations"); n != turns {
			t.Errorf("%d turns are sent in a minute", n)
		}
		later(2 * time.Minute)
		if n := len(s.Memories("hermes")); n != turns-2 {
			t.Errorf("%d turns are found", n)
		}
		later(time.Hour)
		if n, sent := len(s.Memories("hermes")), s.Count("POST", "/v4/conversations"); n != turns || sent != turns+2 {
			t.Errorf("%d turns are found, %d were sent", n, sent)
		}
		s.FailDocuments(1000)
		d.say("20261128_010203_00000001", turns, "I prefer what cannot be processed.")
		later(time.Hour)
		if st := d.Status(); st.Queue.Aside != 1 || !st.Up || len(d.told()) != 1 {
			t.Errorf("%+v, %q", st, d.told())
		}
	})
}
