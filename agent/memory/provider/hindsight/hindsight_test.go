package hindsight_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/hindsight"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/hindsight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key  = "hs-key-of-the-test"
	bank = "/v1/default/banks/hermes"
)

// source returns a Source with a configuration file, unless that is "".
func source(t testing.TB, file string, env map[string]string) provider.Source {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		write(t, filepath.Join(home, "hindsight", "config.json"), file)
	}
	return provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: func(name string) string { return env[name] }}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// start returns a simulator and a provider of it.
func start(t testing.TB, o sim.Options, file string) (*sim.Server, provider.Provider) {
	t.Helper()
	o.Keys = []string{key}
	s := sim.New(o)
	t.Cleanup(s.Close)
	src := source(t, file, map[string]string{"HINDSIGHT_API_KEY": key, "HINDSIGHT_API_URL": s.URL + "/"})
	src.HTTP = s.Client()
	p, warnings, err := hindsight.Open(src)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %v, warnings %q", err, warnings)
	}
	t.Cleanup(func() { _ = p.Close() })
	return s, p
}

func sync(t *testing.T, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func synced(t *testing.T, p provider.Provider, e provider.Event, r provider.Receipt) bool {
	t.Helper()
	ok, err := p.Synced(t.Context(), e, r)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func texts(t *testing.T, p provider.Provider, s provider.Scope, query string) string {
	t.Helper()
	items, err := p.Recall(t.Context(), s, query)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range items {
		out = append(out, i.Text)
	}
	return strings.Join(out, "|")
}

// last returns the body of the last call of a path.
func last(t *testing.T, s *sim.Server, path string) string {
	t.Helper()
	body := ""
	for _, c := range s.Calls() {
		if c.Path == path && len(c.Body) > 0 {
			body = string(c.Body)
		}
	}
	return body
}

var (
	owner  = providertest.Owner("20261128_000000_abc")
	inputs = map[string]string{
		"hindsight_retain":  `{"content":"I prefer jasmine tea.","context":"user preference","tags":["tea"]}`,
		"hindsight_recall":  `{"query":"jasmine"}`,
		"hindsight_reflect": `{"query":"which tea is preferred"}`,
	}
)

func TestSuite(t *testing.T) {
	for name, test := range map[string]struct{ version, file string }{
		"newest":      {},
		"0.8.5":       {version: "0.8.5"},
		"0.4.9":       {version: "0.4.9"},
		"synchronous": {file: `{"retain_async":false}`},
		"reflect":     {file: `{"recall_prefetch_method":"reflect"}`},
	} {
		t.Run(name, func(t *testing.T) {
			health := provider.Health{Version: cmp.Or(test.version, "0.9.1")}
			providertest.Suite(t, providertest.Options{Settle: 15 * time.Second, Inputs: inputs, Health: health, New: func(t *testing.T) providertest.Target {
				s, p := start(t, sim.Options{Version: test.version}, test.file)
				return providertest.Target{Provider: p, Server: s.Server, Key: key, Count: func(text string) int {
					n := 0
					for _, d := range append(s.Documents("hermes"), s.Documents("hermes-"+providertest.Other("").Person)...) {
						n += strings.Count(d.Text, text)
					}
					return n
				}}
			}})
		})
	}
}

func FuzzAnswers(f *testing.F) {
	providertest.FuzzAnswers(f, func(t *testing.T, transport http.RoundTripper) provider.Provider {
		src := source(t, "", map[string]string{"HINDSIGHT_API_KEY": key})
		src.HTTP = &http.Client{Transport: transport}
		p, _, err := hindsight.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, inputs,
		`{"api_version":"0.9.1","operation_id":"x","status":"failed","text":"tea","results":[{"id":"1","text":"tea","mentioned_at":"2026"}],"items":[{"id":"one"}]}`,
		`{"version":"0.8","operation_ids":["x"],"status":"not_found"}`, `{"api_version":"a.b","status":7}`)
}

func TestTurnsAreAppendedToTheConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, sim.Options{}, `{"retain_tags":"a,b","retain_source":"hermes","retain_user_prefix":"Ann","observation_scopes":"per_tag"}`)
		first, second := providertest.Turn(1, owner, "I drink <green> tea."), providertest.Turn(2, owner, "And coffee.")
		r := sync(t, p, first)
		if !r.Pending || r.ID != first.Key || synced(t, p, first, r) {
			t.Errorf("receipt %+v", r)
		}
		sync(t, p, second)
		time.Sleep(3 * time.Second)
		if r := sync(t, p, first); r.Pending || !synced(t, p, first, r) || !synced(t, p, second, provider.Receipt{}) {
			t.Errorf("receipt of a repetition %+v", r)
		}
		documents := s.Documents("hermes")
		if len(documents) != 1 || documents[0].ID != owner.Session || strings.Count(documents[0].Text, "tea") != 1 || strings.Count(documents[0].Text, "coffee") != 1 {
			t.Fatalf("documents %+v", documents)
		}
		if got := strings.Join(documents[0].Tags, " "); got != "a b session:"+owner.Session {
			t.Errorf("tags %s", got)
		}
		if m := documents[0].Metadata; m["source"] != "hermes" || m["platform"] != "telegram" || m["message_count"] != "2" || m["user_id"] != owner.UserID || m["agent_identity"] != "default" {
			t.Errorf("metadata %v", m)
		}
		var turns [][]map[string]string
		line, _, _ := strings.Cut(documents[0].Text, "\n")
		if err := json.Unmarshal([]byte(line), &turns); err != nil || len(turns) != 1 || turns[0][0]["content"] != "Ann: I drink <green> tea." || turns[0][1]["content"] != "Assistant: Noted." || turns[0][0]["timestamp"] == "" {
			t.Errorf("content %s", line)
		}
		if body := last(t, s, bank+"/memories"); !strings.Contains(body, `"observation_scopes":"per_tag"`) {
			t.Errorf("retain %s", body)
		}
		if n := s.Count("GET", "/version"); n != 1 {
			t.Errorf("the version was asked for %d times", n)
		}
	})
}

func TestFailedOperationsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, sim.Options{}, "")
		s.FailOperations(1)
		e := providertest.Turn(1, owner, "I drink tea.")
		r := sync(t, p, e)
		time.Sleep(3 * time.Second)
		if _, err := p.Synced(t.Context(), e, r); !errors.Is(err, provider.ErrFailed) {
			t.Errorf("synced %v", err)
		}
		if r = sync(t, p, e); !r.Pending {
			t.Errorf("receipt %+v", r)
		}
		time.Sleep(3 * time.Second)
		if !synced(t, p, e, r) || len(s.Documents("hermes")) != 1 {
			t.Errorf("documents %+v", s.Documents("hermes"))
		}
	})
}

func TestForgetDeletesWhatIsOfTheConversation(t *testing.T) {
	for _, version := range []string{"", "0.8.5"} {
		synctest.Test(t, func(t *testing.T) {
			s, p := start(t, sim.Options{Version: version}, "")
			other := owner
			other.Session += "-2"
			for i := range 150 {
				sync(t, p, providertest.Turn(i, owner, "I drink tea."))
			}
			sync(t, p, providertest.Turn(200, other, "I drink tea."))
			time.Sleep(3 * time.Second)
			sync(t, p, provider.Event{Kind: provider.Forget, Scope: owner})
			if d := s.Documents("hermes"); len(d) != 1 || !strings.HasPrefix(d[0].ID, other.Session) {
				t.Errorf("%d documents are left: %+v", len(d), d[:min(len(d), 3)])
			}
			sync(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{}})
			if d := s.Documents("hermes"); len(d) != 0 {
				t.Errorf("left: %+v", d)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	s, p := start(t, sim.Options{}, `{"recall_types":"world"}`)
	e := providertest.Added(1, owner, "Likes green tea.")
	r := sync(t, p, e)
	if r.ID == "" || r.Pending || !synced(t, p, e, provider.Receipt{}) {
		t.Errorf("receipt %+v", r)
	}
	if d := s.Documents("hermes"); len(d) != 1 || d[0].Text != "Likes green tea." || d[0].Context != "profile of the user" {
		t.Errorf("documents %+v", d)
	}
	if got := texts(t, p, owner, "tea"); got != "Likes green tea." {
		t.Errorf("recalled %q", got)
	}
	e.Kind, e.Fact.Text, e.Fact.ID = provider.Removed, "", r.ID // the text may be unknown
	if synced(t, p, e, provider.Receipt{}) {
		t.Error("removed already")
	}
	sync(t, p, e)
	if !synced(t, p, e, provider.Receipt{}) || len(s.Documents("hermes")) != 0 {
		t.Errorf("documents %+v", s.Documents("hermes"))
	}
}

func TestFactsAreRemovedFromTheirBank(t *testing.T) {
	s, p := start(t, sim.Options{}, `{"bank_id_template":"hermes-{session}"}`)
	e := providertest.Added(1, providertest.Owner("one"), "Likes green tea.")
	e.Fact.ID = sync(t, p, e).ID
	e.Kind, e.Scope = provider.Removed, providertest.Owner("two")
	sync(t, p, e)
	if d := s.Documents("hermes-one"); len(d) != 0 {
		t.Errorf("documents %+v", d)
	}
}

func TestSettingsOfARecall(t *testing.T) {
	s, p := start(t, sim.Options{}, `{"recall_budget":"high","recall_max_tokens":"100","recall_max_input_chars":5,"recall_tags":["x"],"recall_tags_match":"all","recall_types":"world, experience","recall_max_results":1}`)
	for i := range 3 {
		sync(t, p, providertest.Added(i, owner, "Likes tea "+string(rune('a'+i))))
	}
	if got := texts(t, p, owner, "tea é and coffee"); strings.Count(got, "tea") != 1 {
		t.Errorf("recalled %q", got)
	}
	want := `{"budget":"high","max_tokens":100,"query":"tea é","tags":["x"],"tags_match":"all","types":["world","experience"]}`
	if body := last(t, s, bank+"/memories/recall"); body != want {
		t.Errorf("recall %s", body)
	}
	s, p = start(t, sim.Options{}, `{"recall_types":""}`)
	texts(t, p, owner, "tea")
	if body := last(t, s, bank+"/memories/recall"); body != `{"budget":"mid","max_tokens":4096,"query":"tea"}` {
		t.Errorf("recall %s", body)
	}
}

func TestTools(t *testing.T) {
	s, p := start(t, sim.Options{}, `{"recall_types":["world"],"retain_tags":["tea","x"]}`)
	call := func(tool, input string) string {
		t.Helper()
		out, err := p.Call(t.Context(), owner, tool, json.RawMessage(input))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, test := range [][3]string{
		{"hindsight_recall", inputs["hindsight_recall"], `{"result":"No relevant memories found."}`},
		{"hindsight_reflect", inputs["hindsight_reflect"], `{"result":"No relevant memories found."}`},
		{"hindsight_retain", inputs["hindsight_retain"], `{"result":"Memory stored successfully."}`},
		{"hindsight_retain", `{"content":"I prefer jasmine in spring."}`, `{"result":"Memory stored successfully."}`},
		{"hindsight_recall", inputs["hindsight_recall"], `{"result":"1. I prefer jasmine tea.\n2. I prefer jasmine in spring."}`},
		{"hindsight_reflect", `{"query":"spring"}`, `{"result":"I prefer jasmine in spring."}`},
		{"hindsight_retain", `{"content":""}`, `{"error":"Missing required parameter: content"}`},
		{"hindsight_list", `{}`, `{"error":"Unknown tool: hindsight_list"}`},
	} {
		if got := call(test[0], test[1]); got != test[2] {
			t.Errorf("%s %s: %s", test[0], test[1], got)
		}
	}
	if d := s.Documents("hermes"); strings.Join(d[0].Tags, " ") != "tea x" || d[0].Context != "user preference" {
		t.Errorf("document %+v", d[0])
	}
}

func TestChecksTheServer(t *testing.T) {
	s, p := start(t, sim.Options{}, "")
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 404, Path: "operations"})
	if _, err := p.Check(t.Context()); err != nil {
		t.Errorf("a bank that does not exist yet: %v", err)
	}
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 404, Times: 2})
	if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Garbage || !strings.Contains(err.Error(), "is not Hindsight's") {
		t.Errorf("another server: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	providertest.FuzzFile(f, func(t *testing.T, file string, transport http.RoundTripper) (provider.Provider, error) {
		src := source(t, file, map[string]string{"HINDSIGHT_API_KEY": key})
		src.HTTP = &http.Client{Transport: transport}
		p, _, err := hindsight.Open(src)
		return p, err
	}, inputs,
		`{"mode":"cloud","bank_id_template":"{user}-{x}","retain_tags":"a,b"}`, `{"mode":"local_external","api_url":"http://localhost:8888","timeout":-1}`, `{"mode":"local_embedded"}`,
		`{"banks":{"hermes":{"bankId":"b"}}}`)
}
