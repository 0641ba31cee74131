package honcho_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, o honcho.Options) (*honcho.Server, simtest.Caller) {
	t.Helper()
	s := honcho.New(o)
	t.Cleanup(s.Close)
	return s, simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
}

// open creates a session of ann and hermes, who observes ann.
func open(c simtest.Caller) {
	c.T.Helper()
	c.Call(200, "POST", "/v3/workspaces", `{"id":"w"}`)
	c.Call(200, "POST", "/v3/workspaces/w/sessions", `{"id":"s","peers":{"ann":{"observe_me":true},"hermes":{"observe_me":false,"observe_others":true}}}`)
}

const said = `{"messages":[{"content":"My tea is green.","peer_id":"ann","metadata":{"turn":"t-1"}},{"content":"Noted.","peer_id":"hermes"}]}`

func TestReasoningTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, honcho.Options{})
		open(c)
		c.Call(201, "POST", "/v3/workspaces/w/sessions/s/messages", said)
		ask := func(peer, about string) string {
			return c.Call(200, "POST", "/v3/workspaces/w/peers/"+peer+"/chat", `{"query":"which tea?","target":"`+about+`"}`).Field("content")
		}
		if got := ask("hermes", "ann"); got != "" {
			t.Errorf("known at once: %q", got)
		}
		if got := c.Call(200, "GET", "/v3/workspaces/w/queue/status", "").Field("pending_work_units"); got != "2" {
			t.Errorf("%s pending", got) // ann's own conclusion, and that of hermes
		}
		time.Sleep(5 * time.Second)
		if got := ask("hermes", "ann"); got != "- My tea is green.\n" {
			t.Errorf("answer %q", got)
		}
		if got := ask("hermes", "bob"); got != "" {
			t.Errorf("known of another person: %q", got)
		}
		if n := len(s.Conclusions("w", "ann", "hermes")); n != 0 {
			t.Errorf("ann does not observe others, but has %d conclusions", n)
		}
		if got := c.Call(200, "GET", "/v3/workspaces/w/peers/hermes/context?target=ann&search_query=tea", "").Field("representation"); !strings.Contains(got, "green") {
			t.Errorf("representation %q", got)
		}
	})
}

func TestMessagesAreFoundByMetadata(t *testing.T) {
	s, c := newServer(t, honcho.Options{Keys: []string{"k"}})
	open(c)
	c.Call(201, "POST", "/v3/workspaces/w/sessions/s/messages", said)
	c.Call(201, "POST", "/v3/workspaces/w/sessions/s/messages", said) // no key: doubled
	if n := len(s.Messages("w", "s")); n != 4 {
		t.Errorf("%d messages", n)
	}
	for filter, want := range map[string]string{
		`{"metadata":{"turn":"t-1"}}`:                               "2",
		`{"metadata":{"turn":"t-2"}}`:                               "0",
		`{"peer_id":"hermes"}`:                                      "2",
		`{"content":{"icontains":"TEA"}}`:                           "2",
		`{"NOT":[{"peer_id":"ann"}]}`:                               "2",
		`{"OR":[{"peer_id":"ann"},{"peer_id":"hermes"}]}`:           "4",
		`{"AND":[{"peer_id":"ann"},{"content":{"contains":"No"}}]}`: "0",
		`{"peer_id":{"in":["ann","bob"]}}`:                          "2",
		`{"created_at":{"gte":"2020-01-01"}}`:                       "4",
		`{"peer_id":"*"}`:                                           "4",
	} {
		if got := c.Call(200, "POST", "/v3/workspaces/w/sessions/s/messages/list", `{"filters":`+filter+`}`).Field("total"); got != want {
			t.Errorf("filter %s: %s messages, want %s", filter, got, want)
		}
	}
	page := c.Call(200, "POST", "/v3/workspaces/w/sessions/s/messages/list?page=2&size=3", `{}`)
	if page.Field("pages") != "2" || page.Field("items", 0, "content") != "Noted." || page.Field("items", 1) != "" {
		t.Errorf("page %s", page.Text)
	}
	if got := c.Call(200, "POST", "/v3/workspaces/w/peers/ann/search", `{"query":"tea"}`); got.Field(0, "content") != "My tea is green." {
		t.Errorf("search %s", got.Text)
	}
}

