package mem0_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/mem0"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/mem0"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "m0-key-of-the-test"

// source returns a Source with a mem0.json, unless that is "".
func source(t testing.TB, file string, env map[string]string) provider.Source {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, "mem0.json"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: func(name string) string { return env[name] }}
}

// open returns a provider of a simulator. The cloud is reached at its own address.
func open(t testing.TB, s *sim.Server, file string, env map[string]string) provider.Provider {
	t.Helper()
	src := source(t, file, env)
	src.HTTP = s.Client()
	p, warnings, err := mem0.Open(src)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %v, warnings %q", err, warnings)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func newCloud(t testing.TB) (*sim.Server, provider.Provider) {
	t.Helper()
	s := sim.New(sim.Options{Keys: []string{key}})
	t.Cleanup(s.Close)
	return s, open(t, s, "", map[string]string{"MEM0_API_KEY": key})
}

func newOwn(t testing.TB) (*sim.Server, provider.Provider) {
	t.Helper()
	s := sim.New(sim.Options{Keys: []string{key}, Own: true})
	t.Cleanup(s.Close)
	return s, open(t, s, `{"host":"`+s.URL+`/"}`, map[string]string{"MEM0_API_KEY": key})
}

func turn(s provider.Scope) provider.Event {
	return provider.Event{Key: "5e9a6f43-6a0b-5c53-9bd5-5d2e6a3f0c11", Kind: provider.Turn, Scope: s, Messages: []provider.Message{
		{Role: "user", Text: "My tea is green."}, {Role: "assistant", Text: "Noted."},
	}}
}

var (
	owner = provider.Scope{UserID: "4711", Session: "s1", Platform: "telegram"}
	bob   = provider.Scope{Person: "bob", UserID: "12", Session: "s2", Platform: "telegram"}
)

func texts(t *testing.T, p provider.Provider, s provider.Scope, query string) string {
	t.Helper()
	items, err := p.Recall(t.Context(), s, query)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range items {
		if i.ID == "" {
			t.Errorf("item %+v", i)
		}
		out = append(out, i.Text)
	}
	return strings.Join(out, "|")
}

func sync(t *testing.T, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTurnsOfTheCloudAreFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newCloud(t)
		r := sync(t, p, turn(owner))
		if !r.Pending || r.ID == "" {
			t.Errorf("receipt %+v", r)
		}
		if ok, err := p.Synced(t.Context(), turn(owner), r); ok || err != nil {
			t.Errorf("synced at once: %v, %v", ok, err)
		}
		time.Sleep(2 * time.Second)
		if ok, err := p.Synced(t.Context(), turn(owner), r); !ok || err != nil {
			t.Errorf("synced: %v, %v", ok, err)
		}
		if _, err := p.Synced(t.Context(), turn(owner), provider.Receipt{}); !errors.Is(err, provider.ErrUnknown) {
			t.Errorf("synced without a receipt: %v", err)
		}
		if got := texts(t, p, owner, "which tea"); got != "My tea is green." {
			t.Errorf("recalled %q", got)
		}
		if got := texts(t, p, bob, "which tea"); got != "" {
			t.Errorf("recalled for another person: %q", got)
		}
		var sent struct {
			User     string            `json:"user_id"`
			Agent    string            `json:"agent_id"`
			Metadata map[string]string `json:"metadata"`
		}
		if err := json.Unmarshal(s.Calls()[0].Body, &sent); err != nil || sent.User != "4711" || sent.Agent != "hermes" || sent.Metadata["channel"] != "telegram" {
			t.Errorf("sent %+v, %v", sent, err)
		}
		s.FailEvents(1)
		r = sync(t, p, turn(bob))
		time.Sleep(2 * time.Second)
		if _, err := p.Synced(t.Context(), turn(bob), r); !errors.Is(err, provider.ErrFailed) {
			t.Errorf("synced of a failed event: %v", err)
		}
	})
}

