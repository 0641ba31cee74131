package openviking_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/openviking"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T) (*openviking.Server, simtest.Caller) {
	t.Helper()
	s := openviking.New(openviking.Options{Keys: []string{"k"}})
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"X-API-Key": "k"}}
}

const (
	said   = `{"messages":[{"role":"user","parts":[{"type":"text","text":"My tea is green."}]},{"role":"assistant","peer_id":"hermes","content":"Noted."}]}`
	search = `{"query":"which tea","limit":20,"score_threshold":0}`
)

func TestMemoriesComeWithTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t)
		c.Call(200, "POST", "/api/v1/sessions/s/messages/batch", said)
		time.Sleep(time.Hour)
		found := func() string { return c.Call(200, "POST", "/api/v1/search/find", search).Field("result", "total") }
		if got := found(); got != "0" {
			t.Errorf("%s found before a commit", got)
		}
		task := c.Call(200, "POST", "/api/v1/sessions/s/commit", `{"keep_recent_count":0}`).Field("result", "task_id")
		if got := c.Call(200, "POST", "/api/v1/sessions/s/commit", `{}`).Field("result", "reason"); got != "no_messages" {
			t.Errorf("second commit: %q", got)
		}
		status := func() string { return c.Call(200, "GET", "/api/v1/tasks/"+task, "").Field("result", "status") }
		if got := status(); got != "running" {
			t.Errorf("status %s", got)
		}
		time.Sleep(5 * time.Second)
		if got := status(); got != "completed" || found() != "1" {
			t.Errorf("status %s, %s found", got, found())
		}
		if got := c.Call(200, "GET", "/api/v1/sessions/s", ""); got.Field("result", "message_count") != "0" || got.Field("result", "total_message_count") != "2" {
			t.Errorf("%s", got.Text)
		}
		if got := s.Files("default", "k"); len(got) != 1 || got[0].Content != "My tea is green." {
			t.Errorf("files %+v", got)
		}
	})
}

func TestAFailedArchiveStopsLaterCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t)
		s.FailExtractions(1)
		for _, status := range []int{http.StatusOK, http.StatusPreconditionFailed} {
			c.Call(200, "POST", "/api/v1/sessions/s/messages", `{"role":"user","content":"tea"}`)
			c.Call(status, "POST", "/api/v1/sessions/s/commit", `{}`)
			time.Sleep(5 * time.Second)
		}
		if n := s.Total("default", "k", "s"); n != 2 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestTenants(t *testing.T) {
	s := openviking.New(openviking.Options{})
	t.Cleanup(s.Close)
	c := simtest.Caller{T: t, Server: s.Server}
	if got := c.Call(400, "POST", "/api/v1/search/find", search).Field("error", "message"); !strings.HasPrefix(got, "Trusted mode requests must include") {
		t.Errorf("%s", got)
	}
	c.Call(200, "GET", "/health", "")
	_, locked := newServer(t)
	locked = locked.With("X-API-Key", "other")
	if got := locked.Call(401, "GET", "/api/v1/system/status", "").Field("error", "code"); got != "UNAUTHENTICATED" {
		t.Errorf("code %s", got)
	}
}

func TestFiles(t *testing.T) {
	_, c := newServer(t)
	const uri = "viking://user/peers/hermes/memories/preferences/mem_0.md"
	write := func(status int, mode, content string) {
		t.Helper()
		c.Call(status, "POST", "/api/v1/content/write", `{"uri":"`+uri+`","content":"`+content+`","mode":"`+mode+`","wait":false}`)
	}
	write(200, "create", "tea")
	write(409, "create", "tea")
	write(200, "append", " is green")
	write(400, "merge", "")
	if got := c.Call(200, "GET", "/api/v1/content/read?uri="+uri, "").Field("result"); got != "tea is green" {
		t.Errorf("content %q", got)
	}
	c.Call(412, "GET", "/api/v1/content/overview?uri="+uri, "")
	if got := c.Call(200, "GET", "/api/v1/content/overview?uri=viking://user/peers", "").Field("result"); !strings.Contains(got, "mem_0.md") {
		t.Errorf("overview %q", got)
	}
	if got := c.Call(200, "GET", "/api/v1/fs/stat?uri="+uri, "").Field("result", "isDir"); got != "false" {
		t.Errorf("isDir %s", got)
	}
	if got := c.Call(200, "GET", "/api/v1/fs/ls?uri=viking://user", "").Field("result", 0, "uri"); got != uri {
		t.Errorf("listed %q", got)
	}
	c.Call(400, "GET", "/api/v1/content/read?uri=/etc/passwd", "")
	c.Call(200, "DELETE", "/api/v1/fs?uri="+uri, "")
	c.Call(404, "DELETE", "/api/v1/fs?uri="+uri, "")
}

func TestRefusals(t *testing.T) {
	_, c := newServer(t)
	for _, body := range []string{
		`{"messages":[]}`,
		`{"messages":[{"role":"system","content":"x"}]}`,
		`{"messages":[{"role":"user","content":"x","parts":[{"type":"text","text":"x"}]}]}`,
		`{"messages":[{"role":"user","parts":[{"type":"tool","tool_status":"done"}]}]}`,
		`{"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, 100) + `{"role":"user","content":"x"}]}`,
	} {
		c.Call(400, "POST", "/api/v1/sessions/s/messages/batch", body)
	}
	c.Call(404, "GET", "/api/v1/sessions/s", "")
	c.Call(200, "GET", "/api/v1/sessions/s?auto_create=true", "")
	c.Call(400, "POST", "/api/v1/search/find", `{"query":"tea","session_id":"s"}`)
	c.Call(200, "POST", "/api/v1/search/search", `{"query":"tea","session_id":"s"}`)
	c.Call(400, "POST", "/api/v1/search/find", `{"query":"tea","unknown":1}`)
	c.Call(200, "DELETE", "/api/v1/sessions/s", "")
}
