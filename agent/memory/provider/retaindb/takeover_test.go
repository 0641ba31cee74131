package retaindb_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/agent/memory/provider/retaindb"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/retaindb"
)

// said returns a row's messages as upstream writes them.
func said(text string) string {
	return `[{"role":"user","content":"` + text + `","timestamp":"2026-11-27T10:00:00.123456+00:00"},{"role":"assistant","content":"Noted.","timestamp":"2026-11-27T10:00:01.5+00:00"}]`
}

// upstreamQueue makes the queue of upstream with rows of user, session and messages.
func upstreamQueue(t testing.TB, path string, rows ...[3]any) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Exec("CREATE TABLE pending (id INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT, session_id TEXT, messages_json TEXT, created_at TEXT, last_error TEXT)")
	for _, r := range rows {
		if err == nil {
			_, err = db.Exec("INSERT INTO pending (user_id, session_id, messages_json) VALUES (?, ?, ?)", r[0], r[1], r[2])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestTheQueueOfUpstreamIsTakenOver(t *testing.T) {
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	h := home{from: provider.Source{Home: filepath.Join(t.TempDir(), ".hermes")}}
	if err := os.MkdirAll(h.from.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.from.Home, "retaindb_queue.db")
	var rows [][3]any
	for i, text := range []string{"one", "refused", "two", "three"} {
		rows = append(rows, [3]any{fmt.Sprintf("u%d", i), "s", said("I like " + text)})
	}
	db := upstreamQueue(t, path, append(rows, [3]any{"u", "s", "no JSON"})...)
	open := func(waiting int) provider.Provider {
		t.Helper()
		p, warnings, err := h.open(t, s)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], fmt.Sprintf("retaindb_queue.db has %d turns", waiting)) || !strings.Contains(warnings[0], "; 1 rows have no user") {
			t.Fatalf("%q, %v", warnings, err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	turn := provider.Event{Key: "t", Kind: provider.Turn, At: time.Now(), Scope: provider.Scope{Session: "s"}, Messages: []provider.Message{{Role: "user", Text: "Hello there"}}}
	p := open(4)
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 400, Skip: 2})
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 503, Skip: 2})
	sync(t, p, turn)
	if n := len(s.Calls()); n != 4 || len(s.Memories("default", "u0")) != 1 {
		t.Errorf("%d calls", n)
	}
	sync(t, p, turn)
	sync(t, p, turn)
	if n := len(s.Memories("default", "u3")); n != 1 {
		t.Errorf("%d memories", n)
	}
	p = open(2)
	sync(t, p, turn)
	for i := range 4 {
		if n := len(s.Memories("default", fmt.Sprintf("u%d", i))); n != 1 {
			t.Errorf("row %d: %d memories", i, n)
		}
	}
	var left int
	if err := db.QueryRow("SELECT count(*) FROM pending").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d rows left, %v", left, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := h.open(t, s); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "cannot be read") {
		t.Errorf("%q, %v", warnings, err)
	}
}

// openHome opens the provider in a home whose server answers each call with success.
func openHome(t *testing.T, dir string, transport http.RoundTripper) (provider.Provider, []string, error) {
	return retaindb.Open(provider.Source{Secrets: new(secret.Masker), Open: files.Open, Home: dir, HTTP: &http.Client{Transport: transport}, Getenv: func(name string) string {
		return map[string]string{"RETAINDB_API_KEY": "k", "RETAINDB_BASE_URL": "http://retaindb.test"}[name]
	}})
}

// FuzzFile opens the provider with any file in the place of upstream's queue.
func FuzzFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "queue.db")
	db := upstreamQueue(f, path, [3]any{"ann", "s", said("I like tea")}, [3]any{nil, "s", said("x")}, [3]any{"bob", "t", "no JSON"})
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	middle := strings.Replace(string(whole), "CREATE TABLE pending", "CREATE TABLE another", 1)
	providertest.FuzzFile(f, func(t *testing.T, file string, transport http.RoundTripper) (provider.Provider, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "retaindb_queue.db"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		p, warnings, err := openHome(t, dir, transport)
		if err != nil || len(warnings) > 1 {
			t.Errorf("%q, %v", warnings, err)
		}
		return p, err
	}, inputs, string(whole), string(whole[:len(whole)/2]), middle)
}

