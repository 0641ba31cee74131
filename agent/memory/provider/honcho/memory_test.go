package honcho_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/simtest"
)

// start returns a new server and a provider with a file of configuration.
func start(t *testing.T, file string) (*sim.Server, provider.Provider) {
	t.Helper()
	s := newServer(t, sim.Options{})
	return s, open(t, file, s.Client(), "HONCHO_BASE_URL", s.URL, "HONCHO_API_KEY", "k")
}

func sync(t *testing.T, p provider.Provider, events ...provider.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := p.Sync(t.Context(), e); err != nil {
			t.Fatalf("%s: %v", e.Kind, err)
		}
	}
}

const ownerKey, ownerID = "agent-main-telegram-dm-8439114563", "8439114563"

// chats returns the queries of all calls of chat so far, with their levels.
func chats(s *sim.Server) (list []string) {
	for _, c := range s.Calls() {
		if strings.HasSuffix(c.Path, "/chat") {
			var in struct {
				Query, Target string
				Level         string `json:"reasoning_level"`
			}
			_ = json.Unmarshal(c.Body, &in) // seen below
			list = append(list, in.Level+" about "+in.Target)
		}
	}
	return list
}

func TestLongMessagesAreCut(t *testing.T) {
	s, p := start(t, `{"messageMaxChars":1000}`)
	text := strings.Repeat("ü", 2500)
	e := turn("e1", providertest.Owner("c1"), text)
	sync(t, p, e)
	got, joined := s.Messages("hermes", ownerKey), ""
	for i, m := range got {
		part, cut := strings.CutPrefix(m.Content, "[continued] ")
		if utf8.RuneCountInString(m.Content) > 1000 || cut != (i == 1 || i == 2) || m.Metadata["hermes_event"] != "e1" || m.Metadata["hermes_session"] != "c1" {
			t.Errorf("message %d: %d characters, %+v", i, utf8.RuneCountInString(m.Content), m.Metadata)
		}
		joined += part
	}
	if len(got) != 4 || joined != text+"Noted." {
		t.Errorf("%d messages", len(got))
	}
	if ok, err := p.Synced(t.Context(), e, provider.Receipt{}); !ok || err != nil {
		t.Errorf("synced %v, %v", ok, err)
	}
}

func TestNothingIsSavedIfTheFileSaysSo(t *testing.T) {
	s, p := start(t, `{"saveMessages":false}`)
	e := turn("e1", providertest.Owner("c1"), "Hello.")
	sync(t, p, e)
	if ok, err := p.Synced(t.Context(), e, provider.Receipt{}); !ok || err != nil || len(s.Calls()) != 0 {
		t.Errorf("synced %v, %v, %d calls", ok, err, len(s.Calls()))
	}
}

func TestObservationOfTheServerHolds(t *testing.T) {
	s, p := start(t, `{}`)
	c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
	c.Call(200, "POST", "/v3/workspaces/hermes/sessions", `{"id":"`+ownerKey+`","peers":{"hermes":{"observe_others":false}}}`)
	owner := providertest.Owner("c1")
	sync(t, p, providertest.Added(1, owner, "Likes papaya."))
	if n := len(s.Conclusions("hermes", ownerID, ownerID)); n != 1 {
		t.Errorf("%d conclusions of the person, %v of the AI", n, s.Conclusions("hermes", "hermes", ownerID))
	}
	if _, err := p.Recall(t.Context(), owner, "papaya"); err != nil || chats(s)[0] != "low about " {
		t.Errorf("%v, %q", err, chats(s))
	}
}

