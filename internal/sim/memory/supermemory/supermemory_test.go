package supermemory_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/simtest"
	"hermesd/internal/sim/memory/supermemory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, o supermemory.Options) (*supermemory.Server, simtest.Caller) {
	t.Helper()
	s := supermemory.New(o)
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
}

const (
	conversation = `{"conversationId":"c","messages":[{"role":"user","content":"My tea is green."},{"role":"assistant","content":"Noted."}],"containerTags":["hermes"],"metadata":{"type":"full_session","message_count":2}}`
	search       = `{"q":"which tea","containerTag":"hermes","limit":5,"searchMode":"hybrid"}`
)

func TestConversationsAreFoundMinutesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, supermemory.Options{})
		id := c.Call(200, "POST", "/v4/conversations", conversation).Field("id")
		found := func(in string) string { return c.Call(200, "POST", "/v4/search", in).Field("total") }
		if got := found(search); got != "0" {
			t.Errorf("%s found at once", got)
		}
		time.Sleep(90 * time.Second)
		if got := c.Call(200, "GET", "/v3/documents/"+id, "").Field("status"); got != "done" || found(search) != "1" {
			t.Errorf("status %s, %s found", got, found(search))
		}
		if got := found(strings.Replace(search, "hermes", "other", 1)); got != "0" {
			t.Errorf("%s found under another tag", got)
		}
		c.Call(200, "POST", "/v4/conversations", strings.Replace(conversation, `],"containerTags"`, `,{"role":"user","content":"My coffee is black."}],"containerTags"`, 1))
		time.Sleep(90 * time.Second)
		if got := s.Memories("hermes"); len(got) != 2 { // the first message is recognised
			t.Errorf("memories %+v", got)
		}
		if got := c.Call(200, "POST", "/v4/profile", `{"containerTag":"hermes","q":"coffee"}`); got.Field("searchResults", "results", 0, "memory") != "My coffee is black." || got.Field("profile", "dynamic", 1) == "" {
			t.Errorf("%s", got.Text)
		}
		c.Call(204, "DELETE", "/v3/documents/c", "")
		if n := len(s.Memories("hermes")); n != 0 {
			t.Errorf("%d memories left", n)
		}
	})
}

func TestDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, supermemory.Options{})
		add := func(content, more string) string {
			t.Helper()
			return c.Call(200, "POST", "/v3/documents", `{"content":"`+content+`","containerTag":"hermes","metadata":{"type":"explicit_memory"}`+more+`}`).Field("id")
		}
		first := add("tea is green", `,"customId":"d","dreaming":"instant"`)
		time.Sleep(9 * time.Second)
		if got := c.Call(200, "POST", "/v4/profile", `{"containerTag":"hermes"}`).Field("profile", "static", 0); got != "tea is green" {
			t.Errorf("static %q", got)
		}
		if second := add("tea is black", `,"customId":"d"`); second != first {
			t.Errorf("a repeated customId made another document")
		}
		time.Sleep(90 * time.Second)
		m := s.Memories("hermes")
		if len(m) != 1 || m[0].Text != "tea is black" {
			t.Fatalf("memories %+v", m)
		}
		c.Call(200, "PATCH", "/v4/memories", `{"containerTag":"hermes","id":"`+m[0].ID+`","newContent":"tea is white"}`)
		if got := c.Call(200, "DELETE", "/v4/memories", `{"containerTag":"hermes","content":"tea is white"}`).Field("forgotten"); got != "true" {
			t.Errorf("forgotten %s", got)
		}
		c.Call(404, "DELETE", "/v4/memories", `{"containerTag":"hermes","content":"tea is white"}`)

		s.FailDocuments(1)
		failed := add("lost", "")
		time.Sleep(90 * time.Second)
		if got := c.Call(200, "GET", "/v3/documents/"+failed, "").Field("status"); got != "failed" {
			t.Errorf("status %s", got)
		}
		time.Sleep(2 * time.Minute)
		c.Call(404, "GET", "/v3/documents/"+failed, "")
	})
}

func TestDocumentsAreListedAndDeleted(t *testing.T) {
	s, c := newServer(t, supermemory.Options{Process: time.Nanosecond})
	for _, tag := range []string{"a", "b"} {
		for range 3 {
			c.Call(200, "POST", "/v3/documents", `{"content":"tea","containerTag":"`+tag+`","metadata":{"session_id":"s"}}`)
		}
	}
	list := func(page string) simtest.Answer {
		return c.Call(200, "POST", "/v3/documents/list", `{"containerTags":["a"],"limit":2,"page":`+page+`}`)
	}
	second := list("2")
	if second.Field("pagination", "totalPages") != "2" || second.Field("memories", 0, "metadata", "session_id") != "s" || second.Field("memories", 1) != "" || list("3").Field("memories", 0) != "" {
		t.Errorf("%s", second.Text)
	}
	c.Call(200, "DELETE", "/v3/documents/bulk", `{"ids":["`+second.Field("memories", 0, "id")+`","unknown"]}`)
	if a, b := len(s.Memories("a")), len(s.Memories("b")); a != 2 || b != 3 {
		t.Errorf("%d and %d memories", a, b)
	}
	if got := c.Call(200, "DELETE", "/v3/documents/bulk", `{"containerTags":["a"]}`).Field("deletedCount"); got != "2" || len(s.Memories("a")) != 0 {
		t.Errorf("%s deleted", got)
	}
	c.Call(400, "DELETE", "/v3/documents/bulk", `{}`)
	c.Call(400, "POST", "/v3/documents/list", `{"limit":201}`)
}

func TestRefusals(t *testing.T) {
	_, c := newServer(t, supermemory.Options{Keys: []string{"k"}, Tags: map[string][]string{"k": {"hermes"}}})
	c.Call(403, "POST", "/v4/search", strings.Replace(search, `"hermes"`, `"other"`, 1))
	c.Call(400, "POST", "/v4/search", strings.Replace(search, `"hermes"`, `"a:b"`, 1))
	c.Call(400, "POST", "/v4/search", `{"q":"tea","containerTags":["hermes"]}`) // the plural
	c.Call(400, "POST", "/v3/documents", `{"content":"x","containerTag":"hermes","metadata":{"a":{"b":1}}}`)
	c.Call(400, "POST", "/v4/conversations", strings.Replace(conversation, `"user"`, `"person"`, 1))
	c.Call(400, "POST", "/v4/conversations", strings.Replace(conversation, `"c"`, `"`+strings.Repeat("c", 256)+`"`, 1))
	c = c.With("Authorization", "Bearer other")
	c.Call(401, "POST", "/v4/search", search)
}