// A recorder answers each call with success and keeps the ingested sessions.
type recorder struct{ sessions [][]byte }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/ingest/session") {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.sessions = append(r.sessions, body)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req}, nil
}

// FuzzQueueRow takes over one row: it is sent whole, with times that every server takes,
// and deleted; or reported, and stays.
func FuzzQueueRow(f *testing.F) {
	for _, row := range [][3]string{
		{"8439114563", "agent-main-telegram-dm-8439114563", said("I like tea")},
		{"ann", "s", `[{"role":"user","content":"a\u0000b","timestamp":"2026-11-27T10:00:00Z"}]`},
		{"ann", "s", `[{"role":"user","content":"x","timestamp":"9999-12-31T23:59:59-12:00"}]`},
		{"ann", "s", `[{"role":"user","content":["x"],"timestamp":"2026-11-27T10:00:00Z"}]`},
		{"ann", "s", `[{"role":"user","content":"x","timestamp":"2026-11-27 10:00:00"}]`},
		{"ann", "s", `[{"role":"user","content":"x","timestamp":"2026-11-27T10:00:00Z"},{"role":"assistant","content":" ","timestamp":"2026-11-27T10:00:00Z"}]`},
		{"ann", "s", `[{}]`}, {"ann", "s", `[]`}, {"ann", "s", `null`}, {"ann", "s", `{"role":"user"}`}, {"", "s", said("x")}, {"ann", "", said("x")}, {"ann", "s", "["}, {"ann", "s", ""},
	} {
		f.Add(row[0], row[1], row[2])
	}
	f.Fuzz(func(t *testing.T, user, session, messages string) {
		dir := t.TempDir()
		db := upstreamQueue(t, filepath.Join(dir, "retaindb_queue.db"), [3]any{user, session, messages})
		r := &recorder{}
		p, warnings, err := openHome(t, dir, r)
		if err != nil || len(warnings) != 1 {
			t.Fatalf("%q, %v", warnings, err)
		}
		turn := provider.Event{Key: "t", Kind: provider.Turn, At: time.Now(), Scope: provider.Scope{Session: "s"}, Messages: []provider.Message{{Role: "user", Text: "Hello there"}}}
		if _, err := p.Sync(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		var left int
		if err := db.QueryRow("SELECT count(*) FROM pending").Scan(&left); err != nil {
			t.Fatal(err)
		}
		bad := strings.Contains(warnings[0], " has 0 turns ")
		if len(r.sessions) != 2-left || bad != (left == 1) {
			t.Fatalf("%q: %d sent, %d left", warnings[0], len(r.sessions), left)
		}
		if bad {
			return
		}
		var in, out struct {
			User     string `json:"user_id"`
			Session  string `json:"session_id"`
			Messages []struct{ Role, Content, Timestamp string }
		}
		if err := errors.Join(json.Unmarshal([]byte(messages), &in.Messages), json.Unmarshal(r.sessions[1], &out)); err != nil {
			t.Fatal(err)
		}
		for i := len(in.Messages) - 1; i >= 0; i-- {
			if strings.TrimSpace(in.Messages[i].Content) == "" {
				in.Messages = slices.Delete(in.Messages, i, i+1)
			}
		}
		if len(in.Messages) != len(out.Messages) || out.User == "" || out.Session == "" {
			t.Fatalf("%s became %s", messages, r.sessions[1])
		}
		for i, m := range out.Messages {
			if _, err := time.Parse("2006-01-02T15:04:05.000Z", m.Timestamp); err != nil || m.Content != in.Messages[i].Content || m.Content == "" || m.Role == "" {
				t.Errorf("message %+v: %v", m, err)
			}
		}
	})
}
