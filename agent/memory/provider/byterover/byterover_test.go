package byterover_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/byterover"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory/brv"
)

func TestMain(m *testing.M) {
	if brv.Called() {
		brv.Main()
	}
	goleak.VerifyTestMain(m)
}

const key = "key-of-a-test-0123"

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

// newTarget returns an installed program, a home and a provider.
func newTarget(t *testing.T, section string) (*brv.Installation, string, provider.Provider) {
	t.Helper()
	i, home := brv.Install(t), t.TempDir()
	p, warnings, err := byterover.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: environment(append(i.Environment(), "BRV_API_KEY="+key, "SECRET=1")...), Section: json.RawMessage(section)})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %v, %q", err, warnings)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return i, home, p
}

func sync(t *testing.T, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatalf("sync of %s: %v", e.Kind, err)
	}
	return r
}

// stored returns the texts of all files of a person.
func stored(t *testing.T, home, person string) []string {
	t.Helper()
	dir := filepath.Join(home, "byterover")
	if person != "" {
		dir = filepath.Join(home, "byterover-people", person)
	}
	var out []string
	err := filepath.WalkDir(filepath.Join(dir, ".brv", "context-tree"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		_, text, _ := strings.Cut(string(raw), "---\ntitle: Note\ntags: []\n---\n")
		out = append(out, strings.TrimSpace(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func turn(s provider.Scope, texts ...string) provider.Event {
	e := provider.Event{Key: "k", Kind: provider.Turn, Scope: s, At: time.Now()}
	for i, text := range texts {
		e.Messages = append(e.Messages, provider.Message{Role: []string{"user", "assistant"}[i%2], Text: text})
	}
	return e
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, providertest.Options{
		Health: provider.Health{Detail: "model of brv: openai m"},
		New: func(t *testing.T) providertest.Target {
			i, home := brv.Install(t), t.TempDir()
			p, _, err := byterover.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: environment(append(i.Environment(), "BRV_API_KEY="+key)...)})
			if err != nil {
				t.Fatal(err)
			}
			count := func(text string) int {
				n := 0
				for _, s := range append(stored(t, home, ""), stored(t, home, "telegram-77")...) {
					n += strings.Count(strings.ToLower(s), text)
				}
				return n
			}
			return providertest.Target{Provider: p, Key: key, Count: count}
		},
		KeepsFacts: true, Real: true,
		Inputs: map[string]string{"brv_query": `{"query":"what tea?"}`, "brv_curate": `{"content":"I like tea."}`, "brv_status": `{}`},
	})
}

func TestConfiguration(t *testing.T) {
	home := t.TempDir()
	i := brv.Install(t)
	open := func(section string, env ...string) ([]string, error) {
		_, warnings, err := byterover.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: environment(env...), Section: json.RawMessage(section)})
		return warnings, err
	}
	if warnings, err := open(`{"auto_extract":false,"colour":"red"}`, i.Environment()...); err != nil || !slices.Equal(warnings, []string{`memory.byterover: the key "colour" is unknown and has no effect`}) {
		t.Errorf("%q, %v", warnings, err)
	}
	if warnings, err := open("", "PATH=/nowhere:.", "HOME=/nowhere"); err != nil || len(warnings) != 1 && !onThisMachine() {
		t.Errorf("without brv: %q, %v", warnings, err)
	}
	for _, place := range []string{".brv-cli/bin", ".npm-global/bin"} {
		user := t.TempDir()
		if err := os.MkdirAll(filepath.Join(user, filepath.Dir(place)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(i.Bin, filepath.Join(user, place)); err != nil {
			t.Fatal(err)
		}
		if warnings, err := open("", "HOME="+user); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %q, %v", place, warnings, err)
		}
	}
	if _, err := open(`[]`); err == nil {
		t.Error("a list is accepted as the section")
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("opening has made %v, %v", entries, err)
	}
}

// onThisMachine reports whether brv is installed where every user has it.
func onThisMachine() bool {
	_, err := os.Stat("/usr/local/bin/brv")
	return err == nil
}

// What the program gets: its directory first in PATH, no secrets but its own, no input.
func TestProcess(t *testing.T) {
	i, home, p := newTarget(t, "")
	if _, err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Recall(t.Context(), provider.Scope{}, "--help \x00tea"); err != nil {
		t.Fatal(err)
	}
	calls := i.Calls(t)
	if len(calls) != 3 || !slices.Equal(calls[1].Args, []string{"curate", "--format", "json"}) || !slices.Equal(calls[2].Args, []string{"search", "--limit", "10", "--format", "json", "--", "--help tea"}) {
		t.Fatalf("calls %+v", calls)
	}
	c := calls[0]
	if c.Stdin || c.Dir != filepath.Join(home, "byterover") || !slices.Contains(c.Env, "BRV_API_KEY="+key) || !slices.Contains(c.Env, "PATH="+i.Bin+":/usr/bin:/bin:"+i.Bin) || slices.Contains(c.Env, "SECRET=1") {
		t.Errorf("call %+v", c)
	}
}

// Each person has a project, although there is one above them all.
func TestPeopleAreToldApart(t *testing.T) {
	i, home, p := newTarget(t, "")
	above := filepath.Join(home, ".brv")
	if err := os.MkdirAll(filepath.Join(above, "context-tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.json": `{"createdAt":"2026-01-01"}`, "context-tree/other.md": "Others like milk."} {
		if err := os.WriteFile(filepath.Join(above, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for person, text := range map[string]string{"": "I like jasmine tea.", "anna": "I like espresso.", "bob": "I like water."} {
		s := provider.Scope{Person: person}
		if got, err := p.Recall(t.Context(), s, "like"); err != nil || len(got) > 0 {
			t.Errorf("%q before the first turn: %v, %v", person, got, err)
		}
		var config struct{ CreatedAt, Cwd string }
		dir := filepath.Join(home, "byterover-people", person)
		if person == "" {
			dir = filepath.Join(home, "byterover")
		}
		if raw, err := os.ReadFile(filepath.Join(dir, ".brv", "config.json")); err != nil || json.Unmarshal(raw, &config) != nil || config.CreatedAt == "" || config.Cwd != dir {
			t.Errorf("%q: project %s, %v", person, raw, err)
		}
		sync(t, p, turn(s, text))
		if got, err := p.Recall(t.Context(), s, "like"); err != nil || len(got) != 1 || got[0].Text != "User: "+text {
			t.Errorf("%q: %+v, %v", person, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(home, "byterover-people", "anna", ".brv", "config.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	n := len(i.Calls(t))
	for _, person := range []string{"..", "a/b", "../byterover", `a\b`, "."} {
		if _, err := p.Recall(t.Context(), provider.Scope{Person: person}, "tea"); err == nil {
			t.Errorf("person %q is accepted", person)
		}
	}
	if got := len(i.Calls(t)); got != n {
		t.Errorf("%d calls, want %d", got, n)
	}
	sync(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "anna", Session: "one"}})
	sync(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "anna"}})
	if a, b, o := stored(t, home, "anna"), stored(t, home, "bob"), stored(t, home, ""); len(a) != 0 || len(b) != 1 || len(o) != 1 {
		t.Errorf("after forgetting anna: %q, %q, %q", a, b, o)
	}
}

// A project of an upstream home is used as it is, also one that is only named.
func TestUpstreamHome(t *testing.T) {
	_, home, p := newTarget(t, "")
	dir := filepath.Join(home, "byterover", ".brv")
	config := `{"createdAt":"2026-01-01","spaceId":"s"}`
	if err := os.MkdirAll(filepath.Join(dir, "context-tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.json": config, "context-tree/food.md": "---\ntitle: Food\n---\nOwner likes papaya.\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.Recall(t.Context(), provider.Scope{}, "papaya")
	if err != nil || len(got) != 1 || got[0].Text != "Owner likes papaya." || got[0].ID != "food.md" {
		t.Errorf("%+v, %v", got, err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(raw) != config {
		t.Errorf("%s, %v", raw, err)
	}
	_, home, p = newTarget(t, "")
	if err := os.Mkdir(filepath.Join(home, "byterover"), 0o700); err != nil {
		t.Fatal(err)
	}
	pointer := filepath.Join(home, "byterover", ".brv")
	if err := os.WriteFile(pointer, []byte(`{"projectRoot":"/elsewhere"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); err != nil {
		t.Errorf("a named project: %v", err)
	}
}

// What is stored, in upstream's words.
func TestTexts(t *testing.T) {
	long := strings.Repeat("é", 2500)
	messages := turn(provider.Scope{}, "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", strings.Repeat("x", 600), "eleven", " ")
	for name, test := range map[string]struct {
		e       provider.Event
		section string
		want    string
	}{
		"turn":       {e: turn(provider.Scope{}, "I like tea.\x00 "+long, "Noted."), want: "User: I like tea. " + strings.Repeat("é", 1987) + "…\nAssistant: Noted."},
		"short turn": {e: turn(provider.Scope{}, "thanks", "You are welcome, always.")},
		"no turns":   {e: turn(provider.Scope{}, "I like tea a lot."), section: `{"auto_extract":false}`},
		"profile":    {e: provider.Event{Kind: provider.Added, Fact: provider.Fact{Target: "user", Text: "Likes tea"}}, section: `{"auto_extract":false}`, want: "[User profile] Likes tea"},
		"notes":      {e: provider.Event{Kind: provider.Added, Fact: provider.Fact{Target: "memory", Text: "Host is up"}}, want: "[Agent memory] Host is up"},
		"removed":    {e: provider.Event{Kind: provider.Removed, Fact: provider.Fact{Target: "user", Text: "Likes tea"}}, want: "[User profile] This is no longer true or wanted; remove it from the knowledge: Likes tea"},
		"checkpoint": {e: provider.Event{Kind: provider.Checkpoint, Messages: messages.Messages}, want: "[Pre-compression context]\nUser: three\nAssistant: four\nUser: five\nAssistant: six\nUser: seven\nAssistant: eight\nUser: nine\nAssistant: " + strings.Repeat("x", 500) + "…\nUser: eleven"},
		"end":        {e: provider.Event{Kind: provider.End}},
	} {
		t.Run(name, func(t *testing.T) {
			_, home, p := newTarget(t, test.section)
			r := sync(t, p, test.e)
			got := strings.Join(stored(t, home, ""), "|")
			if got != test.want || (r.ID != "") != (test.want != "") || r.Pending {
				t.Errorf("%+v, stored %q", r, got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		b     brv.Behaviour
		class provider.Class
		text  string
	}{
		"no model":       {brv.Behaviour{NoProvider: true}, provider.Auth, "brv providers connect"},
		"newer":          {brv.Behaviour{Newer: true}, provider.Auth, "npm install -g byterover-cli@"},
		"newer, flags":   {brv.Behaviour{Output: `{"command":"curate","success":false,"data":{"ok":false,"status":"failed","errors":[{"kind":"removed-flag","message":"Flag '--timeout' was removed in tool-mode."}]}}`}, provider.Auth, "npm install -g byterover-cli@"},
		"failed task":    {brv.Behaviour{Fail: "the model is down, key " + key + " " + strings.Repeat("long ", 100)}, provider.Down, "the model is down, key ***"},
		"text":           {brv.Behaviour{Output: "No provider connected.\n"}, provider.Garbage, "cannot be read"},
		"half an answer": {brv.Behaviour{Output: `{"command":"curate","success":tr`}, provider.Garbage, "cannot be read"},
		"no success":     {brv.Behaviour{Output: `{"command":"curate","data":{"status":"completed"}}`}, provider.Garbage, "cannot be read"},
		"queued":         {brv.Behaviour{Output: `{"success":true,"data":{"status":"queued"}}`}, provider.Garbage, "cannot be read"},
		"nothing":        {brv.Behaviour{Output: " \n"}, provider.Down, "written nothing, exit code 0"},
		"flood":          {brv.Behaviour{Flood: true}, provider.Garbage, "cannot be read"},
		"refused":        {brv.Behaviour{Output: `{"success":false,"data":{"message":"An argument is required.","status":"error"}}`}, provider.Refused, "required"},
		"unreachable":    {brv.Behaviour{Output: `{"success":false,"data":{"error":"Failed to start the daemon"}}`}, provider.Down, "daemon"},
		"no reason":      {brv.Behaviour{Output: `{"success":false,"data":{}}`}, provider.Down, "no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			i, _, p := newTarget(t, "")
			i.Set(t, test.b)
			_, err := p.Sync(t.Context(), turn(provider.Scope{}, "I like tea."))
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Class != test.class || !strings.Contains(e.Text, test.text) || strings.Contains(e.Text, key) || len(e.Text) > 300 {
				t.Errorf("%v, %+v", err, e)
			}
		})
	}
}

// Check sees that no model is set up, or that a login is missing.
func TestCheck(t *testing.T) {
	i, _, p := newTarget(t, "")
	if _, err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, b := range []brv.Behaviour{{NoProvider: true}, {Newer: true}, {Output: `{"success":true,"data":{"providerId":"byterover","warning":"Not logged in. Run 'brv login' to authenticate."}}`}} {
		i.Set(t, b)
		if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Auth || !strings.Contains(err.Error(), "brv ") {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// A background process that cannot be reached makes every command wait; a call ends with
// its context all the same.
func TestHang(t *testing.T) {
	i, _, p := newTarget(t, "")
	i.Set(t, brv.Behaviour{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"recall": func() error { _, err := p.Recall(ctx, provider.Scope{}, "tea"); return err },
		"sync":   func() error { _, err := p.Sync(ctx, turn(provider.Scope{}, "I like tea.")); return err },
		"check":  func() error { _, err := p.Check(ctx); return err },
	} {
		if err := call(); provider.ClassOf(err) != provider.Down {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// brv that is removed and installed again is found without a new start.
func TestWithoutProgram(t *testing.T) {
	i, _, p := newTarget(t, "")
	if onThisMachine() {
		t.Skip("brv is installed on this machine")
	}
	path := filepath.Join(i.Bin, "brv")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Down || !strings.Contains(err.Error(), "npm install") {
		t.Errorf("%v", err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTools(t *testing.T) {
	i, _, p := newTarget(t, "")
	call := func(want, tool, input string) {
		t.Helper()
		if got, err := p.Call(t.Context(), provider.Scope{}, tool, json.RawMessage(input)); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s(%s): %s, %v", tool, input, got, err)
		}
	}
	call("Nothing was found", "brv_query", `{"query":"which tea?"}`)
	call("Stored", "brv_curate", `{"content":"The owner prefers jasmine tea."}`)
	call("jasmine", "brv_query", `{"query":"which tea?"}`)
	call("3.14.0", "brv_status", `{}`)
	call("query is required", "brv_query", `{}`)
	call("content is required", "brv_curate", `{"content":" "}`)
	call("at most", "brv_curate", `{"content":"`+strings.Repeat("x", 25_001)+`"}`)
	call("not valid", "brv_query", `{"query":1}`)
	call("unknown tool", "brv_dance", `{}`)
	i.Set(t, brv.Behaviour{Review: 3})
	call("3 changes wait for a person: brv review approve", "brv_curate", `{"content":"The owner prefers espresso."}`)
	i.Set(t, brv.Behaviour{Newer: true})
	if got, err := p.Call(t.Context(), provider.Scope{}, "brv_curate", json.RawMessage(`{"content":"tea"}`)); got != "" || provider.ClassOf(err) != provider.Auth {
		t.Errorf("%s, %v", got, err)
	}
	i.Set(t, brv.Behaviour{Output: `{"command":"query","success":true,"data":{"status":"no-matches","matchedDocs":[]}}`})
	if got, err := p.Call(t.Context(), provider.Scope{}, "brv_query", json.RawMessage(`{"query":"tea"}`)); got != "" || provider.ClassOf(err) != provider.Garbage {
		t.Errorf("a query of a newer version: %s, %v", got, err)
	}
	i.Set(t, brv.Behaviour{NoProvider: true})
	if got, err := p.Call(t.Context(), provider.Scope{}, "brv_query", json.RawMessage(`{"query":"tea"}`)); got != "" || provider.ClassOf(err) != provider.Auth {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzOutput(f *testing.F) {
	for _, seed := range []string{
		`{"command":"search","data":{"results":[{"title":"t","path":"p","score":0.5,"excerpt":"e"}],"totalFound":1,"status":"completed"},"success":true}`,
		"{\"x\":1}\n" + `{"data":{"event":"error","message":"m","status":"error"},"success":false}`, `{"success":false,"data":{"error":"e","raw":"r"}}`, `{"success":true,"data":null}`, `{"success":false,"data":{"ok":false,"status":"failed","errors":[{"kind":"removed-flag"}]}}`, "", "text", "{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		var out struct {
			Results []struct {
				Score float64
				Path  string
			}
			Status string
		}
		if err := byterover.Decode(key, output, &out); err != nil {
			if _, ok := errors.AsType[*provider.Error](err); !ok || strings.Contains(err.Error(), key) {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}
