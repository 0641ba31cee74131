package sessionlibrary_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/agent/tools/sessionsearch"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
	"hermesd/storage/index/sessionlibrary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A harness is a store, its index, and the tool that reads both.
type harness struct {
	*testing.T
	store *bolt.Store
	x     *index.Index
	f     *index.Follower
	tool  tool.Tool
	turns int
	wakes int
	path  string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{T: t}
	var err error
	if h.store, err = bolt.Open(t.Context(), filepath.Join(dir, "hermesd.db"), bolt.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ok(h.store.Close()) })
	h.path = filepath.Join(dir, "search.db")
	if h.x, err = index.Open(h.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ok(h.x.Close()) })
	h.f = index.NewFollower(h.x, h.store, sessionsearch.Name, zap.NewNop())
	h.tool = sessionsearch.New(sessionlibrary.New(h.x, h.store, nil, func() { h.wakes++; h.f.Wake() }))
	return h
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// turn commits messages to the session of r, after compactions.
func (h *harness) turn(r session.Record, passes []store.Compaction, texts ...string) {
	h.Helper()
	h.turns++
	lane := inbox.Lane(r.ID)
	_, err := h.store.Accept(h.Context(), []store.Admission{{Entry: inbox.Entry{Lane: lane, Session: r.Key, Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint(h.turns), ID: "m", Kind: chat.Message, Address: r.Address, Text: "?"}}}})
	h.ok(err)
	c, err := h.store.Claim(h.Context(), lane, 0)
	h.ok(err)
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Trace: []byte(`{}`)}, Compactions: passes}
	old, known, err := h.store.SessionByID(h.Context(), r.ID)
	h.ok(err)
	if known {
		r = old
	} else {
		m.Create = &store.Creation{Record: r, Prompt: []byte(`{}`)}
	}
	for _, p := range passes {
		r.Messages = len(p.Active)
	}
	for i, text := range texts {
		m.Messages = append(m.Messages, row([]llm.Role{llm.User, llm.Assistant}[i%2], text))
	}
	r.Messages += len(texts)
	r.Updated = noon.Add(time.Duration(h.turns) * time.Minute)
	m.Session = r
	_, err = h.store.CommitTurn(h.Context(), c, m)
	h.ok(err)
	_, err = h.f.CatchUp(h.Context())
	h.ok(err)
}

func row(role llm.Role, text string) []byte {
	raw, err := json.Marshal(llm.Message{Role: role, Blocks: []llm.Block{{Type: llm.Text, Text: text}}})
	if err != nil {
		panic(err)
	}
	return raw
}

// call runs the tool from a session.
func (h *harness) call(from session.Record, args string) string {
	h.Helper()
	out, err := h.tool.Run(h.Context(), tool.Call{ID: "1", Session: string(from.ID), Input: []byte(args)})
	if err != nil {
		return "error: " + err.Error()
	}
	return out
}

func (h *harness) contains(out string, parts ...string) {
	h.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			h.Errorf("%q is missing in:\n%s", p, out)
		}
	}
}

func (h *harness) lacks(out string, parts ...string) {
	h.Helper()
	for _, p := range parts {
		if strings.Contains(out, p) {
			h.Errorf("%q is in:\n%s", p, out)
		}
	}
}

func userSession(id string, owner string) session.Record {
	return session.Record{
		ID: session.ID(id), Key: session.Key("k" + id), Owner: owner, Created: noon, Updated: noon, Name: "chat of " + owner, Title: "talk " + id,
		Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: owner},
	}
}

func ownerSession() session.Record {
	r := userSession("boss", "1")
	r.OwnersOnly = true
	return r
}

