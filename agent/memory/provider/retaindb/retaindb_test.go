package retaindb_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/agent/memory/provider/retaindb"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/retaindb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "rdb_key_of_the_test"

// A home is what a provider is opened from.
type home struct {
	env  map[string]string
	soul string
	from provider.Source
}

func (h home) open(t *testing.T, s *sim.Server) (provider.Provider, []string, error) {
	t.Helper()
	if h.from.Open == nil {
		h.from.Open = files.Open
	}
	if h.from.Home == "" {
		h.from.Home = filepath.Join(t.TempDir(), ".hermes")
	}
	if err := os.MkdirAll(h.from.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	if h.soul != "" {
		if err := os.WriteFile(filepath.Join(h.from.Home, "SOUL.md"), []byte(h.soul), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"RETAINDB_API_KEY": key, "RETAINDB_BASE_URL": s.URL}
	maps.Copy(env, h.env)
	h.from.Getenv, h.from.HTTP, h.from.Secrets = func(name string) string { return env[name] }, s.Client(), new(secret.Masker)
	return retaindb.Open(h.from)
}

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

// last returns the last call of a server.
func last(s *sim.Server) memory.Call {
	calls := s.Calls()
	return calls[len(calls)-1]
}

func call(t *testing.T, p provider.Provider, s provider.Scope, tool, input string) string {
	t.Helper()
	out, err := p.Call(t.Context(), s, "retaindb_"+tool, json.RawMessage(input))
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return out
}

func sync(t *testing.T, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatalf("%s: %v", e.Kind, err)
	}
	return r
}

func fact(key, text string) provider.Event {
	return provider.Event{Key: key, Kind: provider.Added, Scope: provider.Scope{Session: "s"}, Fact: provider.Fact{Target: "user", Text: text}}
}

var files = fstest.MapFS{"notes.txt": {Data: []byte("tea")}}

var inputs = map[string]string{
	"retaindb_profile":     `{}`,
	"retaindb_search":      `{"query":"tea"}`,
	"retaindb_context":     `{"query":"tea"}`,
	"retaindb_remember":    `{"content":"I prefer tea."}`,
	"retaindb_forget":      `{"memory_id":"1"}`,
	"retaindb_upload_file": `{"local_path":"notes.txt","ingest":true}`,
	"retaindb_list_files":  `{}`,
	"retaindb_read_file":   `{"file_id":"1"}`,
	"retaindb_ingest_file": `{"file_id":"1"}`,
	"retaindb_delete_file": `{"file_id":"1"}`,
}

func TestSuite(t *testing.T) {
	for name, own := range map[string]bool{"hosted": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			providertest.Suite(t, providertest.Options{
				Settle: 3 * time.Second,
				Inputs: inputs,
				ByID:   map[string]string{"retaindb_forget": `{"memory_id":"ID"}`},
				New: func(t *testing.T) providertest.Target {
					s := sim.New(sim.Options{Keys: []string{key}, Own: own})
					t.Cleanup(s.Close)
					p, _, err := home{}.open(t, s)
					if err != nil {
						t.Fatal(err)
					}
					return providertest.Target{Provider: p, Server: s.Server, Key: key, Count: func(text string) (n int) {
						for _, m := range s.Memories("default", "8439114563") {
							n += strings.Count(m.Content, text)
						}
						return n
					}}
				},
			})
		})
	}
}