func TestFacts(t *testing.T) {
	for name, start := range map[string]func(testing.TB) (*sim.Server, provider.Provider){"cloud": newCloud, "own": newOwn} {
		t.Run(name, func(t *testing.T) {
			s, p := start(t)
			e := provider.Event{Kind: provider.Added, Scope: owner, Fact: provider.Fact{Target: "user", Text: "Likes green tea."}}
			sync(t, p, e)
			e.Fact.ID = sync(t, p, e).ID // the first answer was lost
			if n := len(s.Memories("4711")); n != 2 || e.Fact.ID == "" {
				t.Errorf("%d memories, receipt %q", n, e.Fact.ID)
			}
			other := e
			other.Scope = bob
			sync(t, p, other)
			for _, id := range []string{e.Fact.ID, e.Fact.ID, "", "not a UUID", ".."} {
				e.Kind, e.Fact.ID = provider.Removed, id
				sync(t, p, e)
				if n := len(s.Memories("4711")); n != 0 {
					t.Errorf("%d memories after the removal of %q", n, id)
				}
			}
			sync(t, p, provider.Event{Kind: provider.Forget, Scope: bob})
			if n := len(s.Memories("bob")); n != 1 {
				t.Errorf("%d memories of another person", n)
			}
			sync(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "bob"}})
			if n := len(s.Memories("bob")); n != 0 {
				t.Errorf("%d memories left", n)
			}
			for _, kind := range []provider.Kind{provider.Checkpoint, provider.End, provider.Turn} {
				before := len(s.Calls())
				if r := sync(t, p, provider.Event{Kind: kind, Scope: owner}); r != (provider.Receipt{}) || len(s.Calls()) != before {
					t.Errorf("%s: receipt %+v, %d calls", kind, r, len(s.Calls())-before)
				}
			}
		})
	}
}

func TestFactsThatTheCloudQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{Queue: true})
		t.Cleanup(s.Close)
		p := open(t, s, "", map[string]string{"MEM0_API_KEY": key})
		e := provider.Event{Kind: provider.Added, Scope: owner, Fact: provider.Fact{Text: "Likes green tea."}}
		r := sync(t, p, e)
		if !r.Pending || r.ID == "" {
			t.Errorf("receipt %+v", r)
		}
		e.Kind, e.Fact = provider.Removed, provider.Fact{ID: r.ID}
		if _, err := p.Sync(t.Context(), e); provider.ClassOf(err) != provider.Limit {
			t.Errorf("removed before it was stored: %v", err)
		}
		time.Sleep(2 * time.Second)
		if ok, err := p.Synced(t.Context(), e, r); !ok || err != nil || len(s.Memories("4711")) != 1 {
			t.Errorf("synced %v, %v", ok, err)
		}
		sync(t, p, e)
		if n := len(s.Memories("4711")); n != 0 {
			t.Errorf("%d memories", n)
		}
		out, err := p.Call(t.Context(), owner, "mem0_add", json.RawMessage(inputs["mem0_add"]))
		if err != nil || !strings.Contains(out, `"result":"Fact queued for storage."`) {
			t.Errorf("add: %s, %v", out, err)
		}
	})
}

func TestOwnServerStoresAtOnce(t *testing.T) {
	s, p := newOwn(t)
	if _, err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if r := sync(t, p, turn(owner)); r.Pending {
		t.Errorf("receipt %+v", r)
	}
	if got := texts(t, p, owner, "which tea"); got != "My tea is green." {
		t.Errorf("recalled %q", got)
	}
	if a := p.About(); a.Mode != "own server" || a.Place != s.URL || a.Exact {
		t.Errorf("about %+v", a)
	}
	if body := string(s.Calls()[0].Body); strings.Contains(body, "rerank") || strings.Contains(body, "threshold") {
		t.Errorf("search %s", body)
	}
	open(t, s, `{"host":"`+s.URL+`"}`, nil) // a server without keys
}

func TestTools(t *testing.T) {
	s, p := newCloud(t)
	call := func(tool, input string) string {
		t.Helper()
		out, err := p.Call(t.Context(), owner, tool, json.RawMessage(input))
		if err != nil {
			return "error: " + err.Error()
		}
		return out
	}
	if got := call("mem0_add", `{"content":"My tea is green."}`); got != `{"event_id":null,"result":"Fact stored."}` {
		t.Errorf("add: %s", got)
	}
	id := s.Memories("4711")[0].ID
	if got := call("mem0_search", `{"query":"tea","top_k":"99","rerank":true}`); got != `{"count":1,"results":[{"id":"`+id+`","memory":"My tea is green.","score":1}]}` {
		t.Errorf("search: %s", got)
	}
	if body := string(s.Calls()[len(s.Calls())-1].Body); !strings.Contains(body, `"rerank":true`) || !strings.Contains(body, `"top_k":50`) {
		t.Errorf("search sent %s", body)
	}
	if got := call("mem0_update", `{"memory_id":"`+id+`","text":"My tea is black."}`); got != `{"memory_id":"`+id+`","result":"Memory updated."}` || s.Memories("4711")[0].Text != "My tea is black." {
		t.Errorf("update: %s", got)
	}
	if got := call("mem0_delete", `{"memory_id":"`+id+`"}`); got != `{"memory_id":"`+id+`","result":"Memory deleted."}` || len(s.Memories("4711")) != 0 {
		t.Errorf("delete: %s", got)
	}
	for _, test := range [][3]string{
		{"mem0_search", `{"query":"nothing"}`, `{"result":"No relevant memories found."}`},
		{"mem0_search", `{"query":" "}`, `{"error":"Missing required parameter: query"}`},
		{"mem0_update", `{"memory_id":"` + id + `"}`, `{"error":"Missing required parameter: text"}`},
		{"mem0_delete", `{"memory_id":"` + id + `"}`, `{"error":"Memory not found: ` + id + `"}`},
		{"mem0_delete", `{"memory_id":"../x"}`, `{"error":"Memory not found: ../x"}`},
		{"mem0_update", `{"memory_id":"7","text":"x"}`, `{"error":"Memory not found: 7"}`},
		{"mem0_list", `{}`, `{"error":"Unknown tool: mem0_list"}`},
	} {
		if got := call(test[0], test[1]); got != test[2] {
			t.Errorf("%s %s: %s", test[0], test[1], got)
		}
	}
	if got := call("mem0_add", `[1]`); !strings.HasPrefix(got, `{"error":"the input of mem0_add is not a JSON object`) {
		t.Errorf("invalid input: %s", got)
	}
}

