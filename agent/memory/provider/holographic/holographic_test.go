package holographic_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/internal/secret"
)

func open(t testing.TB, home, section string) provider.Provider {
	t.Helper()
	p, warnings, err := holographic.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Section: json.RawMessage(section)})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func rawDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sync1(t testing.TB, p provider.Provider, e provider.Event) provider.Receipt {
	t.Helper()
	r, err := p.Sync(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := p.Synced(t.Context(), e, provider.Receipt{}); err != nil || !done {
		t.Fatalf("%s is not synced: %v", e.Kind, err)
	}
	return r
}

func added(person, target, text string) provider.Event {
	return provider.Event{Kind: provider.Added, Scope: provider.Scope{Person: person, Session: "s"}, Fact: provider.Fact{Target: target, Text: text}}
}

func recall(t testing.TB, p provider.Provider, person, query string) (texts []string) {
	t.Helper()
	items, err := p.Recall(t.Context(), provider.Scope{Person: person}, query)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range items {
		if x.ID == "" {
			t.Errorf("item %+v", x)
		}
		texts = append(texts, x.Text)
	}
	return texts
}

func call(t testing.TB, p provider.Provider, tool, input string) map[string]any {
	t.Helper()
	s, err := p.Call(t.Context(), provider.Scope{}, tool, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(s), &answer); err != nil {
		t.Fatal(s, err)
	}
	return answer
}

func TestSettings(t *testing.T) {
	home := t.TempDir()
	env := func(k string) string { return map[string]string{"HOME": "/home/ada"}[k] }
	for section, want := range map[string]string{
		``:                                  filepath.Join(home, "memory_store.db"),
		`null`:                              filepath.Join(home, "memory_store.db"),
		`{}`:                                filepath.Join(home, "memory_store.db"),
		`{"db_path":"$HERMES_HOME/x/m.db"}`: filepath.Join(home, "x/m.db"),
		`{"db_path":"${HERMES_HOME}/m.db"}`: filepath.Join(home, "m.db"),
		`{"db_path":"~/m.db","hrr_dim":"512","default_trust":"0.7","min_trust_threshold":0,"hrr_weight":0.2,"temporal_decay_half_life":30}`: "/home/ada/m.db",
		`{"db_path":"sub/m.db"}`:  filepath.Join(home, "sub/m.db"),
		`{"db_path":"/var/m.db"}`: "/var/m.db",
	} {
		p, warnings, err := holographic.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: env, Section: json.RawMessage(section)})
		if err != nil || len(warnings) > 0 || p.About().Place != want {
			t.Errorf("%s: %v, %v, %v", section, p, warnings, err)
		}
	}
	for _, section := range []string{`[]`, `"x"`, `7`} {
		if _, _, err := holographic.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Section: json.RawMessage(section)}); err == nil || !strings.Contains(err.Error(), "plugins.hermes-memory-store") {
			t.Errorf("%s: %v", section, err)
		}
	}
	_, warnings, err := holographic.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Section: json.RawMessage(`{"b":1,"a":2,"default_trust":7,"hrr_dim":"many"}`)})
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], `hermes-memory-store: the key "a"`) {
		t.Error(warnings, err)
	}
	if all, _ := os.ReadDir(home); len(all) > 0 {
		t.Errorf("Open makes %v", all)
	}
}

