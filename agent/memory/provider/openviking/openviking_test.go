package openviking_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/openviking"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/openviking"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "key-of-a-test-0123"

// environment returns a Getenv of NAME=value entries.
func environment(entries ...string) func(string) string {
	return func(name string) string {
		for _, e := range entries {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func open(t *testing.T, source provider.Source) provider.Provider {
	t.Helper()
	p, warnings, err := openviking.Open(source)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %v, %q", err, warnings)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// newTarget returns a simulator and a provider that uses it.
func newTarget(t *testing.T, o sim.Options, env ...string) (*sim.Server, provider.Provider) {
	t.Helper()
	s := sim.New(o)
	t.Cleanup(s.Close)
	env = append(env, "OPENVIKING_URL="+s.URL)
	if len(o.Keys) > 0 {
		env = append(env, "OPENVIKING_API_KEY="+o.Keys[0])
	}
	return s, open(t, provider.Source{Secrets: new(secret.Masker), Getenv: environment(env...), HTTP: s.Client(), Open: fstest.MapFS{}.Open})
}

var (
	owner = provider.Scope{Session: "one", Key: "agent-main-telegram-dm-1", Platform: "telegram", Chat: "1"}
	anna  = provider.Scope{Person: "anna", Session: "two", Key: "agent-main-telegram-dm-2", Platform: "telegram", Chat: "2"}
)

func turn(s provider.Scope, text string) provider.Event {
	now := time.Now()
	return provider.Event{Key: "k", Kind: provider.Turn, Scope: s, At: now, Messages: []provider.Message{{Role: "user", Text: text, At: now}, {Role: "assistant", Text: "Noted.", At: now}}}
}

func sync(t *testing.T, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatalf("sync of %s: %v", e.Kind, err)
	}
	return r
}

func recall(t *testing.T, p provider.Provider, s provider.Scope, query string) []string {
	t.Helper()
	items, err := p.Recall(t.Context(), s, query)
	if err != nil {
		t.Fatalf("recall: %v", err)
	}
	var texts []string
	for _, i := range items {
		texts = append(texts, i.Text)
	}
	return texts
}

func call(t *testing.T, p provider.Provider, s provider.Scope, tool, input string) string {
	t.Helper()
	out, err := p.Call(t.Context(), s, tool, json.RawMessage(input))
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, input, err)
	}
	return out
}

// A linked file of an upstream home, and which value of a setting wins.
func TestConfiguration(t *testing.T) {
	home := t.TempDir()
	linked := filepath.Join(home, ".openviking", "ovcli.conf.work")
	if err := os.MkdirAll(filepath.Dir(linked), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(linked, []byte(`{"url":"http://linked:1933/","root_api_key":"root-key-0123","account":"acme","user":"otto","actor_peer_id":"bot","timeout":30,"colour":"red"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const section = `{"use_ovcli_config":true,"ovcli_config_path":"~/.openviking/ovcli.conf.work"}`
	for _, test := range []struct {
		name, section string
		env           []string
		place         string
		header        map[string]string
		warnings      int
	}{
		{name: "defaults", place: "http://127.0.0.1:1933", header: map[string]string{"X-OpenViking-Account": "default", "X-OpenViking-User": "default", "X-OpenViking-Actor-Peer": "hermes", "X-API-Key": ""}},
		{name: "old names", env: []string{"OPENVIKING_ENDPOINT=http://old:1", "OPENVIKING_AGENT=old"}, place: "http://old:1", header: map[string]string{"X-OpenViking-Actor-Peer": "old"}},
		{name: "new names win", env: []string{"OPENVIKING_ENDPOINT=http://old:1", "OPENVIKING_URL=https://new/openviking"}, place: "https://new/openviking"},
		{name: "linked", section: section, place: "http://linked:1933/", warnings: 1, header: map[string]string{"X-API-Key": "root-key-0123", "Authorization": "Bearer root-key-0123", "X-OpenViking-Actor-Peer": "bot", "X-OpenViking-User": ""}},
		{name: "the environment wins", section: section, env: []string{"OPENVIKING_API_KEY=" + key, "OPENVIKING_URL=http://env:2"}, place: "http://env:2", warnings: 1, header: map[string]string{"X-API-Key": key, "X-OpenViking-Actor-Peer": "bot"}},
		{name: "the default file", section: `{"use_ovcli_config":true}`, env: []string{"OPENVIKING_CLI_CONFIG_FILE=" + linked}, place: "http://linked:1933/", warnings: 1},
		{name: "not linked", section: `{"use_ovcli_config":false,"limit":3}`, env: []string{"OPENVIKING_CLI_CONFIG_FILE=" + linked}, place: "http://127.0.0.1:1933", warnings: 1},
		{name: "recall", env: []string{"OPENVIKING_RECALL_LIMIT=0", "OPENVIKING_RECALL_SCORE_THRESHOLD=NaN", "OPENVIKING_RECALL_FULL_READ_LIMIT=5"}, place: "http://127.0.0.1:1933", warnings: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen http.Header
			transport := roundTripper(func(r *http.Request) (*http.Response, error) { seen = r.Header; return nil, errors.New("down") })
			p, warnings, err := openviking.Open(provider.Source{Secrets: new(secret.Masker), Getenv: environment(append(test.env, "HOME="+home)...), Section: json.RawMessage(test.section), HTTP: &http.Client{Transport: transport}})
			if err != nil || len(warnings) != test.warnings || p.About().Place != test.place {
				t.Fatalf("%v, warnings %q, place %v", err, warnings, p.About().Place)
			}
			_, _ = p.Check(t.Context()) // fails
			for name, want := range test.header {
				if got := seen.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
	for _, bad := range []string{`{"use_ovcli_config":true,"ovcli_config_path":"` + t.TempDir() + `"}`, `{"use_ovcli_config":true,"ovcli_config_path":"/missing/ovcli.conf"}`, `[]`} {
		if _, _, err := openviking.Open(provider.Source{Secrets: new(secret.Masker), Getenv: environment(), Section: json.RawMessage(bad)}); err == nil || !strings.Contains(err.Error(), "memory.openviking") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, _, err := openviking.Open(provider.Source{Secrets: new(secret.Masker), Getenv: environment("OPENVIKING_URL=127.0.0.1:1933")}); err == nil {
		t.Error("a URL without scheme is accepted")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// A server that wants account and user in spite of the key is asked again with them, and
// from then on at once.
func TestTrustedMode(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{key}})
	t.Cleanup(s.Close)
	calls := 0
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		calls++
		if r.Header.Get("X-OpenViking-User") == "" {
			return answer(400, `{"status":"error","error":{"code":"INVALID_ARGUMENT","message":"Trusted mode requests must include X-OpenViking-Account/User"}}`), nil
		}
		return s.Client().Transport.RoundTrip(r)
	})
	p := open(t, provider.Source{Secrets: new(secret.Masker), Getenv: environment("OPENVIKING_URL="+s.URL, "OPENVIKING_API_KEY="+key, "OPENVIKING_USER=otto"), HTTP: &http.Client{Transport: transport}})
	sync(t, p, turn(owner, "I like tea."))
	sync(t, p, turn(owner, "I like plums."))
	if n := s.Total("default", "otto", "one"); n != 4 || calls != 3 {
		t.Errorf("%d messages, %d calls", n, calls)
	}
}

// With a key that belongs to one user, others have no memory: theirs would be that of the
// owner.
func TestPeopleAreToldApart(t *testing.T) {
	for name, test := range map[string]struct {
		o   sim.Options
		env string
	}{
		"the key of a user": {o: sim.Options{Keys: []string{key}, UserKeys: true}},
		"the owner's name":  {env: "OPENVIKING_USER=anna"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newTarget(t, test.o, test.env)
			sync(t, p, turn(owner, "I like tea."))
			for what, err := range map[string]error{
				"sync":   second(p.Sync(t.Context(), turn(anna, "I like plums."))),
				"synced": second(p.Synced(t.Context(), turn(anna, "I like plums."), provider.Receipt{})),
				"recall": second(p.Recall(t.Context(), anna, "tea")),
				"forget": second(p.Sync(t.Context(), provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "anna"}})),
			} {
				if provider.ClassOf(err) != provider.Refused {
					t.Errorf("%s: %v", what, err)
				}
			}
			if got := call(t, p, anna, "viking_search", `{"query":"tea"}`); !strings.Contains(got, "does not tell people apart") {
				t.Errorf("tool: %s", got)
			}
			if n := s.Count("POST", "messages/batch"); n > 1 {
				t.Errorf("%d turns were stored", n)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A root key shows everybody's data, so others see only what is theirs.
func TestOthersSeeOnlyTheirOwn(t *testing.T) {
	_, p := newTarget(t, sim.Options{Keys: []string{key}})
	for _, uri := range []string{"viking://user/default/memories/x.md", "viking://resources/plan.md", "viking://user/../default/memories/x.md", "viking://user/anna/../default/x.md", "viking://user/%64efault/x.md", "viking://agent/x", "viking://user", "http://x", "/etc/passwd"} {
		for _, tool := range []string{
			`viking_read {"uri":"` + uri + `"}`, `viking_read {"uris":["viking://user/anna/x.md","` + uri + `"]}`, `viking_browse {"action":"list","path":"` + uri + `"}`,
			`viking_search {"query":"x","scope":"` + uri + `"}`, `viking_forget {"uri":"` + uri + `"}`,
		} {
			name, input, _ := strings.Cut(tool, " ")
			if got := call(t, p, anna, name, input); !strings.Contains(got, "may be used here") {
				t.Errorf("%s: %s", tool, got)
			}
		}
	}
	stored := call(t, p, anna, "viking_remember", `{"content":"Anna likes plums."}`)
	if got := call(t, p, anna, "viking_search", `{"query":"plums"}`); !strings.Contains(got, "Anna likes plums.") {
		t.Errorf("%s stored, %s found", stored, got)
	}
	if got := call(t, p, owner, "viking_search", `{"query":"plums"}`); !strings.Contains(got, `"total":0`) {
		t.Errorf("the owner finds %s", got)
	}
}

// found is an answer of the search calls.
const found = `{"status":"ok","result":{"memories":[
	{"context_type":"memory","uri":"viking://user/d/memories/low.md","level":2,"score":0.1,"category":"preferences","abstract":"tea jasmine"},
	{"context_type":"memory","uri":"viking://user/d/memories/dir","level":1,"score":0.5,"category":"preferences","abstract":"a directory"},
	{"context_type":"memory","uri":"viking://user/d/memories/a.md","level":2,"score":0.45,"category":"preferences","abstract":"jasmine tea"},
	{"context_type":"memory","uri":"viking://user/d/memories/a.md","level":2,"score":0.45,"category":"preferences","abstract":"jasmine tea"},
	{"context_type":"memory","uri":"viking://user/d/memories/b.md","level":2,"score":0.4,"category":"preferences","abstract":"jasmine tea"},
	{"context_type":"memory","uri":"viking://user/d/memories/events/e1.md","level":2,"score":0.3,"category":"events","abstract":"a visit"},
	{"context_type":"memory","uri":"viking://user/d/memories/events/e2.md","level":2,"score":0.3,"category":"events","abstract":"a visit"},
	{"context_type":"memory","uri":"viking://user/d/memories/c.md","level":2,"score":0.2,"category":"preferences","abstract":"` + long + `"}],
	"resources":[{"context_type":"resource","uri":"viking://resources/r.md","level":2,"score":0.9,"abstract":"a resource"}],"skills":[],"total":9}}`

const long = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

// The order is that of upstream: files and words of the query count more than the score.
func TestRanking(t *testing.T) {
	for name, test := range map[string]struct {
		env, want []string
		reads     int
		types     string
	}{
		"default":   {want: []string{"whole file", "a directory", "whole file", "a visit", long}, reads: 2, types: `"memory"`},
		"abstracts": {env: []string{"OPENVIKING_RECALL_PREFER_ABSTRACT=true", "OPENVIKING_RECALL_LIMIT=2", "OPENVIKING_RECALL_SCORE_THRESHOLD=0.4"}, want: []string{"jasmine tea", "a directory"}, types: `"memory"`},
		"resources": {env: []string{"OPENVIKING_RECALL_RESOURCES=1", "OPENVIKING_RECALL_FULL_READ_LIMIT=0", "OPENVIKING_RECALL_MAX_INJECTED_CHARS=100"}, want: []string{"a resource", "jasmine tea", "a directory", "a visit", "a visit"}, types: `["memory","resource"]`},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet {
					reads++
					return answer(200, `{"status":"ok","result":"whole file\n"}`), nil
				}
				body, err := io.ReadAll(r.Body)
				if !bytes.Contains(body, []byte(`"context_type":`+test.types)) || !bytes.Contains(body, []byte(`"session_id":"one"`)) {
					t.Errorf("body %s, %v", body, err)
				}
				return answer(200, found), nil
			})
			p := open(t, provider.Source{Secrets: new(secret.Masker), Getenv: environment(test.env...), HTTP: &http.Client{Transport: transport}})
			if got := recall(t, p, owner, "Which jasmine tea?"); !slices.Equal(got, test.want) || reads != test.reads {
				t.Errorf("%d reads, %q", reads, got)
			}
		})
	}
}

// The plain search answers if the other does not, within the time of the whole.
func TestRecallWithoutPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newTarget(t, sim.Options{Keys: []string{key}})
		sync(t, p, provider.Event{Kind: provider.Added, Scope: owner, Fact: provider.Fact{Target: "user", Text: "I like tea."}})
		s.Inject(memory.Fault{Path: "search/search", Delay: time.Minute, Times: -1})
		start := time.Now()
		if got := recall(t, p, owner, "tea"); len(got) != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("%q after %v", got, time.Since(start))
		}
		s.Inject(memory.Fault{Path: "search/find", Delay: time.Minute, Times: -1})
		start = time.Now()
		if _, err := p.Recall(t.Context(), owner, "tea"); provider.ClassOf(err) != provider.Down || time.Since(start) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A failed extraction is noticed; the next commit is refused, so that it is set aside.
func TestFailedArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newTarget(t, sim.Options{})
		end := provider.Event{Kind: provider.End, Scope: owner}
		if r := sync(t, p, end); r != (provider.Receipt{}) {
			t.Errorf("commit of a session that does not exist: %+v", r)
		}
		s.FailExtractions(1)
		sync(t, p, turn(owner, "I like tea."))
		r := sync(t, p, end)
		if ok, err := p.Synced(t.Context(), end, r); ok || err != nil || !r.Pending {
			t.Errorf("before the extraction: %v, %v, %+v", ok, err, r)
		}
		time.Sleep(time.Minute)
		if ok, err := p.Synced(t.Context(), end, r); ok || !errors.Is(err, provider.ErrFailed) {
			t.Errorf("after it: %v, %v", ok, err)
		}
		sync(t, p, turn(owner, "I like plums."))
		if _, err := p.Sync(t.Context(), end); provider.ClassOf(err) != provider.Refused {
			t.Errorf("next commit: %v", err)
		}
	})
}

// Commits whose answers are lost, and turns after a commit.
func TestSyncedOfCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newTarget(t, sim.Options{})
		checkpoint := provider.Event{Kind: provider.Checkpoint, Scope: owner}
		synced := func(e provider.Event, r provider.Receipt) (bool, error) {
			t.Helper()
			return p.Synced(t.Context(), e, r)
		}
		first := turn(owner, "I like tea.")
		sync(t, p, first)
		if ok, err := synced(checkpoint, provider.Receipt{}); ok || err != nil {
			t.Errorf("before the commit: %v, %v", ok, err)
		}
		time.Sleep(time.Minute)
		s.Inject(memory.Fault{Kind: memory.CutAfter, Path: "/commit"})
		if _, err := p.Sync(t.Context(), checkpoint); provider.ClassOf(err) != provider.Down {
			t.Errorf("lost answer: %v", err)
		}
		if ok, err := synced(checkpoint, provider.Receipt{}); !ok || err != nil {
			t.Errorf("after the commit: %v, %v", ok, err)
		}
		if ok, err := synced(first, provider.Receipt{}); ok || !errors.Is(err, provider.ErrUnknown) {
			t.Errorf("an archived turn: %v, %v", ok, err)
		}
		time.Sleep(time.Minute)
		later := turn(owner, "I like plums.")
		if ok, err := synced(later, provider.Receipt{}); ok || err != nil {
			t.Errorf("a turn after the commit: %v, %v", ok, err)
		}
		sync(t, p, later)
		if ok, err := synced(later, provider.Receipt{}); !ok || err != nil {
			t.Errorf("a turn after the commit, stored: %v, %v", ok, err)
		}
		r := sync(t, p, checkpoint)
		time.Sleep(time.Minute)
		if ok, err := synced(checkpoint, r); !ok || err != nil {
			t.Errorf("a completed commit: %v, %v", ok, err)
		}
		if _, err := synced(checkpoint, provider.Receipt{ID: "forgotten"}); !errors.Is(err, provider.ErrUnknown) {
			t.Errorf("an unknown task: %v", err)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newTarget(t, sim.Options{})
		fact := provider.Event{Kind: provider.Added, Scope: anna, Fact: provider.Fact{Target: "user", Text: "I like tea."}}
		sync(t, p, fact)
		sync(t, p, fact)
		if got := s.Files("default", "anna"); len(got) != 1 || !strings.HasPrefix(got[0].URI, "viking://user/peers/hermes/memories/preferences/mem_") {
			t.Errorf("files %+v", got)
		}
		sync(t, p, turn(anna, "I like plums."))
		sync(t, p, provider.Event{Kind: provider.Forget, Scope: anna})
		if ok, err := p.Synced(t.Context(), provider.Event{Kind: provider.Forget, Scope: anna}, provider.Receipt{}); !ok || err != nil {
			t.Errorf("session forgotten: %v, %v", ok, err)
		}
		sync(t, p, turn(anna, "I like figs."))
		sync(t, p, provider.Event{Kind: provider.End, Scope: anna})
		time.Sleep(time.Minute)
		sync(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "anna"}})
		if got := s.Files("default", "anna"); len(got) != 0 {
			t.Errorf("files %+v", got)
		}
	})
}

// A turn with calls of tools has them as parts before the answer.
func TestToolUses(t *testing.T) {
	s, p := newTarget(t, sim.Options{})
	e := turn(owner, "What is in the file?")
	e.Tools = []provider.ToolUse{
		{ID: "c1", Name: "read_file", Input: `{"path":"x"}`, Output: "tea"}, {ID: "c2", Name: "terminal", Input: `{"command":"cut…`, Output: "refused", Failed: true},
	}
	sync(t, p, e)
	calls := s.Calls()
	for _, want := range []string{
		`"parts":[{"type":"tool","tool_id":"c1","tool_name":"read_file","tool_input":{"path":"x"},"tool_output":"tea","tool_status":"completed"}`,
		`{"type":"tool","tool_id":"c2","tool_name":"terminal","tool_input":{"input":"{\"command\":\"cut…"},"tool_output":"refused","tool_status":"error"},{"type":"text","text":`,
	} {
		if body := string(calls[len(calls)-1].Body); !strings.Contains(body, want) {
			t.Errorf("%s\nhas not %s", body, want)
		}
	}
	if ok, err := p.Synced(t.Context(), e, provider.Receipt{}); !ok || err != nil {
		t.Errorf("synced: %v, %v", ok, err)
	}
}

// Files of this machine are sent if the daemon opens them, and only for an owner.
func TestUpload(t *testing.T) {
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	files := fstest.MapFS{"plan.md": {Data: []byte("The plan.")}, "dir/x": {}, "large": {Data: make([]byte, 20<<20+1)}}
	p := open(t, provider.Source{Secrets: new(secret.Masker), Getenv: environment("OPENVIKING_URL=" + s.URL), HTTP: s.Client(), Open: files.Open})
	for input, want := range map[string]string{
		`{"url":"plan.md"}`:                          `"root_uri":"viking://resources/plan.md"`,
		`{"url":"file://plan.md","to":"viking://a"}`: `"root_uri":"viking://a"`,
		`{"url":"other.md"}`:                         "cannot be sent",
		`{"url":"dir"}`:                              "cannot be read",
		`{"url":"large"}`:                            "larger than 20 MiB",
	} {
		if got := call(t, p, owner, "viking_add_resource", input); !strings.Contains(got, want) {
			t.Errorf("%s: %s", input, got)
		}
	}
	if got := s.Files("default", "default"); len(got) != 2 || got[0].Content != "The plan." || got[1].Content != "The plan." {
		t.Errorf("files %+v", got)
	}
	if got := call(t, p, anna, "viking_add_resource", `{"url":"plan.md"}`); !strings.Contains(got, "only owners") {
		t.Errorf("others: %s", got)
	}
}

func TestTools(t *testing.T) {
	s, p := newTarget(t, sim.Options{Keys: []string{key}})
	var stored struct{ URI string }
	if err := json.Unmarshal([]byte(call(t, p, owner, "viking_remember", `{"content":"Tea < coffee","category":"event"}`)), &stored); err != nil {
		t.Fatal(err)
	}
	directory := stored.URI[:strings.LastIndex(stored.URI, "/")]
	for _, test := range []struct{ tool, input, want string }{
		{"viking_search", `{"query":"tea","limit":5}`, `"abstract":"Tea < coffee"`},
		{"viking_search", `{"query":"tea","mode":"deep","scope":"viking://user"}`, `"total":1`},
		{"viking_search", `{"query":"tea","scope":"viking://resources"}`, `"total":0`},
		{"viking_search", `{"query":" "}`, "query is required"},
		{"viking_read", `{"uri":"` + stored.URI + `"}`, `"content":"Tea < coffee"`},
		{"viking_read", `{"uri":"` + directory + `","level":"abstract"}`, "Contains mem_"},
		{"viking_read", `{"uris":["` + stored.URI + `","viking://user/none.md"],"level":"full"}`, "does not exist"},
		{"viking_read", `{"uri":"viking://user/none.md"}`, "does not exist"},
		{"viking_read", `{"uris":["viking://1","viking://2","viking://3","viking://4"]}`, "1 to 3 uris"},
		{"viking_read", `{"uri":"viking://1","level":"all"}`, "level must be"},
		{"viking_browse", `{"action":"list"}`, stored.URI},
		{"viking_browse", `{"action":"tree","path":"viking://user"}`, stored.URI},
		{"viking_browse", `{"action":"stat","path":"` + stored.URI + `"}`, `"isDir":false`},
		{"viking_browse", `{"action":"walk"}`, "action must be"},
		{"viking_remember", `{"content":""}`, "content is required"},
		{"viking_remember", `{"content":"x","category":"song"}`, "category must be"},
		{"viking_forget", `{"uri":"viking://user/peers/hermes/memories/.overview.md"}`, "uri must be"},
		{"viking_forget", `{"uri":"viking://resources/plan.md"}`, "uri must be"},
		{"viking_forget", `{"uri":"` + directory + `"}`, "uri must be"},
		{"viking_forget", `{"uri":"viking://user/memories/none.md"}`, "does not exist"},
		{"viking_forget", `{"uri":"` + stored.URI + `"}`, `"status":"deleted"`},
		{"viking_add_resource", `{"url":"https://example.com/plan","reason":"x","timeout":5}`, `"root_uri":"viking://resources/plan"`},
		{"viking_add_resource", `{"url":"/etc/passwd"}`, "the file cannot be sent"},
		{"viking_add_resource", `{"url":"https://x","to":"viking://a","parent":"viking://b"}`, "only one of"},
		{"viking_dance", `{}`, "unknown tool"},
		{"viking_read", `{"uri":7}`, "not valid"},
	} {
		if got := call(t, p, owner, test.tool, test.input); !strings.Contains(got, test.want) {
			t.Errorf("%s(%s): %s", test.tool, test.input, got)
		}
	}
	if got := s.Files("default", key); len(got) != 1 {
		t.Errorf("files %+v", got)
	}
}
