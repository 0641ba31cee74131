package retaindb_test

import (
	"bytes"
	"mime/multipart"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/retaindb"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, o retaindb.Options) (*retaindb.Server, simtest.Caller) {
	t.Helper()
	s := retaindb.New(o)
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k", "X-API-Key": "k"}}
}

const (
	fact  = `{"project":"p","content":"My tea is green.","memory_type":"preference","user_id":"ann","importance":0.7,"write_mode":"sync"}`
	query = `{"project":"p","query":"tea","user_id":"ann","session_id":"s"}`
)

func TestIdempotencyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, retaindb.Options{Keys: []string{"k"}})
		once := c.With("Idempotency-Key", "1")
		first := once.Call(201, "POST", "/v1/memory", fact)
		second := once.Call(201, "POST", "/v1/memory", fact)
		if first.Text != second.Text || second.Header.Get("X-Idempotency-Replay") != "true" || len(s.Memories("p", "ann")) != 1 {
			t.Errorf("%s, then %s", first.Text, second.Text)
		}
		once.Call(409, "POST", "/v1/memory", strings.Replace(fact, "green", "black", 1))
		c.Call(201, "POST", "/v1/memory", fact)
		time.Sleep(24 * time.Hour)
		once.Call(201, "POST", "/v1/memory", fact)
		if n := len(s.Memories("p", "ann")); n != 3 {
			t.Errorf("%d memories", n)
		}
	})
}

func TestWritesAreFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newServer(t, retaindb.Options{})
		job := c.Call(202, "POST", "/v1/memory", strings.Replace(fact, `"sync"`, `"async"`, 1)).Field("status_url")
		status := func() string { return c.Call(200, "GET", job, "").Field("job", "status") }
		if got := status(); got != "pending" {
			t.Errorf("status %s", got)
		}
		if got := c.Call(200, "POST", "/v1/memory/search", query).Text; !strings.Contains(got, `"count":0`) {
			t.Errorf("found at once: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := status(); got != "completed" {
			t.Errorf("status %s", got)
		}
		if got := c.Call(200, "POST", "/v1/memory/search", query).Text; !strings.Contains(got, `"count":1`) {
			t.Errorf("not found: %s", got)
		}
		if got := c.Call(200, "POST", "/v1/memory/search", strings.Replace(query, "ann", "bob", 1)).Text; !strings.Contains(got, `"count":0`) {
			t.Errorf("found for another user: %s", got)
		}
	})
}

func TestSessionsAreExtractedEachTime(t *testing.T) {
	_, c := newServer(t, retaindb.Options{})
	const in = `{"project":"p","session_id":"s","user_id":"ann","messages":[{"role":"user","content":"My tea is green.","timestamp":"2026-11-27T10:00:00Z"},{"role":"assistant","content":"Noted.","timestamp":"2026-11-27T10:00:01Z"}],"write_mode":"sync"}`
	c.Call(200, "POST", "/v1/memory/ingest/session", in)
	c.Call(200, "POST", "/v1/memory/ingest/session", in)
	if got := c.Call(200, "GET", "/v1/memory/session/s?project=p", "").Text; !strings.Contains(got, `"count":2`) {
		t.Errorf("%s", got)
	}
	c.Call(400, "POST", "/v1/memory/ingest/session", strings.Replace(in, "2026-11-27T10:00:00Z", "2026-11-27", 1))
	for _, path := range []string{"/v1/memory/profile/ann?project=p&include_pending=true", "/v1/memories?project=p&user_id=ann&limit=200"} {
		if got := c.Call(200, "GET", path, "").Text; !strings.Contains(got, `"count":2`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := c.Call(200, "POST", "/v1/context/query", query).Text; !strings.Contains(got, `"context":"My tea is green.`) {
		t.Errorf("%s", got)
	}
}

func TestHostedAndOwnServerDiffer(t *testing.T) {
	_, hosted := newServer(t, retaindb.Options{})
	_, own := newServer(t, retaindb.Options{Own: true})
	for _, c := range []simtest.Caller{hosted, own} {
		c.Call(201, "POST", "/v1/memory", fact)
	}
	got := hosted.Call(200, "POST", "/v1/memory/profile/ann/ask", `{"project":"p","query":"tea","reasoning_level":"low"}`).Text
	if !strings.Contains(got, "green") {
		t.Errorf("%s", got)
	}
	own.Call(404, "POST", "/v1/memory/profile/ann/ask", `{}`)
	got = own.Call(200, "POST", "/v1/memory/dialectic", `{"project":"p","question":"tea","user_id":"ann"}`).Text
	if !strings.Contains(got, "green") {
		t.Errorf("%s", got)
	}
}

func TestMemoriesChange(t *testing.T) {
	s, c := newServer(t, retaindb.Options{Keys: []string{"k"}})
	c.Call(201, "POST", "/v1/memory", fact)
	id := s.Memories("p", "ann")[0].ID
	c.Call(200, "PUT", "/v1/memory/"+id, `{"content":"My tea is black.","reason":"changed"}`)
	if got := s.Memories("p", "ann")[0].Content; got != "My tea is black." {
		t.Errorf("%q", got)
	}
	c.Call(200, "DELETE", "/v1/memory/"+id, "")
	if got := c.Call(404, "DELETE", "/v1/memory/"+id, "").Text; !strings.Contains(got, "Memory not found") {
		t.Errorf("%s", got)
	}
	c.Call(400, "POST", "/v1/memory", strings.Replace(fact, "preference", "mood", 1))
	c.Call(400, "POST", "/v1/memory/search", `{"query":"tea"}`)
	c.Call(400, "POST", "/v1/memory/search", strings.Replace(query, "tea", strings.Repeat("𝄞", 2501), 1))
	c.With("X-API-Key", "").Call(401, "POST", "/v1/memory/search", query)
	c.Call(200, "POST", "/v1/memory/agent/hermes/seed", `{"project":"p","content":"You are kind.","source":"soul_md"}`)
	if got := c.Call(200, "GET", "/v1/memory/agent/hermes/model?project=p", "").Text; !strings.Contains(got, "You are kind.") {
		t.Errorf("%s", got)
	}
}

func TestFiles(t *testing.T) {
	s, c := newServer(t, retaindb.Options{})
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
	id := c.With("Content-Type", form.FormDataContentType()).Call(201, "POST", "/v1/files", body.String()).Field("file", "id")
	if got := c.Call(200, "GET", "/v1/files/"+id+"/content", "").Text; got != "tea notes" {
		t.Errorf("content %q", got)
	}
	if got := c.Call(200, "GET", "/v1/files?prefix=/docs/&limit=10", "").Text; !strings.Contains(got, id) {
		t.Errorf("%s", got)
	}
	c.Call(200, "GET", "/v1/files/"+id, "")
	c.Call(200, "POST", "/v1/files/"+id+"/ingest", `{"user_id":"ann","agent_id":"hermes"}`)
	if n := len(s.Memories("p", "ann")); n != 1 {
		t.Errorf("%d memories", n)
	}
	c.Call(200, "DELETE", "/v1/files/"+id, "")
	c.Call(404, "GET", "/v1/files/"+id, "")
	c.Call(400, "POST", "/v1/files", "no form")
}