func TestReasoningIsAskedAsTheFileSays(t *testing.T) {
	long := strings.Repeat("What about tea? ", 10)
	for file, want := range map[string]string{
		`{}`:                                  "low about X,medium about X,high about X,low about X",
		`{"dialecticCadence":"3"}`:            "low about X,low about X",
		`{"injectionFrequency":"first-turn"}`: "low about X",
		`{"dialecticReasoningLevel":"medium","reasoningLevelCap":"medium"}`: "medium about X,medium about X,medium about X,medium about X",
		`{"reasoningHeuristic":false,"dialecticReasoningLevel":"minimal"}`:  "minimal about X,minimal about X,minimal about X,minimal about X",
	} {
		s, p := start(t, file)
		for _, query := range []string{"Tea?", long, strings.Repeat(long, 4), "Tea!"} {
			if _, err := p.Recall(t.Context(), providertest.Owner("c1"), query); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.ReplaceAll(strings.Join(chats(s), ","), ownerID, "X"); got != want {
			t.Errorf("%s: %s", file, got)
		}
		sync(t, p, provider.Event{Key: "x", Kind: provider.End, Scope: providertest.Owner("c1")})
		before := len(chats(s))
		if _, err := p.Recall(t.Context(), providertest.Owner("c1"), "Tea?"); err != nil || len(chats(s)) != before+1 {
			t.Errorf("%s: not asked in a conversation that began again: %v", file, err)
		}
	}
}

func TestItemsOfARecall(t *testing.T) {
	s, p := start(t, `{"dialecticMaxChars":20,"contextTokens":10}`)
	c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
	for _, fact := range []string{`Likes jasmine.\n\n## Heading`, "Grows jasmine.", "Jasmine that is beyond the budget of forty characters."} {
		c.Call(201, "POST", "/v3/workspaces/hermes/conclusions", `{"conclusions":[{"content":"`+fact+`","observer_id":"hermes","observed_id":"`+ownerID+`"}]}`)
	}
	items, err := p.Recall(t.Context(), providertest.Owner("c1"), "jasmine")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range items {
		got = append(got, i.Text)
	}
	if want := "- Jasmine that is be…|Likes jasmine.|Grows jasmine."; strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

func TestALongQueryIsCut(t *testing.T) {
	s, p := start(t, `{"dialecticMaxInputChars":2000}`)
	if _, err := p.Recall(t.Context(), providertest.Owner("c1"), strings.Repeat("世", 20_000)); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Calls() {
		var in struct{ Query string }
		_ = json.Unmarshal(c.Body, &in) // empty without a body
		if n, m := len(c.Query.Encode()), utf8.RuneCountInString(in.Query); n > 8000 || m > 2000 {
			t.Errorf("%s: %d bytes in the address, %d characters in the body", c.Path, n, m)
		}
	}
}

func TestStandingText(t *testing.T) {
	const all = "## Session Summary\nThey talked about: Tea 0\n\n## User Representation\n- Likes papaya.\n\n## User Peer Card\nName: Ann\nCity: Rome"
	const ai = "\n\n## AI Self-Representation\n- Is brief.\n\n## AI Identity Card\nBrief"
	for _, test := range []struct {
		file string
		want string
	}{
		{`{}`, all + ai},
		{`{"injection":{"sessionStart":["peerCard"]}}`, "## User Peer Card\nName: Ann\nCity: Rome"},
		{`{"injection":{"sessionStart":"all"},"contextTokens":10}`, all[:36] + "al"},
	} {
		s, p := start(t, test.file)
		c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
		owner := providertest.Owner("c1")
		for i := range 10 {
			sync(t, p, turn(fmt.Sprint(i), owner, fmt.Sprintf("Tea %d", i)))
		}
		sync(t, p, providertest.Added(1, owner, "Likes papaya."))
		c.Call(201, "POST", "/v3/workspaces/hermes/conclusions", `{"conclusions":[{"content":"Is brief.","observer_id":"hermes","observed_id":"hermes"}]}`)
		c.Call(200, "PUT", "/v3/workspaces/hermes/peers/hermes/card?target="+ownerID, `{"peer_card":["Name: Ann","City: Rome"]}`)
		c.Call(200, "PUT", "/v3/workspaces/hermes/peers/hermes/card", `{"peer_card":["Brief"]}`)
		got, err := p.Standing(t.Context(), owner)
		if strings.Contains(test.file, "contextTokens") {
			if n := utf8.RuneCountInString(got); err != nil || n > 40 || !strings.HasPrefix(all, strings.TrimSuffix(got, "…")) {
				t.Errorf("%s: %d characters, %q, %v", test.file, n, got, err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %v\n%s", test.file, err, got)
		}
		if got, err := p.Standing(t.Context(), providertest.Other("c2")); err != nil || got != "" {
			t.Errorf("another person: %q, %v", got, err)
		}
	}
}

func TestForgetOneConversationOfAChat(t *testing.T) {
	s, p := start(t, `{}`)
	sync(t, p, turn("1", providertest.Owner("c1"), "One."), turn("2", providertest.Owner("c2"), "Two."))
	_, err := p.Sync(t.Context(), provider.Event{Key: "f", Kind: provider.Forget, Scope: providertest.Owner("c1")})
	if provider.ClassOf(err) != provider.Refused || len(s.Messages("hermes", ownerKey)) != 4 {
		t.Errorf("%v, %d messages are left", err, len(s.Messages("hermes", ownerKey)))
	}
}

func TestForgetAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := start(t, `{}`)
		c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
		owner, other := providertest.Owner("c1"), providertest.Other("c2")
		sync(t, p, turn("1", owner, "One."), turn("2", other, "Two."))
		for i := range 120 { // more than a page
			sync(t, p, providertest.Added(i, owner, fmt.Sprintf("Fact %d.", i)))
		}
		c.Call(200, "PUT", "/v3/workspaces/hermes/peers/hermes/card?target="+ownerID, `{"peer_card":["Ann"]}`)
		time.Sleep(10 * time.Second)
		forget := provider.Event{Key: "f", Kind: provider.Forget, Scope: owner}
		forget.Scope.Session = ""
		sync(t, p, forget)
		if n, m := len(s.Conclusions("hermes", "hermes", ownerID))+len(s.Conclusions("hermes", ownerID, ownerID)), len(s.Messages("hermes", ownerKey)); n+m != 0 {
			t.Errorf("%d conclusions and %d messages are left", n, m)
		}
		if got := c.Call(200, "GET", "/v3/workspaces/hermes/peers/hermes/card?target="+ownerID, "").Field("peer_card"); got != "[]" {
			t.Errorf("card %s", got)
		}
		if n := len(s.Messages("hermes", other.Key)); n != 2 {
			t.Errorf("%d messages of another person are left", n)
		}
		c.Call(201, "POST", "/v3/workspaces/hermes/sessions/shared/messages", `{"messages":[{"content":"x","peer_id":"`+ownerID+`"},{"content":"y","peer_id":"bob"}]}`)
		if _, err := p.Sync(t.Context(), forget); provider.ClassOf(err) != provider.Refused || len(s.Messages("hermes", "shared")) != 2 {
			t.Errorf("a session with another person: %v", err)
		}
		sync(t, p, turn("3", owner, "Again.")) // the session is made again
	})
}

func TestASessionThatWasDeletedElsewhere(t *testing.T) {
	s, p := start(t, `{}`)
	sync(t, p, turn("1", providertest.Owner("c1"), "One."))
	s.Inject(memory.Fault{Kind: memory.Refuse, Status: 404, Path: "/messages"})
	if _, err := p.Sync(t.Context(), turn("2", providertest.Owner("c1"), "Two.")); provider.ClassOf(err) != provider.Refused {
		t.Errorf("%v", err)
	}
	before := s.Count("POST", "/v3/workspaces/hermes/sessions")
	sync(t, p, turn("2", providertest.Owner("c1"), "Two."))
	if s.Count("POST", "/v3/workspaces/hermes/sessions") != before+1 {
		t.Error("the session was not made again")
	}
}

func TestAFactWithoutItsID(t *testing.T) {
	s, p := start(t, `{}`)
	owner := providertest.Owner("c1")
	sync(t, p, providertest.Added(1, owner, "Likes papaya."), providertest.Added(2, owner, "Likes melon."))
	e := providertest.Added(3, owner, " Likes papaya. ")
	e.Kind = provider.Removed
	sync(t, p, e)
	if left := s.Conclusions("hermes", "hermes", ownerID); len(left) != 1 || left[0].Content != "Likes melon." {
		t.Errorf("left %+v", left)
	}
}

func FuzzAnswers(f *testing.F) {
	providertest.FuzzAnswers(f, func(t *testing.T, transport http.RoundTripper) provider.Provider {
		return open(t, `{}`, &http.Client{Transport: transport}, "HONCHO_API_KEY", "k")
	}, inputs, `{"id":"x","items":[{"id":"a","content":"b"}],"total":3,"pages":99}`, `{"content":null,"representation":"- x\n- y","peer_card":["a"],"summary":{"content":"s"},"messages":[{"content":"m"}],"observe_others":true}`, `[{"id":"c"}]`)
}

func FuzzFile(f *testing.F) {
	providertest.FuzzFile(f, func(t *testing.T, file string, transport http.RoundTripper) (provider.Provider, error) {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "honcho.json"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: func(name string) string { return map[string]string{"HONCHO_API_KEY": "k"}[name] }, HTTP: &http.Client{Transport: transport}})
		return p, err
	}, inputs,
		`{"hosts":{"hermes":{"apiKey":"hch-at-x","oauth":{"refreshToken":"r","expiresAt":1,"clientId":"c","tokenEndpoint":"http://localhost/t"}}}}`,
		`{"hosts":{"hermes":{"peerName":"a b","pinUserPeer":true,"userPeerAliases":{"1":"x"}}},"injection":{"sessionStart":["peerCard"]},"dialecticMaxChars":-1,"contextTokens":3}`,
		`{"baseUrl":"http://127.0.0.1:8000/v3","timeout":"1e9","observation":{"user":{"observeMe":7}}}`)
}