func TestAbout(t *testing.T) {
	p := open(t, t.TempDir(), "")
	a := p.About()
	if a.Name != "holographic" || !a.Exact || a.NoTools || len(a.Header) > 600 || len(a.Tools) != 2 || a.Cannot == "" || !strings.Contains(a.Mode, "auto_extract is off") {
		t.Errorf("%+v", a)
	}
	for _, tool := range a.Tools {
		if !json.Valid(tool.Schema) || !tool.Writes {
			t.Errorf("%+v", tool)
		}
	}
	if s, err := p.Standing(t.Context(), provider.Scope{}); s != "" || err != nil {
		t.Error(s, err)
	}
	if _, err := p.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFactsOfTheBuiltInMemory(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	first := sync1(t, p, added("", "user", " Prefers dark roast coffee\n"))
	if again := sync1(t, p, added("", "user", "Prefers dark roast coffee")); again != first || first.ID == "" {
		t.Errorf("repeated: %v, first: %v", again, first)
	}
	sync1(t, p, added("", "memory", "The printer is on floor 3"))
	if got := recall(t, p, "", "Which coffee do I like?"); !slices.Equal(got, []string{"Prefers dark roast coffee"}) {
		t.Errorf("recalled %q", got)
	}
	answer := call(t, p, "fact_store", `{"action":"list"}`)
	if s := fmt.Sprint(answer); !strings.Contains(s, "category:user_pref") || !strings.Contains(s, "category:general") || answer["count"] != 2.0 {
		t.Error(s)
	}
	missing := added("", "user", "not yet there")
	if done, err := p.Synced(t.Context(), missing, provider.Receipt{}); done || err != nil {
		t.Error(done, err)
	}
	gone := added("", "user", "Prefers dark roast coffee")
	gone.Kind, gone.Fact.ID = provider.Removed, first.ID
	if done, err := p.Synced(t.Context(), gone, provider.Receipt{}); done || err != nil {
		t.Error(done, err)
	}
	sync1(t, p, gone)
	sync1(t, p, gone)
	if got := recall(t, p, "", "coffee printer"); !slices.Equal(got, []string{"The printer is on floor 3"}) {
		t.Errorf("recalled %q", got)
	}
	for _, empty := range []provider.Event{added("", "user", " "), {Kind: provider.End}, {Kind: provider.Checkpoint}} {
		sync1(t, p, empty)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Recall(t.Context(), provider.Scope{}, "printer"); provider.ClassOf(err) != provider.Down || err == nil {
		t.Error("after Close:", err)
	}
	if got := recall(t, open(t, home, ""), "", "printer"); len(got) != 1 {
		t.Errorf("after a restart: %q", got)
	}
}

func TestEachPersonHasAFile(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	if got := recall(t, p, "telegram-7", "coffee"); got != nil {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(home, "memory_store")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a recall makes files:", err)
	}
	for i := range 40 { // more than stay open
		sync1(t, p, added(fmt.Sprintf("telegram-%d", i), "user", fmt.Sprintf("coffee of person %d", i)))
	}
	sync1(t, p, added("", "user", "coffee of the owner"))
	for i := range 40 {
		if got := recall(t, p, fmt.Sprintf("telegram-%d", i), "coffee"); !slices.Equal(got, []string{fmt.Sprintf("coffee of person %d", i)}) {
			t.Errorf("person %d: %q", i, got)
		}
	}
	if got := recall(t, p, "", "coffee"); !slices.Equal(got, []string{"coffee of the owner"}) {
		t.Error(got)
	}
	for _, path := range []string{"memory_store.db", "memory_store/telegram-3.db"} {
		if info, err := os.Stat(filepath.Join(home, path)); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(path, info.Mode(), err)
		}
	}
	for _, person := range []string{"../x", "a/b", "é", strings.Repeat("a", 101), "."} {
		_, err := p.Recall(t.Context(), provider.Scope{Person: person}, "coffee")
		if _, syncErr := p.Sync(t.Context(), added(person, "user", "x")); provider.ClassOf(err) != provider.Refused || provider.ClassOf(syncErr) != provider.Refused {
			t.Error(person, err, syncErr)
		}
	}
	sync1(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "telegram-3", Session: "s"}})
	if got := recall(t, p, "telegram-3", "coffee"); len(got) != 1 {
		t.Error("a conversation has no facts of its own:", got)
	}
	sync1(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "telegram-3"}})
	sync1(t, p, provider.Event{Kind: provider.Forget, Scope: provider.Scope{Person: "nobody"}})
	if got := recall(t, p, "telegram-3", "coffee"); got != nil {
		t.Error(got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"telegram-3": false, "telegram-4": true} {
		if data, err := os.ReadFile(filepath.Join(home, "memory_store", path+".db")); err != nil || strings.Contains(string(data), "coffee of person") != want {
			t.Error("after Forget, bytes of", path, err)
		}
	}
}

