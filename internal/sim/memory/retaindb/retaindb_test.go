package retaindb_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/retaindb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call sends a request with both keys and more headers, given in pairs.
func call(t *testing.T, s *retaindb.Server, status int, method, path, body string, headers ...string) (string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	req.Header.Set("X-API-Key", "k")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d, error %v: %s", method, path, resp.StatusCode, status, err, raw)
	}
	return string(raw), resp.Header
}

func newServer(t *testing.T, o retaindb.Options) *retaindb.Server {
	t.Helper()
	s := retaindb.New(o)
	t.Cleanup(s.Close)
	return s
}

const (
	fact  = `{"project":"p","content":"My tea is green.","memory_type":"preference","user_id":"ann","importance":0.7,"write_mode":"sync"}`
	query = `{"project":"p","query":"tea","user_id":"ann","session_id":"s"}`
)

func TestIdempotencyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, retaindb.Options{Keys: []string{"k"}})
		first, _ := call(t, s, 201, "POST", "/v1/memory", fact, "Idempotency-Key", "1")
		second, header := call(t, s, 201, "POST", "/v1/memory", fact, "Idempotency-Key", "1")
		if first != second || header.Get("X-Idempotency-Replay") != "true" || len(s.Memories("p", "ann")) != 1 {
			t.Errorf("%s, then %s", first, second)
		}
		call(t, s, 409, "POST", "/v1/memory", strings.Replace(fact, "green", "black", 1), "Idempotency-Key", "1")
		call(t, s, 201, "POST", "/v1/memory", fact)
		time.Sleep(24 * time.Hour)
		call(t, s, 201, "POST", "/v1/memory", fact, "Idempotency-Key", "1")
		if n := len(s.Memories("p", "ann")); n != 3 {
			t.Errorf("%d memories", n)
		}
	})
}

func TestWritesAreFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, retaindb.Options{})
		call(t, s, 202, "POST", "/v1/memory", strings.Replace(fact, `"sync"`, `"async"`, 1))
		if got, _ := call(t, s, 200, "POST", "/v1/memory/search", query); !strings.Contains(got, `"count":0`) {
			t.Errorf("found at once: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got, _ := call(t, s, 200, "POST", "/v1/memory/search", query); !strings.Contains(got, `"count":1`) {
			t.Errorf("not found: %s", got)
		}
		if got, _ := call(t, s, 200, "POST", "/v1/memory/search", strings.Replace(query, "ann", "bob", 1)); !strings.Contains(got, `"count":0`) {
			t.Errorf("found for another user: %s", got)
		}
	})
}

func TestSessionsAreExtractedEachTime(t *testing.T) {
	s := newServer(t, retaindb.Options{})
	const in = `{"project":"p","session_id":"s","user_id":"ann","messages":[{"role":"user","content":"My tea is green.","timestamp":"2026-11-27T10:00:00Z"},{"role":"assistant","content":"Noted.","timestamp":"2026-11-27T10:00:01Z"}],"write_mode":"sync"}`
	call(t, s, 200, "POST", "/v1/memory/ingest/session", in)
	call(t, s, 200, "POST", "/v1/memory/ingest/session", in)
	if got, _ := call(t, s, 200, "GET", "/v1/memory/session/s?project=p", ""); !strings.Contains(got, `"count":2`) {
		t.Errorf("%s", got)
	}
	call(t, s, 400, "POST", "/v1/memory/ingest/session", strings.Replace(in, "2026-11-27T10:00:00Z", "2026-11-27", 1))
	for _, path := range []string{"/v1/memory/profile/ann?project=p&include_pending=true", "/v1/memories?project=p&user_id=ann&limit=200"} {
		if got, _ := call(t, s, 200, "GET", path, ""); !strings.Contains(got, `"count":2`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got, _ := call(t, s, 200, "POST", "/v1/context/query", query); !strings.Contains(got, `"context":"My tea is green.`) {
		t.Errorf("%s", got)
	}
}

func TestHostedAndOwnServerDiffer(t *testing.T) {
	hosted, own := newServer(t, retaindb.Options{}), newServer(t, retaindb.Options{Own: true})
	for _, s := range []*retaindb.Server{hosted, own} {
		call(t, s, 201, "POST", "/v1/memory", fact)
	}
	got, _ := call(t, hosted, 200, "POST", "/v1/memory/profile/ann/ask", `{"project":"p","query":"tea","reasoning_level":"low"}`)
	if !strings.Contains(got, "green") {
		t.Errorf("%s", got)
	}
	call(t, own, 404, "POST", "/v1/memory/profile/ann/ask", `{}`)
	got, _ = call(t, own, 200, "POST", "/v1/memory/dialectic", `{"project":"p","question":"tea","user_id":"ann"}`)
	if !strings.Contains(got, "green") {
		t.Errorf("%s", got)
	}
}

func TestMemoriesChange(t *testing.T) {
	s := newServer(t, retaindb.Options{Keys: []string{"k"}})
	call(t, s, 201, "POST", "/v1/memory", fact)
	id := s.Memories("p", "ann")[0].ID
	call(t, s, 200, "PUT", "/v1/memory/"+id, `{"content":"My tea is black.","reason":"changed"}`)
	if got := s.Memories("p", "ann")[0].Content; got != "My tea is black." {
		t.Errorf("%q", got)
	}
	call(t, s, 200, "DELETE", "/v1/memory/"+id, "")
	if got, _ := call(t, s, 404, "DELETE", "/v1/memory/"+id, ""); !strings.Contains(got, "Memory not found") {
		t.Errorf("%s", got)
	}
	call(t, s, 400, "POST", "/v1/memory", strings.Replace(fact, "preference", "mood", 1))
	call(t, s, 400, "POST", "/v1/memory/search", `{"query":"tea"}`)
	call(t, s, 401, "POST", "/v1/memory/search", query, "X-API-Key", "")
	call(t, s, 200, "POST", "/v1/memory/agent/hermes/seed", `{"project":"p","content":"You are kind.","source":"soul_md"}`)
	if got, _ := call(t, s, 200, "GET", "/v1/memory/agent/hermes/model?project=p", ""); !strings.Contains(got, "You are kind.") {
		t.Errorf("%s", got)
	}
}

func TestFiles(t *testing.T) {
	s := newServer(t, retaindb.Options{})
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "notes.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte("tea notes"))
	for name, value := range map[string]string{"path": "/docs/notes.txt", "scope": "PROJECT", "project_id": "p"} {
		_ = form.WriteField(name, value)
	}
	_ = form.Close()
	got, _ := call(t, s, 201, "POST", "/v1/files", body.String(), "Content-Type", form.FormDataContentType())
	_, rest, _ := strings.Cut(got, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if got, _ := call(t, s, 200, "GET", "/v1/files/"+id+"/content", ""); got != "tea notes" {
		t.Errorf("content %q", got)
	}
	if got, _ := call(t, s, 200, "GET", "/v1/files?prefix=/docs/&limit=10", ""); !strings.Contains(got, id) {
		t.Errorf("%s", got)
	}
	call(t, s, 200, "GET", "/v1/files/"+id, "")
	call(t, s, 200, "POST", "/v1/files/"+id+"/ingest", `{"user_id":"ann","agent_id":"hermes"}`)
	if n := len(s.Memories("p", "ann")); n != 1 {
		t.Errorf("%d memories", n)
	}
	call(t, s, 200, "DELETE", "/v1/files/"+id, "")
	call(t, s, 404, "GET", "/v1/files/"+id, "")
	call(t, s, 400, "POST", "/v1/files", "no form")
}