func TestToolOutputs(t *testing.T) {
	h := newHarness(t)
	h.turn(userSession("old", "2"), nil, "how do I restart db-01.example.com?", "with systemctl restart postgresql", "谢谢，我喜欢在周末爬山", "fine")
	h.turn(userSession("other", "2"), nil, "something else", "indeed")
	now := userSession("now", "2")
	h.turn(now, nil, "what was it about postgresql?", "let me look")

	out := h.call(now, `{"query": "restart db-01.example.com"}`)
	h.contains(out, "1 session was found", `Session old "talk old" (telegram, "chat of 2", from 2026-03-01 12:00`, "rows: 4", "> [0 user] how do I restart db-01.example.com?", "  [1 assistant] with systemctl")
	h.contains(h.call(now, `{"query": "爬山", "sort": "newest", "limit": 1}`), "> [2 user] 谢谢")
	out = h.call(now, `{"query": "postgresql"}`)
	h.contains(out, "> [1 assistant] with systemctl restart postgresql")
	h.lacks(out, "what was it about") // the active message of the requesting session
	h.contains(h.call(now, `{"query": "postgresql", "role_filter": "user"}`), "Nothing was found")
	h.contains(h.call(now, `{"query": "((( \" OR NOT *"}`), "Nothing was found")
	h.contains(h.call(now, `{"session_id": "old", "around": 2, "window": 1}`), "  [1 assistant]", "> [2 user]", "  [3 assistant]")
	h.lacks(h.call(now, `{"session_id": "old", "around": 2, "window": 1}`), "[0 user]")
	h.contains(h.call(now, `{"session_id": "old", "around": 99}`), "nothing to read around row 99; the rows are 0 to 3")
	h.contains(h.call(now, `{"session_id": "old"}`), "[0 user]", "[3 assistant] fine")
	out = h.call(now, `{}`)
	h.contains(out, "Session other", "Session old")
	h.lacks(out, "Session now")
	if strings.Index(out, "Session other") > strings.Index(out, "Session old") {
		t.Errorf("the newest session is not first:\n%s", out)
	}
	for args, want := range map[string]string{
		`{"session_id": "nope"}`:                         `error: there is no session "nope" that can be seen from here`,
		`{"around": 3}`:                                  "nothing to read around row 3; the rows are 0 to 1",
		`{"query": "x", "role_filter": "system"}`:        "error: role_filter takes",
		`{"query": "x", "sort": "oldest"}`:               "error: sort is best or newest",
		`{"query": 5}`:                                   `error: the argument "query" does not take a number`,
		`{"query": "` + strings.Repeat("x", 3000) + `"}`: "error: the query has more than",
	} {
		h.contains(h.call(now, args), want)
	}
}

func TestArchiveOfOwnSessionIsFound(t *testing.T) {
	h := newHarness(t)
	me := userSession("me", "2")
	h.turn(me, nil, "the code is walrus", "noted", "and the colour is green", "noted too")
	h.contains(h.call(me, `{"query": "walrus"}`), "Nothing was found")
	h.turn(me, []store.Compaction{{Length: 4, From: 0, To: 2, Active: []store.Doc[llm.Message]{row(llm.User, "in short: a code"), row(llm.User, "and the colour is green"), row(llm.Assistant, "noted too")}}}, "what was the code?", "?")
	h.contains(h.call(me, `{"query": "walrus"}`), "> [0 user] the code is walrus", "2 archived")
	h.contains(h.call(me, `{"query": "green"}`), "Nothing was found")
	out := h.call(me, `{"session_id": "me"}`)
	h.contains(out, "[0 user] the code is walrus", "[1 assistant] noted")
	h.lacks(out, "green", "in short", "what was the code")
	h.contains(h.call(ownerSession(), `{"query": "walrus"}`), "Nothing was found") // it is not stored, so it sees nothing
}