func TestAutoExtract(t *testing.T) {
	turn := provider.Event{Kind: provider.Turn, Messages: []provider.Message{
		{Role: "user", Text: "I always deploy on Mondays"}, {Role: "assistant", Text: "I prefer Tuesdays myself"},
		{Role: "user", Text: "we decided to drop Perl"}, {Role: "user", Text: "what time is it?"}}}
	off := open(t, t.TempDir(), `{"auto_extract":"false"}`)
	sync1(t, off, turn)
	if got := recall(t, off, "", "deploy Perl Tuesdays"); got != nil {
		t.Error(got)
	}
	p := open(t, t.TempDir(), `{"auto_extract":"true"}`)
	if a := p.About(); !strings.Contains(a.Mode, "auto_extract") || a.Batch.Turns != 100 || off.About().Batch.Turns != 0 {
		t.Errorf("%+v", a)
	}
	if done, err := p.Synced(t.Context(), turn, provider.Receipt{}); done || err != nil {
		t.Error(done, err)
	}
	sync1(t, p, turn)
	sync1(t, p, turn)
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"list","category":"user_pref"}`)); !strings.Contains(s, "Mondays") || !strings.Contains(s, "count:1") {
		t.Error(s)
	}
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"list","category":"project"}`)); !strings.Contains(s, "Perl") || !strings.Contains(s, "count:1") {
		t.Error(s)
	}
}