func TestObservationOfTheServerHolds(t *testing.T) {
	_, c := newServer(t, honcho.Options{})
	open(c)
	c.Call(200, "PUT", "/v3/workspaces/w/sessions/s/peers/ann/config", `{"observe_me":false}`)
	open(c) // asks for observe_me: true
	if got := c.Call(200, "GET", "/v3/workspaces/w/sessions/s/peers/ann/config", ""); got.Field("observe_me") != "false" || got.Field("observe_others") != "false" {
		t.Errorf("%s", got.Text)
	}
	c.Call(200, "PUT", "/v3/workspaces/w/sessions/s/peers", `{"bob":{}}`)
	c.Call(404, "GET", "/v3/workspaces/w/sessions/s/peers/ann/config", "")
}

func TestConclusionsAndCards(t *testing.T) {
	s, c := newServer(t, honcho.Options{})
	made := c.Call(201, "POST", "/v3/workspaces/w/conclusions", `{"conclusions":[{"content":"likes tea","observer_id":"hermes","observed_id":"ann","session_id":null}]}`)
	if got := c.Call(200, "POST", "/v3/workspaces/w/conclusions/query", `{"query":"tea","filters":{"observer_id":"hermes","observed_id":"ann"}}`); got.Field(0, "content") != "likes tea" {
		t.Errorf("%s", got.Text)
	}
	c.Call(422, "POST", "/v3/workspaces/w/conclusions/query", `{"query":"tea"}`)
	if got := c.Call(200, "POST", "/v3/workspaces/w/conclusions/list", `{"filters":{"observed_id":"ann"}}`).Field("total"); got != "1" {
		t.Errorf("%s listed", got)
	}
	c.Call(204, "DELETE", "/v3/workspaces/w/conclusions/"+made.Field(0, "id"), "")
	c.Call(404, "DELETE", "/v3/workspaces/w/conclusions/"+made.Field(0, "id"), "")
	if n := len(s.Conclusions("w", "hermes", "ann")); n != 0 {
		t.Errorf("%d left", n)
	}
	c.Call(200, "PUT", "/v3/workspaces/w/peers/hermes/card?target=ann", `{"peer_card":["likes tea"]}`)
	if got := c.Call(200, "GET", "/v3/workspaces/w/peers/hermes/card?target=ann", ""); got.Field("peer_card", 0) != "likes tea" {
		t.Errorf("%s", got.Text)
	}
	if got := c.Call(200, "GET", "/v3/workspaces/w/peers/hermes/card?target=bob", ""); got.Field("peer_card") != "" {
		t.Errorf("%s", got.Text)
	}
}

func TestDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, honcho.Options{})
		open(c)
		c.Call(201, "POST", "/v3/workspaces/w/sessions/s/messages", said)
		c.Call(201, "POST", "/v3/workspaces/w/conclusions", `{"conclusions":[{"content":"derived","observer_id":"hermes","observed_id":"ann"}]}`)
		time.Sleep(5 * time.Second)
		if got := c.Call(409, "DELETE", "/v3/workspaces/w", "").Field("detail"); !strings.Contains(got, "active session(s) remain") {
			t.Errorf("%s", got)
		}
		c.Call(202, "DELETE", "/v3/workspaces/w/sessions/s", "")
		if n, left := len(s.Messages("w", "s")), s.Conclusions("w", "hermes", "ann"); n != 0 || len(left) != 1 || left[0].Content != "derived" {
			t.Errorf("%d messages, conclusions %v", n, left) // those of no session survive
		}
		c.Call(202, "DELETE", "/v3/workspaces/w", "")
	})
}