func FuzzAnswers(f *testing.F) {
	open := func(t *testing.T, c http.RoundTripper) provider.Provider {
		env := map[string]string{"RETAINDB_API_KEY": key}
		p, _, err := retaindb.Open(provider.Source{Secrets: new(secret.Masker), Open: files.Open, Home: t.TempDir(), Getenv: func(name string) string { return env[name] }, HTTP: &http.Client{Transport: c}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	providertest.FuzzAnswers(f, open, inputs,
		`{"success":true,"memory_id":"m","memory":{"id":"m","content":"c"}}`,
		`{"memories":[{"id":"1","content":"a"},{"id":"pending:1:0","content":"b","pending":true}],"count":2}`,
		`{"results":[{"id":"1","content":"a","score":0.5},{"memory":{"id":"2","content":"I prefer papaya over melon."}}],"context":"a"}`,
		`{"persona":"p","persistent_instructions":["i"],"working_style":"w","memory_count":1,"answer":"a"}`,
		`{"file":{"id":"f","name":"a.txt","mime_type":"text/plain"}}`, `{"success":false}`,
	)
}

func TestProjectsAndUsers(t *testing.T) {
	for _, test := range []struct {
		h             home
		scope         provider.Scope
		project, user string
	}{
		{home{}, provider.Scope{}, "default", "default"},
		{home{}, provider.Scope{UserID: "8439114563"}, "default", "8439114563"},
		{home{}, provider.Scope{UserID: "8439114563", Person: "ann"}, "default-ann-49915e0d", "ann"},
		{home{from: provider.Source{Profile: "work"}}, provider.Scope{}, "hermes-work", "default"},
		{home{from: provider.Source{Section: json.RawMessage(`{"project":" mine "}`)}}, provider.Scope{}, "mine", "default"},
		{home{env: map[string]string{"RETAINDB_PROJECT": "env"}, from: provider.Source{Section: json.RawMessage(`{"project":"mine"}`)}}, provider.Scope{}, "env", "default"},
	} {
		p, s := test.h.opened(t, sim.Options{Keys: []string{key}})
		test.scope.Session = "s"
		if _, err := p.Recall(t.Context(), test.scope, " tea "); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"project":%q,"user_id":%q,"session_id":"s","query":"tea","include_memories":true,"max_tokens":1200}`, test.project, test.user)
		if c := last(s); string(c.Body) != want || c.Header.Get("X-Sdk-Runtime") != "hermes-plugin" {
			t.Errorf("asked %s, want %s", c.Body, want)
		}
	}
	h := home{from: provider.Source{Home: filepath.Join(t.TempDir(), "agent")}}
	p, s := h.opened(t, sim.Options{})
	if _, err := p.Check(t.Context()); err != nil || last(s).Query.Get("project") != "hermes-agent" {
		t.Errorf("%v, %v", last(s).Query, err)
	}
	if _, err := p.Recall(t.Context(), provider.Scope{}, strings.Repeat("é", 10_000)); err != nil || strings.Count(string(last(s).Body), "é") != 2_000 {
		t.Errorf("%d bytes asked, %v", len(last(s).Body), err)
	}
}

func TestWhatIsConfigured(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{key}})
	t.Cleanup(s.Close)
	h := home{env: map[string]string{"RETAINDB_BASE_URL": "", "RETAINDB_API_KEY": " Bearer " + key}, from: provider.Source{Section: json.RawMessage(`{"base_url":"` + s.URL + `//","colour":1}`)}}
	h.env["RETAINDB_API_KEY"] = "Bearer " + key
	p, warnings, err := h.open(t, s)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `"colour"`) || p.About().Place != s.URL {
		t.Fatalf("%q, %v", warnings, err)
	}
	if _, err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for want, h := range map[string]home{
		"RETAINDB_API_KEY is missing": {env: map[string]string{"RETAINDB_API_KEY": ""}},
		"is not a JSON object":        {from: provider.Source{Section: json.RawMessage(`7`)}},
		"is not an http or https URL": {env: map[string]string{"RETAINDB_BASE_URL": "localhost:3000"}},
	} {
		if _, _, err := h.open(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFactsAndTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := home{soul: "You are kind."}.opened(t, sim.Options{Keys: []string{key}})
		r := sync(t, p, fact("k", "I prefer green tea"))
		if again := sync(t, p, fact("k", "I prefer green tea")); r.ID == "" || again != r || len(s.Memories("default", "default")) != 1 {
			t.Errorf("%+v, then %+v", r, again)
		}
		if m := s.Memories("default", "default")[0]; m.Type != "preference" || m.Session != "" {
			t.Errorf("%+v", m)
		}
		at := time.Date(2026, 11, 28, 1, 2, 3, 0, time.FixedZone("", 3600))
		turn := provider.Event{Key: "t", Kind: provider.Turn, At: at, Scope: provider.Scope{Session: "s"}, Messages: []provider.Message{{Role: "user", Text: "My dog is called Rex."}, {Role: "assistant", Text: "Noted.", At: at}}}
		s.Inject(memory.Fault{Kind: memory.Refuse, Path: "/seed"})
		for range 3 {
			sync(t, p, turn)
		}
		if n := s.Count("POST", "/v1/memory/agent/hermes/seed"); n != 1 || strings.Count(string(last(s).Body), "2026-11-28T00:02:03.000Z") != 2 {
			t.Errorf("%d seeds, %s", n, last(s).Body)
		}
		text, err := p.Standing(t.Context(), turn.Scope)
		if err != nil || !strings.HasPrefix(text, "[RetainDB Profile]\n- I prefer green tea\n- My dog") || !strings.HasSuffix(text, "\n\n[RetainDB Agent Self-Model]\nPersona: You are kind.") {
			t.Errorf("%q, %v", text, err)
		}
		forget := provider.Event{Key: "f", Kind: provider.Forget, Scope: turn.Scope}
		sync(t, p, forget)
		if m := s.Memories("default", "default"); len(m) != 1 || m[0].ID != r.ID {
			t.Errorf("%+v", m)
		}
		removed := fact("r", "I prefer green tea")
		removed.Kind = provider.Removed
		sync(t, p, removed) // by its text
		sync(t, p, fact("l", "I prefer black tea"))
		forget.Scope.Session = ""
		if n := len(s.Memories("default", "default")); n != 1 {
			t.Errorf("%d memories", n)
		}
		sync(t, p, forget)
		if n := len(s.Memories("default", "default")); n != 0 {
			t.Errorf("%d memories", n)
		}
	})
}

func TestOthersAreNotToldOfTheOwner(t *testing.T) {
	p, s := home{soul: "You are kind."}.opened(t, sim.Options{Own: true})
	ann := provider.Scope{Person: "ann", Session: "a"}
	for _, scope := range []provider.Scope{{Session: "o"}, ann} {
		sync(t, p, provider.Event{Key: "t", Kind: provider.Turn, Scope: scope, Messages: []provider.Message{{Role: "user", Text: "What should you know? I like tea, says " + scope.Session}}})
	}
	text, err := p.Standing(t.Context(), ann)
	if err != nil || !strings.Contains(text, "says a\n\n[RetainDB User Synthesis]\nWhat should") || strings.Contains(text, "says o") || strings.Contains(text, "kind") {
		t.Errorf("%q, %v", text, err)
	}
	id := s.Memories("default", "default")[0].ID
	if out := call(t, p, ann, "forget", `{"memory_id":"`+id+`"}`); !strings.Contains(out, "error") || len(s.Memories("default", "default")) != 1 {
		t.Errorf("%s", out)
	}
	own := s.Memories("default-ann-49915e0d", "ann")[0].ID
	if out := call(t, p, ann, "forget", `{"memory_id":"`+own+`"}`); !strings.Contains(out, `"success":true`) || len(s.Memories("default-ann-49915e0d", "ann")) != 0 {
		t.Errorf("%s", out)
	}
	sync(t, p, provider.Event{Key: "t2", Kind: provider.Turn, Scope: provider.Scope{UserID: "7", Session: "p"}, Messages: []provider.Message{{Role: "user", Text: "I like milk."}}})
	other := s.Memories("default", "7")[0].ID // of another owner, in the same project
	if out := call(t, p, provider.Scope{Session: "o"}, "forget", `{"memory_id":"`+other+`"}`); !strings.Contains(out, "lists no such memory") || len(s.Memories("default", "7")) != 1 {
		t.Errorf("%s", out)
	}
	before := len(s.Calls())
	for _, tool := range p.About().Tools {
		if tool.Owners {
			if out, err := p.Call(t.Context(), ann, tool.Name, json.RawMessage(inputs[tool.Name])); err != nil || !strings.Contains(out, "only owners") {
				t.Errorf("%s: %s, %v", tool.Name, out, err)
			}
		}
	}
	if n := len(s.Calls()) - before; n != 0 {
		t.Errorf("%d calls", n)
	}
}

func TestTools(t *testing.T) {
	p, s := home{}.opened(t, sim.Options{})
	owner := provider.Scope{Session: "s"}
	out := call(t, p, owner, "remember", `{"content":" I like tea ","memory_type":"goal","importance":"0.9"}`)
	if m := s.Memories("default", "default"); len(m) != 1 || m[0].Type != "goal" || m[0].Importance != 0.9 || m[0].Content != "I like tea" || !strings.Contains(out, m[0].ID) {
		t.Errorf("%s, %+v", out, m)
	}
	call(t, p, owner, "remember", `{"content":"I like cats"}`)
	if out = call(t, p, owner, "profile", `{}`); !strings.Contains(out, `"count":2`) {
		t.Errorf("%s", out)
	}
	if out = call(t, p, owner, "search", `{"query":"tea","top_k":99}`); !strings.Contains(out, `"similarity":1`) || !strings.Contains(string(last(s).Body), `"top_k":20,"include_pending":true`) {
		t.Errorf("%s after %s", out, last(s).Body)
	}
	if out = call(t, p, owner, "context", `{"query":"tea"}`); !strings.Contains(out, `"context":"[RetainDB Context]\nProfile:\n- I like tea\n- I like cats\nRelevant memories:\n- None","raw":{`) {
		t.Errorf("%s", out)
	}
	id := s.Memories("default", "default")[0].ID
	if out = call(t, p, owner, "forget", `{"memory_id":"`+id+`"}`); !strings.Contains(out, `"memory_id":"`+id+`"`) {
		t.Errorf("%s", out)
	}
	for tool, want := range map[string]string{"search": "query is required", "remember": "content is required", "x": "unknown tool", "upload_file": "local_path is required"} {
		if out = call(t, p, owner, tool, `{}`); !strings.Contains(out, want) {
			t.Errorf("%s: %s", tool, out)
		}
	}
}

func TestFiles(t *testing.T) {
	workspace := os.DirFS(t.TempDir())
	dir := fmt.Sprint(workspace)
	for name, text := range map[string]string{"notes.txt": "tea " + strings.Repeat("é", 32_000), "a.bin": "\x00", "large.txt": strings.Repeat("x", 32<<20+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := home{from: provider.Source{Open: func(path string) (fs.File, error) { return workspace.Open(path) }}}
	p, s := h.opened(t, sim.Options{})
	var owner provider.Scope
	upload := func(input string) (id string, out string) {
		t.Helper()
		out = call(t, p, owner, "upload_file", input)
		var v struct{ File struct{ ID string } }
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Error(err)
		}
		return v.File.ID, out
	}
	id, out := upload(`{"local_path":"notes.txt","scope":"user","remote_path":"/docs/notes.txt","ingest":true}`)
	if id == "" || !strings.Contains(out, `"ingest":{`) || !strings.Contains(out, `"scope":"USER"`) || len(s.Memories("", "default")) != 1 {
		t.Errorf("%s", out)
	}
	binary, out := upload(`{"local_path":"a.bin"}`)
	if !strings.Contains(out, `"path":"/a.bin"`) || !strings.Contains(out, `"scope":"PROJECT"`) {
		t.Errorf("%s", out)
	}
	for input, want := range map[string]string{`{"local_path":"large.txt"}`: "larger than 32 MiB", `{"local_path":"../x"}`: "invalid argument", `{"local_path":"none"}`: "no such file"} {
		if _, out := upload(input); !strings.Contains(out, want) {
			t.Errorf("%s: %s", input, out)
		}
	}
	if out = call(t, p, owner, "list_files", `{"prefix":"/docs/","limit":5}`); !strings.Contains(out, id) || strings.Contains(out, binary) {
		t.Errorf("%s", out)
	}
	if out = call(t, p, owner, "read_file", `{"file_id":"`+id+`"}`); !strings.Contains(out, `"content":"tea é`) || !strings.Contains(out, `"truncated":true`) || len([]rune(out)) > 32_200 {
		t.Errorf("%.100s", out)
	}
	if out = call(t, p, owner, "read_file", `{"file_id":"`+binary+`"}`); !strings.Contains(out, `"content":null`) || !strings.Contains(out, "retaindb_ingest_file") {
		t.Errorf("%s", out)
	}
	if out = call(t, p, owner, "ingest_file", `{"file_id":"`+binary+`"}`); !strings.Contains(out, `"success":true`) {
		t.Errorf("%s", out)
	}
	if out = call(t, p, owner, "delete_file", `{"file_id":"`+binary+`"}`); !strings.Contains(out, `"success":true`) {
		t.Errorf("%s", out)
	}
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: http.StatusTemporaryRedirect, Path: "/content"})
	if out = call(t, p, owner, "read_file", `{"file_id":"`+id+`"}`); !strings.Contains(out, "another server") {
		t.Errorf("%s", out)
	}
	if n := len(p.About().Tools); n != 10 {
		t.Errorf("%d tools", n)
	}
}