// oldFile is a file of upstream before it had vectors.
func oldFile(t *testing.T, path string) {
	db := rawDB(t, path)
	if _, err := db.Exec(`
		CREATE TABLE facts (fact_id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL UNIQUE, category TEXT DEFAULT 'general', tags TEXT DEFAULT '',
			trust_score REAL DEFAULT 0.5, retrieval_count INTEGER DEFAULT 0, helpful_count INTEGER DEFAULT 0,
			created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
		CREATE TABLE entities (entity_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, entity_type TEXT DEFAULT 'unknown', aliases TEXT DEFAULT '', created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
		CREATE TABLE fact_entities (fact_id INTEGER, entity_id INTEGER, PRIMARY KEY (fact_id, entity_id));
		CREATE VIRTUAL TABLE facts_fts USING fts5(content, tags, content=facts, content_rowid=fact_id);
		CREATE TRIGGER facts_ai AFTER INSERT ON facts BEGIN INSERT INTO facts_fts(rowid, content, tags) VALUES (new.fact_id, new.content, new.tags); END;
		INSERT INTO facts (content, tags, created_at, updated_at) VALUES ('The gate code is 4711', 'home', '2026-01-02 03:04:05', NULL);
		INSERT INTO entities (name, aliases) VALUES ('Grace Hopper', 'Amazing Grace,Grandma COBOL');`); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFileOfUpstream(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "memory_store.db")
	oldFile(t, path)
	p := open(t, home, "")
	items, err := p.Recall(t.Context(), provider.Scope{}, "gate code")
	if err != nil || len(items) != 1 || items[0].Text != "The gate code is 4711" {
		t.Fatal(items, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	sync1(t, p, added("", "memory", `Amazing Grace and "GRACE HOPPER" are one`))
	if s := fmt.Sprint(call(t, p, "fact_store", `{"action":"probe","entity":"grace hopper"}`)); !strings.Contains(s, "are one") {
		t.Error(s)
	}
	db := rawDB(t, path)
	var entities, links int
	var mode string
	if err := db.QueryRow("SELECT (SELECT count(*) FROM entities), (SELECT count(*) FROM fact_entities)").Scan(&entities, &links); err != nil || entities != 1 || links != 1 {
		t.Error("entities, links:", entities, links, err)
	}
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Error(mode, err)
	}
	// Upstream writes at the same time.
	if _, err := db.Exec(`INSERT INTO facts (content) VALUES ('The gate was painted');
		INSERT INTO facts (content, category, tags, trust_score, retrieval_count, helpful_count, created_at, updated_at, hrr_vector)
		VALUES ('Odd gate', NULL, NULL, 7, 'many', NULL, 'yesterday', NULL, x'00'), ('No trust in this gate', 1, 2, 'none', 3.5, x'01', 4, '2026-01-02T03:04:05Z', 'text')`); err != nil {
		t.Fatal(err)
	}
	if items, err := p.Recall(t.Context(), provider.Scope{}, "gate"); err != nil || len(items) != 4 || items[0].Text != "Odd gate" {
		t.Error(items, err)
	}
	for _, action := range []string{"search", "probe", "related", "reason", "contradict", "list"} {
		if answer := call(t, p, "fact_store", `{"action":"`+action+`","query":"gate","entity":"gate","entities":["gate"],"min_trust":0}`); answer["error"] != nil {
			t.Error(action, answer)
		}
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "memory_store.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, home, "")
	_, err := p.Recall(t.Context(), provider.Scope{}, "coffee")
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != provider.Down || !strings.Contains(e.Text, path) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	sync1(t, p, added("", "user", "works again")) // without a restart
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Recall(ctx, provider.Scope{}, "coffee"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Of a large memory only the facts with the rarest words of a query are ranked.
func TestLargeMemory(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	sync1(t, p, added("", "user", "The user likes the unicorn"))
	db := rawDB(t, filepath.Join(home, "memory_store.db"))
	if _, err := db.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO facts (content) SELECT 'The user likes thing' || i FROM n"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"which user likes the unicorn?": 1, "does the user like unicorn or thing7": 2, "user": 5, "zebra": 0, "the": 5, "user zebra": 5} {
		if got := recall(t, p, "", query); len(got) != want {
			t.Errorf("%s: %q", query, got)
		}
	}
}

// A watchedContext calls at when it is asked for its error the lookth time. A call asks twice
// for each try to get a lock.
type watchedContext struct {
	context.Context
	look, looks int
	at          func()
}

func (c *watchedContext) Err() error {
	if c.looks++; c.looks == c.look {
		c.at()
	}
	return c.Context.Err()
}

// SQLite does not notice the end of a context while it waits for a lock, so a call tries again
// and again and asks its context in between. The lock is released after the call has ended.
func TestWaitForALockEndsWithTheContext(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, "")
	sync1(t, p, added("", "user", "before"))
	db := rawDB(t, filepath.Join(home, "memory_store.db"))
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := &watchedContext{Context: ctx, look: 5, at: cancel}
	_, err := p.Sync(watched, added("", "user", "during"))
	if err == nil || provider.ClassOf(err) != provider.Down {
		t.Error(err)
	}
	if ctx.Err() == nil || watched.looks > watched.look+1 {
		t.Errorf("the call has asked %d times whether its context has ended, which ended at the %dth", watched.looks, watched.look)
	}
	if got := recall(t, p, "", "before"); len(got) != 1 {
		t.Error("a reader waits for a writer:", got)
	}
	released := false
	waits := &watchedContext{Context: t.Context(), look: 5, at: func() {
		_, err := db.Exec("COMMIT")
		released = err == nil
	}}
	if _, err := p.Sync(waits, added("", "user", "after")); err != nil || !released {
		t.Errorf("a call that waits for the lock: %v, the lock is released: %v", err, released)
	}
}

func TestManyAtOnce(t *testing.T) {
	home := t.TempDir()
	both := []provider.Provider{open(t, home, ""), open(t, home, "")} // as during a reload
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 10 {
				if _, err := both[i%2].Sync(t.Context(), added("", "user", fmt.Sprintf("coffee %d", i/2*10+n))); err != nil {
					t.Error(err)
				}
				if _, err := both[n%2].Recall(t.Context(), provider.Scope{}, "coffee"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if answer := call(t, both[0], "fact_store", `{"action":"list","limit":100}`); answer["count"] != 40.0 {
		t.Error(answer["count"])
	}
}