func TestRefusals(t *testing.T) {
	_, c := newServer(t, honcho.Options{Keys: []string{"k"}})
	c.Call(422, "POST", "/v3/workspaces", `{"id":"no spaces"}`)
	c.Call(422, "POST", "/v3/workspaces/w/sessions/s/messages", `{"messages":[]}`)
	c.Call(422, "POST", "/v3/workspaces/w/sessions/s/messages", `{"messages":[{"content":"`+strings.Repeat("x", 25_001)+`","peer_id":"ann"}]}`)
	c.Call(422, "POST", "/v3/workspaces/w/sessions/s/messages", `{"messages":[{"content":"x","peer":"ann"}]}`)
	c.Call(422, "POST", "/v3/workspaces/w/peers/ann/chat", `{"query":"x","reasoning_level":"huge"}`)
	c.Call(404, "GET", "/v3/nothing", "")
	c = c.With("Authorization", "Bearer other")
	c.Call(401, "POST", "/v3/workspaces", `{"id":"w"}`)
}

func TestChatThinksAndStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newServer(t, honcho.Options{Think: 3 * time.Second})
		c.Call(201, "POST", "/v3/workspaces/w/conclusions", `{"conclusions":[{"content":"likes tea","observer_id":"ann","observed_id":"ann"}]}`)
		start := time.Now()
		got := c.Call(200, "POST", "/v3/workspaces/w/peers/ann/chat", `{"query":"tea","stream":true}`).Text
		if want := "data: {\"delta\":{\"content\":\"- likes tea\"},\"done\":false}\n\ndata: {\"delta\":{},\"done\":true}\n\n"; got != want {
			t.Errorf("stream %q", got)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
}

func TestSessionsOfAPeer(t *testing.T) {
	_, c := newServer(t, honcho.Options{})
	open(c)
	c.Call(200, "POST", "/v3/workspaces/w/sessions", `{"id":"a","peers":{"ann":{}}}`)
	c.Call(200, "POST", "/v3/workspaces/w/sessions", `{"id":"b","peers":{"bob":{}}}`)
	if got := c.Call(200, "POST", "/v3/workspaces/w/peers/ann/sessions", `{}`); got.Field("total") != "2" || got.Field("items", 0, "id") != "a" || got.Field("items", 1, "id") != "s" {
		t.Errorf("%s", got.Text)
	}
	c.Call(202, "DELETE", "/v3/workspaces/w/sessions/a", "")
	if got := c.Call(200, "POST", "/v3/workspaces/w/peers/ann/sessions", `{"filters":{}}`); got.Field("total") != "1" {
		t.Errorf("%s", got.Text)
	}
	made := c.Call(201, "POST", "/v3/workspaces/w/conclusions", `{"conclusions":[{"content":"likes tea","observer_id":"hermes","observed_id":"ann"}]}`)
	if got := c.Call(200, "GET", "/v3/workspaces/w/conclusions/"+made.Field(0, "id"), ""); got.Field("observed_id") != "ann" {
		t.Errorf("%s", got.Text)
	}
	c.Call(404, "GET", "/v3/workspaces/w/conclusions/none", "")
}

func TestRefreshTokensAreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newServer(t, honcho.Options{})
		access, refresh, ends := s.Grant()
		with := func(key string) simtest.Caller { return c.With("Authorization", "Bearer "+key) }
		with(access).Call(200, "POST", "/v3/workspaces", `{"id":"w"}`)
		if time.Until(ends) != time.Hour {
			t.Errorf("ends %v", ends)
		}
		form := c.With("Content-Type", "application/x-www-form-urlencoded")
		form.Header["Authorization"] = ""
		body := "grant_type=refresh_token&client_id=hermes-agent&refresh_token="
		got := form.Call(200, "POST", "/oauth/token", body+refresh)
		with(access).Call(401, "POST", "/v3/workspaces", `{"id":"w"}`)
		with(got.Field("access_token")).Call(200, "POST", "/v3/workspaces", `{"id":"w"}`)
		time.Sleep(time.Hour)
		with(got.Field("access_token")).Call(401, "POST", "/v3/workspaces", `{"id":"w"}`)
		newest := form.Call(200, "POST", "/oauth/token", body+got.Field("refresh_token"))
		form.Call(400, "POST", "/oauth/token", body+refresh) // the second use ends the grant
		with(newest.Field("access_token")).Call(401, "POST", "/v3/workspaces", `{"id":"w"}`)
		form.Call(400, "POST", "/oauth/token", body+newest.Field("refresh_token"))
	})
}
