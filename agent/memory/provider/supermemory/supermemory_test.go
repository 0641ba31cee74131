package supermemory_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/supermemory"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/memory/supermemory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sm_key_of_the_test"

// A home is what a provider is opened from.
type home struct {
	env  map[string]string
	file string // supermemory.json; "": there is none
	from provider.Source
}

func (h home) open(t *testing.T, s *sim.Server) (provider.Provider, []string, error) {
	t.Helper()
	h.from.Home = t.TempDir()
	if h.file != "" {
		if err := os.WriteFile(filepath.Join(h.from.Home, "supermemory.json"), []byte(h.file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"SUPERMEMORY_API_KEY": key, "SUPERMEMORY_BASE_URL": s.URL}
	maps.Copy(env, h.env)
	h.from.Getenv, h.from.HTTP, h.from.Secrets = func(name string) string { return env[name] }, s.Client(), new(secret.Masker)
	return supermemory.Open(h.from)
}

// opened returns a provider of a new server.
func (h home) opened(t *testing.T, o sim.Options) (provider.Provider, *sim.Server) {
	t.Helper()
	s := sim.New(o)
	t.Cleanup(s.Close)
	p, warnings, err := h.open(t, s)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %q, %v", warnings, err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, s
}

// body returns the body of the last call of a server.
func body(s *sim.Server) string {
	calls := s.Calls()
	return string(calls[len(calls)-1].Body)
}

func call(t *testing.T, p provider.Provider, s provider.Scope, tool, input string) string {
	t.Helper()
	out, err := p.Call(t.Context(), s, "supermemory_"+tool, json.RawMessage(input))
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return out
}

func turn(key, session, text string) provider.Event {
	return provider.Event{Key: key, Kind: provider.Turn, Scope: provider.Scope{Session: session}, Messages: []provider.Message{{Role: "user", Text: text}, {Role: "assistant", Text: "Noted."}}}
}

func TestContainerTags(t *testing.T) {
	for _, test := range []struct {
		h    home
		want string
	}{
		{home{}, "hermes"},
		{home{file: `{"container_tag":" my  home-2 "}`}, "my_home_2"},
		{home{file: `{"container_tag":"__"}`}, "hermes"},
		{home{file: "\xef\xbb\xbf{\"container_tag\":\"file\"}", env: map[string]string{"SUPERMEMORY_CONTAINER_TAG": "env"}}, "env"},
		{home{file: `{"container_tag":"h_{identity}"}`}, "h_default"},
		{home{file: `{"container_tag":"h_{identity}"}`, from: provider.Source{Profile: "work-2"}}, "h_work_2"},
	} {
		p, s := test.h.opened(t, sim.Options{Keys: []string{key}})
		if _, err := p.Check(t.Context()); err != nil || body(s) != `{"containerTag":"`+test.want+`"}` {
			t.Errorf("%+v: %s, %v", test.h, body(s), err)
		}
		if got := s.Calls()[0].Header.Get("X-Sm-Source"); got != "hermes" {
			t.Errorf("x-sm-source %q", got)
		}
		for person, tag := range map[string]string{"ann": test.want + "-ann", strings.Repeat("a", 100): test.want + "-" + strings.Repeat("a", 90-len(test.want)) + "-"} {
			if _, err := p.Standing(t.Context(), provider.Scope{Person: person}); err != nil || !strings.HasPrefix(body(s), `{"containerTag":"`+tag) || len(body(s)) > len(`{"containerTag":""}`)+100 {
				t.Errorf("%s: %s, %v", person, body(s), err)
			}
		}
	}
}

func TestAHomeOfUpstream(t *testing.T) {
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	h := home{env: map[string]string{"SUPERMEMORY_BASE_URL": "https://example.invalid"}, file: `{"base_url":"` + s.URL + `/","container_tag":"home","auto_recall":"off","auto_capture":"no","max_recall_results":"3",
		"profile_frequency":5,"capture_mode":"everything","search_mode":" Memories ","entity_context":"` + strings.Repeat("é", 1600) + `","api_timeout":99,
		"enable_custom_container_tags":"yes","custom_containers":["work stuff","","private"],"custom_container_instructions":"Work goes to work_stuff.","colour":1}`}
	p, warnings, err := h.open(t, s)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `"colour"`) {
		t.Fatalf("%q, %v", warnings, err)
	}
	a := p.About()
	if !a.NoRecall || a.Place != s.URL || !strings.Contains(a.Header, "home, work_stuff, private.") || !strings.Contains(a.Header, "Work goes to") {
		t.Errorf("%+v", a)
	}
	if r, err := p.Sync(t.Context(), turn("k", "s", "tea")); err != nil || r.ID != "" || len(s.Calls()) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := call(t, p, provider.Scope{}, "search", `{"query":"tea","limit":"50","container_tag":"work stuff"}`); got != `{"container_tag":"work_stuff","count":0,"results":[]}` ||
		body(s) != `{"containerTag":"work_stuff","limit":20,"q":"tea","searchMode":"memories"}` {
		t.Errorf("%s after %s", got, body(s))
	}
	if _, err := p.Sync(t.Context(), provider.Event{Key: "f", Kind: provider.Added, Fact: provider.Fact{Target: "user", Text: "tea"}}); err != nil || strings.Count(body(s), "é") != 1500 {
		t.Errorf("%s, %v", body(s), err)
	}
	before := len(s.Calls())
	for tag, scope := range map[string]provider.Scope{"other": {}, "work_stuff": {Person: "ann"}, "home": {Person: "ann"}} {
		if got := call(t, p, scope, "search", `{"query":"tea","container_tag":"`+tag+`"}`); !strings.Contains(got, `"error":`) || len(s.Calls()) != before {
			t.Errorf("%s for %q: %s", tag, scope.Person, got)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	for want, h := range map[string]home{
		"SUPERMEMORY_API_KEY is missing": {env: map[string]string{"SUPERMEMORY_API_KEY": " "}},
		"correct or remove the file":     {file: `[1]`},
		"is not an http or https URL":    {env: map[string]string{"SUPERMEMORY_BASE_URL": "localhost:6767"}},
		"shorten container_tag":          {file: `{"container_tag":"` + strings.Repeat("a", 101) + `"}`},
	} {
		if _, _, err := h.open(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTurnsOfAConversationAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := home{}.opened(t, sim.Options{})
		const turns = 250
		for i := range turns {
			if _, err := p.Sync(t.Context(), turn("key-"+time.Duration(i).String(), "one", "tea")); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []provider.Event{turn("other", "two", "coffee"), {Key: "fact", Kind: provider.Added, Fact: provider.Fact{Text: "milk"}}} {
			if _, err := p.Sync(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Count("POST", "/v4/conversations"); n != turns+1 {
			t.Errorf("%d conversations", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(s.Memories("hermes")); n != turns+2 {
			t.Errorf("%d memories", n)
		}
		if _, err := p.Sync(t.Context(), provider.Event{Key: "f", Kind: provider.Forget, Scope: provider.Scope{Session: "one"}}); err != nil || len(s.Memories("hermes")) != 2 {
			t.Errorf("%d memories, %v", len(s.Memories("hermes")), err)
		}
		if _, err := p.Sync(t.Context(), provider.Event{Key: "g", Kind: provider.Forget}); err != nil || len(s.Memories("hermes")) != 0 {
			t.Errorf("%d memories, %v", len(s.Memories("hermes")), err)
		}
	})
}

func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := home{}.opened(t, sim.Options{})
		var owner provider.Scope
		out := call(t, p, owner, "store", `{"content":" I prefer green tea`+strings.Repeat("!", 80)+`","metadata":{"source":"x","subject":"drinks","deep":{"a":1}}}`)
		var stored struct {
			ID      string
			Saved   bool
			Preview string
		}
		if err := json.Unmarshal([]byte(out), &stored); err != nil || !stored.Saved || stored.ID == "" || len(stored.Preview) != 83 {
			t.Errorf("%s, %v", out, err)
		}
		if got := body(s); !strings.Contains(got, `"metadata":{"sm_source":"hermes","subject":"drinks","type":"preference"}`) || strings.Contains(got, "customId") {
			t.Errorf("sent %s", got)
		}
		call(t, p, owner, "store", `{"content":"We decided to buy milk","metadata":7}`)
		if !strings.Contains(body(s), `"type":"decision"`) {
			t.Errorf("sent %s", body(s))
		}
		call(t, p, owner, "store", `{"content":"The sky is blue","metadata":{"type":"explicit_memory"}}`)
		time.Sleep(2 * time.Minute)

		if out = call(t, p, owner, "search", `{"query":"green tea"}`); !strings.Contains(out, `"count":1`) || !strings.Contains(out, `"similarity":100`) {
			t.Errorf("%s", out)
		}
		if out = call(t, p, owner, "profile", `{}`); !strings.Contains(out, `## User Profile (Persistent)\n- The sky is blue\n\n## Recent Context\n- I prefer`) || !strings.Contains(out, `"static_count":1`) || !strings.Contains(out, `"dynamic_count":2`) {
			t.Errorf("%s", out)
		}
		if text, err := p.Standing(t.Context(), owner); err != nil || text != "## User Profile (Persistent)\n- The sky is blue" {
			t.Errorf("%q, %v", text, err)
		}
		if out = call(t, p, owner, "forget", `{"query":"green tea"}`); !strings.Contains(out, `"success":true`) || !strings.Contains(out, `Forgot: \"I prefer green tea`) {
			t.Errorf("%s", out)
		}
		if out = call(t, p, owner, "forget", `{"query":"green tea"}`); out != `{"message":"No matching memory found to forget.","success":false}` {
			t.Errorf("%s", out)
		}
		id := s.Memories("hermes")[0].ID
		if out = call(t, p, owner, "forget", `{"id":"`+id+`"}`); out != `{"forgotten":true,"id":"`+id+`"}` || len(s.Memories("hermes")) != 1 {
			t.Errorf("%s", out)
		}
		if out = call(t, p, owner, "forget", `{"id":"`+id+`"}`); !strings.Contains(out, `"error":"Supermemory refuses this: Memory not found`) {
			t.Errorf("%s", out)
		}
		for tool, want := range map[string]string{"store": "content is required", "search": "query is required", "forget": "id or a query", "x": "unknown tool"} {
			if out = call(t, p, owner, tool, `{}`); !strings.Contains(out, want) {
				t.Errorf("%s: %s", tool, out)
			}
		}
	})
}

func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := home{file: `{"max_recall_results":2}`}.opened(t, sim.Options{})
		for i, text := range []string{"green tea", "green tea", "black tea", "white tea"} {
			if _, err := p.Sync(t.Context(), provider.Event{Key: string(rune('a' + i)), Kind: provider.Added, Fact: provider.Fact{Text: text}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		items, err := p.Recall(t.Context(), provider.Scope{}, " green tea "+strings.Repeat("é", 300))
		if err != nil || len(items) != 2 || items[0].Text != "green tea" || items[1].Text != "black tea" || items[0].ID == "" {
			t.Errorf("%+v, %v", items, err)
		}
		if !strings.Contains(body(s), `"q":"green tea `+strings.Repeat("é", 190)+`"`) {
			t.Errorf("asked %s", body(s))
		}
	})
}

// What is accepted is done when its document is; one that fails is deleted later.
func TestAcceptedIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := home{}.opened(t, sim.Options{})
		synced := func(e provider.Event, r provider.Receipt, want bool, wantErr error) {
			t.Helper()
			if ok, err := p.Synced(t.Context(), e, r); ok != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v", e.Key, ok, err)
			}
		}
		send := func(e provider.Event) provider.Receipt {
			t.Helper()
			r, err := p.Sync(t.Context(), e)
			if err != nil || !r.Pending {
				t.Errorf("%+v, %v", r, err)
			}
			return r
		}
		good := turn("good", "one", "tea")
		r := send(good)
		synced(good, provider.Receipt{ID: "perhaps no document"}, false, provider.ErrUnknown)
		synced(good, r, false, nil)
		time.Sleep(2 * time.Minute)
		synced(good, r, true, nil)

		s.FailDocuments(2)
		bad, lost := turn("bad", "one", "plum"), provider.Event{Key: "lost", Kind: provider.Added, Fact: provider.Fact{Text: "fig"}}
		r, gone := send(bad), send(lost)
		synced(lost, gone, false, nil)
		time.Sleep(2 * time.Minute)
		synced(bad, r, false, provider.ErrFailed)
		time.Sleep(10 * time.Minute)
		synced(lost, gone, false, provider.ErrFailed)
		synced(bad, send(bad), false, nil)
		time.Sleep(2 * time.Minute)
		if got := s.Memories("hermes"); len(got) != 2 {
			t.Errorf("memories %+v", got)
		}
	})
}