// No use of the tool returns the canary of another user.
func TestScopeHidesOtherUsers(t *testing.T) {
	h := newHarness(t)
	club := userSession("club", "")
	club.Shared, club.Address = true, chat.Address{Platform: chat.Telegram, Kind: chat.Group, Chat: "-5"}
	annaThere := userSession("anna-there", "2")
	annaThere.Address = club.Address
	all := []session.Record{ownerSession(), userSession("anna", "2"), userSession("bob", "3"), club, annaThere}
	for _, r := range all {
		h.turn(r, nil, "canary-"+string(r.ID), "ok")
	}
	for from, sees := range map[string][]string{
		"boss": {"anna", "bob", "club", "anna-there"}, "anna": {"anna-there"}, "bob": nil, "club": nil, "anna-there": {"club"},
	} {
		me := all[slices.IndexFunc(all, func(r session.Record) bool { return string(r.ID) == from })]
		for _, r := range all {
			if r.ID == me.ID {
				continue
			}
			id := string(r.ID)
			for shape, args := range map[string]string{
				"query": `{"query": "canary", "limit": 10}`, "recent": `{}`,
				"read": `{"session_id": "` + id + `"}`, "scroll": `{"session_id": "` + id + `", "around": 0}`,
			} {
				out := h.call(me, args)
				seen := strings.Contains(out, "canary-"+id+"\n") || shape == "recent" && strings.Contains(out, "Session "+id+" ")
				if want := slices.Contains(sees, id); seen != want {
					t.Errorf("%s by %s shows %s: %v, want %v:\n%s", shape, from, id, seen, want, out)
				}
			}
		}
	}
}

// The store decides about a session that the index still shows.
func TestStoreOverridesStaleIndexScope(t *testing.T) {
	h := newHarness(t)
	h.turn(userSession("me", "2"), nil, "hello", "hello")
	theirs := userSession("theirs", "3")
	h.turn(theirs, nil, "canary", "ok")
	theirs.Owner, theirs.Address.Chat = "2", "2"
	h.ok(h.x.Add(h.Context(), index.Update{Session: theirs, Next: 2}))
	h.contains(h.call(userSession("me", "2"), `{"query": "canary"}`), "Nothing was found")
}

// damageIndex drops a table while the file is open.
func (h *harness) damageIndex() {
	h.Helper()
	db, err := sql.Open("sqlite", h.path)
	h.ok(err)
	_, err = db.ExecContext(h.Context(), "DROP TABLE docs")
	h.ok(err)
	h.ok(db.Close())
}

func TestDamagedIndexIsRebuilt(t *testing.T) {
	h := newHarness(t)
	h.turn(userSession("old", "2"), nil, "walrus", "ok")
	h.turn(userSession("me", "2"), nil, "hello", "ok")
	h.damageIndex()
	h.contains(h.call(userSession("me", "2"), `{"query": "walrus"}`), "error: the search index is being rebuilt")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.f.Run(ctx) }()
	for range 24_000 { // two minutes
		if strings.Contains(h.call(userSession("me", "2"), `{"query": "walrus"}`), "> [0 user] walrus") {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	cancel()
	<-done
	h.contains(h.call(userSession("me", "2"), `{"query": "walrus"}`), "> [0 user] walrus")
	if h.wakes == 0 {
		t.Error("the follower was not woken")
	}
}

// A model is told why nothing can be searched, and the recent sessions are listed.
func TestRemovedIndexIsSaid(t *testing.T) {
	h := newHarness(t)
	h.turn(userSession("old", "2"), nil, "walrus", "ok")
	h.turn(userSession("me", "2"), nil, "hello", "ok")
	h.ok(h.x.Remove())
	h.contains(h.call(userSession("me", "2"), `{"query": "walrus"}`), "error: disk is full, and search index will be rebuilt when there is space")
	h.contains(h.call(userSession("me", "2"), `{}`), "old")
}

func TestCanceledContextIsError(t *testing.T) {
	h := newHarness(t)
	h.turn(userSession("me", "2"), nil, "hello", "ok")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.tool.Run(ctx, tool.Call{Session: "me", Input: []byte(`{"query": "hello"}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
