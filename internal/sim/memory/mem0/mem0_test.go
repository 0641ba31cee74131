package mem0_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/mem0"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func cloud(t *testing.T) (*mem0.Server, simtest.Caller) {
	t.Helper()
	s := mem0.New(mem0.Options{Keys: []string{"k"}})
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Token k"}}
}

const said = `{"messages":[{"role":"user","content":"My tea is green."},{"role":"assistant","content":"Noted."}],"user_id":"ann","agent_id":"hermes","infer":true,"metadata":{"channel":"telegram"}}`

func TestCloudExtractsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := cloud(t)
		event := c.Call(200, "POST", "/v3/memories/add/", said).Field("event_id")
		search := func(user string) string {
			return c.Call(200, "POST", "/v3/memories/search/", `{"query":"which tea","filters":{"user_id":"`+user+`"},"top_k":10,"threshold":0.1}`).Text
		}
		if got := search("ann"); got != "{\"results\":[]}\n" {
			t.Errorf("found before the event was processed: %s", got)
		}
		if got := c.Call(200, "GET", "/v1/event/"+event+"/", "").Field("status"); got != "PENDING" {
			t.Errorf("status %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := c.Call(200, "GET", "/v1/event/"+event+"/", ""); got.Field("status") != "SUCCEEDED" || got.Field("results", 0, "data", "memory") != "My tea is green." {
			t.Errorf("event: %s", got.Text)
		}
		if got := search("ann"); !strings.Contains(got, "My tea is green.") {
			t.Errorf("not found: %s", got)
		}
		if got := search("bob"); strings.Contains(got, "tea") {
			t.Errorf("found for another user: %s", got)
		}
		c.Call(200, "POST", "/v3/memories/add/", said) // merged by extraction
		c.Call(200, "POST", "/v3/memories/add/", strings.Replace(said, "true", "false", 1))
		time.Sleep(2 * time.Second)
		if n := len(s.Memories("ann")); n != 3 {
			t.Errorf("%d memories after a repetition with and one without extraction, want 1 + 2", n)
		}
	})
}

func TestCloudEventsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := cloud(t)
		s.FailEvents(1)
		event := c.Call(200, "POST", "/v3/memories/add/", said).Field("event_id")
		time.Sleep(2 * time.Second)
		if got := c.Call(200, "GET", "/v1/event/"+event+"/", "").Field("status"); got != "FAILED" || len(s.Memories("ann")) != 0 {
			t.Errorf("status %s, memories %v", got, s.Memories("ann"))
		}
	})
}

func TestCloudRefuses(t *testing.T) {
	s, c := cloud(t)
	c.Call(200, "GET", "/v1/ping/", "")
	c.Call(400, "POST", "/v3/memories/search/", `{"query":"tea","user_id":"ann"}`)
	c.Call(400, "POST", "/v3/memories/add/", `{"messages":[],"user_id":"ann"}`)
	if got := c.Call(400, "DELETE", "/v1/memories/7/", ""); got.Field("error") != "memory_id should be a valid UUID" {
		t.Errorf("%s", got.Text)
	}
	c.Call(404, "DELETE", "/v1/memories/00000000-0000-4000-8000-000000000000/", "")
	c.Call(200, "POST", "/v3/memories/add/", strings.Replace(said, "true", "false", 1))
	id := s.Memories("ann")[0].ID
	c.Call(200, "PUT", "/v1/memories/"+id+"/", `{"text":"My tea is black."}`)
	if got := s.Memories("ann")[0].Text; got != "My tea is black." {
		t.Errorf("memory %q", got)
	}
	c.Call(200, "DELETE", "/v1/memories/"+id+"/", "")
	c.Call(200, "DELETE", "/v1/memories/?user_id=ann", "")
	if n := len(s.Memories("ann")); n != 0 {
		t.Errorf("%d memories left", n)
	}
	c = c.With("Authorization", "Token other")
	c.Call(401, "GET", "/v1/ping/", "")
}

func TestOwnServer(t *testing.T) {
	s := mem0.New(mem0.Options{Own: true, Keys: []string{"k"}})
	t.Cleanup(s.Close)
	c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"X-API-Key": "k"}}
	c.Call(404, "GET", "/v1/ping/", "")
	if got := c.Call(200, "POST", "/memories", said); got.Field("results", 0, "memory") != "My tea is green." {
		t.Errorf("%s", got.Text)
	}
	if got := c.Call(200, "POST", "/search", `{"query":"tea","filters":{"user_id":"ann"},"top_k":3}`); got.Field("results", 0, "memory") != "My tea is green." {
		t.Errorf("%s", got.Text)
	}
	c.Call(400, "DELETE", "/memories", "")
	c.Call(200, "DELETE", "/memories?user_id=ann", "")
	if n := len(s.Memories("ann")); n != 0 {
		t.Errorf("%d memories left", n)
	}
	c.Header = map[string]string{"Authorization": "Token k"}
	if got := c.Call(401, "POST", "/search", "{}"); got.Field("detail") == "" {
		t.Errorf("%s", got.Text)
	}
}