func TestConfiguration(t *testing.T) {
	keyed := map[string]string{"MEM0_API_KEY": key}
	for _, test := range []struct {
		name, file string
		env        map[string]string
		err        string // a part of it
		warnings   []string
		user       string // of the owner's search
	}{
		{name: "nothing", err: "set MEM0_API_KEY"},
		{name: "key", env: keyed, user: "4711"},
		{name: "key in the file", file: `{"api_key":"` + key + `","mode":"platform"}`, user: "4711"},
		{name: "file first", file: `{"api_key":"` + key + `","user_id":"ann"}`, env: map[string]string{"MEM0_API_KEY": "other", "MEM0_USER_ID": "eve"}, user: "ann"},
		{name: "empty values of the file", file: `{"api_key":"","user_id":null}`, env: map[string]string{"MEM0_API_KEY": key, "MEM0_USER_ID": "eve"}, user: "eve"},
		{name: "placeholder", file: `{"user_id":"hermes-user"}`, env: keyed, user: "4711"},
		{name: "oss", file: `{"mode":"oss","oss":{"vector_store":{"provider":"qdrant"}},"api_key":"k"}`, err: "Mem0 mode oss runs only inside Python"},
		{name: "oss with a host", env: map[string]string{"MEM0_MODE": "oss", "MEM0_HOST": "http://localhost:8888"}, err: "Mem0 mode oss runs only inside Python"},
		{name: "mode", file: `{"mode":"cloud"}`, env: keyed, user: "4711", warnings: []string{`mode "cloud" is unknown`}},
		{name: "key unknown", file: `{"hots":"x"}`, env: keyed, user: "4711", warnings: []string{`"hots" is unknown`}},
		{name: "not JSON", file: `{`, env: keyed, err: "mem0.json is not a JSON object"},
		{name: "host", file: `{"host":"localhost:8888"}`, err: "is not an http or https URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sim.New(sim.Options{Keys: []string{key}})
			t.Cleanup(s.Close)
			src := source(t, test.file, test.env)
			src.HTTP = s.Client()
			p, warnings, err := mem0.Open(src)
			if !slices.EqualFunc(warnings, test.warnings, strings.Contains) {
				t.Errorf("warnings %q", warnings)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(test.err, "oss") != errors.Is(err, provider.ErrImpossible) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Calls()) != 0 {
				t.Error("Open has made a call")
			}
			texts(t, p, owner, "tea")
			if body := string(s.Calls()[0].Body); !strings.Contains(body, `"user_id":"`+test.user+`"`) {
				t.Errorf("search %s", body)
			}
			if _, err := p.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPeopleHaveMemoriesOfTheirOwn(t *testing.T) {
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	p := open(t, s, `{"user_id":"ann"}`, map[string]string{"MEM0_API_KEY": key})
	for _, test := range []struct {
		scope provider.Scope
		want  string
	}{
		{owner, "ann"},
		{provider.Scope{}, "ann"},
		{bob, "bob"},
		{provider.Scope{Person: "ann"}, "ann-person"},
		{provider.Scope{Person: "hermes-user"}, "hermes-user-person"},
	} {
		sync(t, p, provider.Event{Kind: provider.Added, Scope: test.scope, Fact: provider.Fact{Text: test.want}})
		if m := s.Memories(test.want); len(m) == 0 || m[len(m)-1].Text != test.want {
			t.Errorf("%+v: %v", test.scope, m)
		}
	}
}

func TestErrors(t *testing.T) {
	s, p := newCloud(t)
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 401})
	if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Auth || strings.Contains(err.Error(), key) {
		t.Errorf("error %v", err)
	}
	s.Inject(memory.Fault{Kind: memory.CutAfter, Path: "add"})
	_, err := p.Sync(t.Context(), turn(owner))
	if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Sent || e.Class != provider.Down {
		t.Errorf("error %v", err)
	}
	if n := s.Count("POST", "/v3/memories/add/"); n != 1 {
		t.Errorf("%d writes", n)
	}
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 500, Method: "DELETE"})
	e := provider.Event{Kind: provider.Removed, Scope: owner, Fact: provider.Fact{ID: "7", Text: "x"}}
	if _, err := p.Sync(t.Context(), e); provider.ClassOf(err) != provider.Down {
		t.Errorf("error %v", err)
	}
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 500, Method: "PUT"})
	r, err := p.Sync(t.Context(), provider.Event{Kind: provider.Added, Scope: owner, Fact: provider.Fact{Text: "tea"}})
	if err != nil || r.ID == "" {
		t.Fatal(r, err)
	}
	if _, err := p.Call(t.Context(), owner, "mem0_update", json.RawMessage(strings.Replace(inputs["mem0_update"], memoryID, r.ID, 1))); provider.ClassOf(err) != provider.Down || err == nil {
		t.Errorf("error %v", err)
	}
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 404, Path: "event"})
	if _, err := p.Synced(t.Context(), turn(owner), provider.Receipt{ID: "7", Pending: true}); !errors.Is(err, provider.ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

func TestHeaderIsShort(t *testing.T) {
	_, p := newCloud(t)
	if n := len([]rune(p.About().Header)); n > 600 {
		t.Errorf("%d characters", n)
	}
}

var inputs = map[string]string{
	"mem0_search": `{"query":"jasmine","top_k":5}`, "mem0_add": `{"content":"I prefer jasmine tea."}`,
	"mem0_update": `{"memory_id":"` + memoryID + `","text":"I prefer espresso."}`, "mem0_delete": `{"memory_id":"` + memoryID + `"}`,
}

// memoryID is the ID of no memory.
const memoryID = "00000000-0000-4000-8000-000000000000"

func TestSuite(t *testing.T) {
	queued := func(t testing.TB) (*sim.Server, provider.Provider) {
		s := sim.New(sim.Options{Keys: []string{key}, Queue: true})
		t.Cleanup(s.Close)
		return s, open(t, s, "", map[string]string{"MEM0_API_KEY": key})
	}
	for name, start := range map[string]func(testing.TB) (*sim.Server, provider.Provider){"cloud": newCloud, "cloud that queues facts": queued, "own": newOwn} {
		t.Run(name, func(t *testing.T) {
			var health provider.Health
			if name != "own" {
				health.Detail = "account ann@example.org"
			}
			providertest.Suite(t, providertest.Options{Settle: 3 * time.Second, Inputs: inputs, Health: health, ByID: map[string]string{"mem0_update": `{"memory_id":"ID","text":"changed"}`, "mem0_delete": `{"memory_id":"ID"}`}, New: func(t *testing.T) providertest.Target {
				s, p := start(t)
				return providertest.Target{Provider: p, Server: s.Server, Key: key, Count: func(text string) int {
					n := 0
					for _, user := range []string{providertest.Owner("").UserID, providertest.Other("").Person} {
						for _, m := range s.Memories(user) {
							n += strings.Count(m.Text, text)
						}
					}
					return n
				}}
			}})
		})
	}
}

func FuzzAnswers(f *testing.F) {
	providertest.FuzzAnswers(f, func(t *testing.T, transport http.RoundTripper) provider.Provider {
		src := source(t, "", map[string]string{"MEM0_API_KEY": key})
		src.HTTP = &http.Client{Transport: transport}
		p, _, err := mem0.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, inputs,
		`{"results":[{"id":"1","memory":"tea","score":0.5,"created_at":"2026-11-28T00:00:00Z"},{"id":"../1","memory":"I prefer papaya over melon."}]}`,
		`{"event_id":"7","status":"FAILED"}`, `{"error":"Memory not found!"}`)
}

func FuzzFile(f *testing.F) {
	providertest.FuzzFile(f, func(t *testing.T, file string, transport http.RoundTripper) (provider.Provider, error) {
		src := source(t, file, map[string]string{"MEM0_API_KEY": key})
		src.HTTP = &http.Client{Transport: transport}
		p, _, err := mem0.Open(src)
		return p, err
	}, inputs,
		`{"mode":"platform","host":"http://localhost:8888","api_key":"k","user_id":"a/b"}`, `{"mode":"oss"}`, `{"host":"://"}`)
}
