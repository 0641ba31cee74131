package gateway_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tools/sessionsearch"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage/index"
	"hermesd/storage/index/sessionlibrary"
)

// A source is a user in a kind of chat: their direct chat, a group with one
// conversation per user, or a thread with one conversation for all.
type source struct {
	who  string
	kind chat.Kind
}

func (s source) String() string { return s.who + " in a " + string(s.kind) }

func (s source) address() chat.Address {
	a := chat.Address{Platform: chat.Telegram, Kind: s.kind, Chat: "-100"}
	switch s.kind {
	case chat.DM:
		a.Chat = s.who
	case chat.Thread:
		a.Thread = "5"
	}
	return a
}

// userIDs are the users of the test: 7 is the owner, 8 a member, 9 and 10 are guests.
var userIDs = []string{"7", "8", "9", "10"}

// mayKnow reports whether the model may read at one source what was written at
// another: in the same conversation and in shared conversations of the same chat;
// users find their own messages in their direct chat, an owner finds everything.
func mayKnow(at, said source) bool {
	switch {
	case at.kind == chat.DM && at.who == "7":
		return true
	case at.kind == chat.DM:
		return at.who == said.who && said.kind != chat.Thread
	case said.kind == chat.Thread:
		return true // the thread is part of the group
	}
	return at.kind == said.kind && at.who == said.who
}

// mayRead reports whether a chat may show what was written at said: in a group
// everyone reads every answer.
func mayRead(in chat.Kind, chatID string, said source) bool {
	if in == chat.DM {
		return mayKnow(source{chatID, chat.DM}, said)
	}
	return said.kind != chat.DM
}

// An isolationHarness is a harness whose users write only canaries: unique texts that
// are searched for where they must not appear.
type isolationHarness struct {
	*harness
	library         lateLibrary
	follower        *index.Follower
	canaries        map[string]source // by canary: where it was written
	ids             []string          // of messages and sessions, used as arguments of commands
	requestsChecked int               // model requests checked
	messagesChecked int               // visible messages checked
	close           func() error      // of the index
}

// A lateLibrary is a session library that is set once the store is open.
type lateLibrary struct{ sessionsearch.Library }

var (
	canaryPattern  = regexp.MustCompile(`canary [a-z]\d+x`)
	historyPattern = regexp.MustCompile(`message \S+ from (\d+) \(`)
	ownerPattern   = regexp.MustCompile(`PERCH\(([^,]*),([a-z]+)\)`)
)

// newIsolationHarness returns a harness whose model reveals all it can find: it
// searches for canaries, reads the sessions it knows and repeats whatever it has read.
func newIsolationHarness(t *testing.T) *isolationHarness {
	a := &isolationHarness{harness: newHarness(t), canaries: map[string]source{}}
	a.tools = append(a.tools, sessionsearch.New(&a.library))
	a.model.Default = a.answer
	a.configure = func(o *gatewaytest.Options) {
		x, err := index.Open(filepath.Join(a.dir, "search.db"))
		if err != nil {
			t.Fatal(err)
		}
		a.close = x.Close
		a.follower = index.NewFollower(x, a.store, sessionsearch.Name, zap.NewNop())
		a.library.Library = sessionlibrary.New(x, a.store, nil, func() {})
		o.Access, o.CheckTool = levelChecker(t), checkToolLevel
		build := o.Prefix
		o.Prefix = func(r session.Record) (prompt.Prefix, []string) { // the prompt names its owner
			p, notes := build(r)
			return p.With(prompt.LayerMemory, fmt.Sprintf("PERCH(%s,%s)", r.Owner, r.Address.Kind)), notes
		}
	}
	a.start()
	return a
}

func (a *isolationHarness) answer(r llmtest.Recorded) llmtest.Answer {
	if strings.Contains(r.Newest(), "tell me all") {
		var calls []llmtest.Call
		for _, q := range []string{`{"query":"canary","limit":10}`, `{"query":"canary","limit":10,"sort":"newest"}`, `{}`} {
			calls = append(calls, llmtest.Call{Name: sessionsearch.Name, Input: q})
		}
		for _, id := range a.ids {
			if strings.Contains(id, "_") { // a session ID
				calls = append(calls, llmtest.Call{Name: sessionsearch.Name, Input: fmt.Sprintf(`{"session_id":%q,"around":1,"window":25}`, id)})
			}
		}
		return llmtest.Answer{Calls: calls}
	}
	return llmtest.Say("I know: " + strings.Join(canariesIn(r), ", "))
}

// canariesIn returns the canaries in a request.
func canariesIn(v any) []string {
	raw, err := json.Marshal(v)
	if err != nil {
		return []string{"canary z0x"} // of no source, so the test fails
	}
	found := canaryPattern.FindAllString(string(raw), -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// newCanary returns a unique text and records its source.
func (a *isolationHarness) newCanary(kind string, at source) string {
	c := fmt.Sprintf("canary %s%dx", kind, len(a.canaries))
	a.canaries[c] = at
	return c
}

// perform accepts a message from a source and checks the results.
func (a *isolationHarness) perform(at source, text string) {
	a.t.Helper()
	in := a.newMessage(at.who, text)
	in.Address = at.address()
	in.Sender.Name = a.newCanary("n", at)
	a.accept(in)
	a.advance(5 * time.Second)
	a.checkAfter(at, text)
}

// indexAll updates the search index and collects the IDs of messages and sessions.
func (a *isolationHarness) indexAll() {
	a.t.Helper()
	if _, err := a.follower.CatchUp(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	recs, err := a.store.Sessions(a.t.Context(), session.Query{Max: 100})
	if err != nil {
		a.t.Fatal(err)
	}
	a.ids = []string{"1", "7:1", "m1", "o1", fmt.Sprint("m", a.sendCount-1)}
	for _, r := range recs {
		a.ids = append(a.ids, string(r.ID))
	}
}

// checkAfter reports canaries that appear where they must not.
func (a *isolationHarness) checkAfter(at source, text string) {
	a.t.Helper()
	rs := a.model.Requests()
	for _, r := range rs[a.requestsChecked:] {
		m := ownerPattern.FindStringSubmatch(r.System)
		if m == nil {
			a.t.Fatalf("a request without a source: %q", r.System)
		}
		here := source{m[1], chat.Kind(m[2])}
		for _, c := range canariesIn(r) {
			if from, ok := a.canaries[c]; !ok || !mayKnow(here, from) {
				a.t.Errorf("after %q by %s, the model reads at %s the words %q of %s", text, at, here, c, from)
			}
		}
	}
	a.requestsChecked = len(rs)
	a.adapter.mu.Lock()
	defer a.adapter.mu.Unlock()
	for _, m := range a.adapter.messages[a.messagesChecked:] {
		for _, c := range canaryPattern.FindAllString(m.text, -1) {
			if from, ok := a.canaries[c]; !ok || !mayRead(m.to.Kind, m.to.Chat, from) {
				a.t.Errorf("after %q by %s, %s shows the words %q of %s: %s", text, at, m.to, c, from, m.text)
			}
		}
	}
	for _, m := range a.adapter.messages[a.messagesChecked:] {
		if of := historyPattern.FindStringSubmatch(m.text); of != nil && m.to.Kind == chat.DM && of[1] != m.to.Chat {
			a.t.Errorf("after %q by %s, %s shows what became of a message of %s", text, at, m.to, of[1])
		}
	}
	a.messagesChecked = len(a.adapter.messages)
}

// checkAll checks everything that was ever shown, including edited previews and
// unsent rows.
func (a *isolationHarness) checkAll() {
	rows, _, err := a.store.Outbox(a.t.Context(), outbox.Query{Sent: true})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, row := range rows {
		for _, c := range canariesIn(row) {
			if from, ok := a.canaries[c]; !ok || !mayRead(row.Msg.To.Kind, row.Msg.To.Chat, from) {
				a.t.Errorf("%s to %s holds the words %q of %s: %s", row.ID, row.Msg.To, c, from, row.Msg.Text.Text)
			}
		}
	}
	a.messagesChecked = 0
	a.checkAfter(source{}, "everything")
	a.stop()
	if err := a.close(); err != nil {
		a.t.Error(err)
	}
}

func allSources() (all []source) {
	for _, who := range userIDs {
		for _, kind := range []chat.Kind{chat.DM, chat.Group, chat.Thread} {
			all = append(all, source{who, kind})
		}
	}
	return all
}

// Every user writes at every source and then tries everything that could reveal
// messages of others: each command of the table, without arguments and with the IDs and
// titles of foreign messages and conversations; and the search.
func TestIsolationOfConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newIsolationHarness(t)
		defer a.checkAll()
		for _, at := range allSources() {
			a.perform(at, "I say "+a.newCanary("w", at))
			a.perform(at, "/title "+a.newCanary("t", at))
		}
		a.indexAll()
		titles := a.sessionTitles()
		for _, at := range []source{{"9", chat.DM}, {"9", chat.Group}, {"10", chat.Thread}, {"8", chat.DM}, {"7", chat.Group}} {
			a.perform(at, "tell me all")
			for _, c := range a.gw.Commands().All() {
				if !endsTest(c.Name) {
					a.perform(at, "/"+c.Name)
				}
			}
			a.indexAll()
			for _, name := range []string{"why", "resume", "sessions", "branch", "forget"} {
				for _, arg := range slices.Concat(a.ids[:9], titles[:2]) {
					a.perform(at, "/"+name+" "+arg)
				}
			}
			a.perform(at, "tell me all")
		}
		if !a.canSeeOwnWords("8", chat.DM) {
			t.Error("no user found their own messages: the test proves nothing")
		}
	})
}

// endsTest reports whether a command would end the test.
func endsTest(name string) bool { return name == "pause" || name == "restart" }

// sessionTitles returns the titles that users set, in upper case, so that a user who
// repeats one does not reveal it.
func (a *isolationHarness) sessionTitles() (all []string) {
	for c := range a.canaries {
		if strings.HasPrefix(c, "canary t") {
			all = append(all, strings.ToUpper(c))
		}
	}
	slices.Sort(all)
	return all
}

// canSeeOwnWords reports whether a user was shown their own messages in their direct
// chat.
func (a *isolationHarness) canSeeOwnWords(who string, kind chat.Kind) bool {
	for _, text := range a.adapter.visible(who) {
		for _, c := range canaryPattern.FindAllString(text, -1) {
			if a.canaries[c] == (source{who, kind}) {
				return true
			}
		}
	}
	return false
}

// A walk is a random sequence of actions at random sources.
type walk []struct {
	at   int    // index into allSources
	what string // "say", "ask" or the name of a command
	arg  int    // index into the known IDs
}

var walks = rapid.Custom(func(t *rapid.T) walk {
	w := make(walk, rapid.IntRange(10, 30).Draw(t, "steps"))
	for i := range w {
		w[i].at = rapid.IntRange(0, len(allSources())-1).Draw(t, "at")
		w[i].what = rapid.SampledFrom([]string{"say", "say", "ask", "ask", "new", "title", "resume", "branch", "why", "sessions", "context", "usage", "status", "skills", "undo", "retry", "forget", "model"}).Draw(t, "what")
		w[i].arg = rapid.IntRange(0, 40).Draw(t, "arg")
	}
	return w
})

func TestIsolationInRandomOrder(t *testing.T) {
	for seed := range 8 {
		t.Run(fmt.Sprint("walk ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newIsolationHarness(t)
				defer a.checkAll()
				for _, step := range walks.Example(seed) {
					at := allSources()[step.at]
					switch known := append(slices.Clone(a.ids), a.sessionTitles()...); step.what {
					case "say":
						a.perform(at, "I say "+a.newCanary("w", at))
					case "ask":
						a.indexAll()
						a.perform(at, "tell me all")
					case "title":
						a.perform(at, "/title "+a.newCanary("t", at))
					default:
						text := "/" + step.what
						if len(known) > 0 && step.arg > 10 {
							text += " " + known[step.arg%len(known)]
						}
						a.perform(at, text)
					}
				}
			})
		})
	}
}

// Thinking is not part of the answer: it is never shown, with or without a preview.
func TestThinkingIsNeverShown(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Answer{Thinking: "canary q1x", Text: "One moment.", Calls: []llmtest.Call{{Name: "todo"}}, Delay: time.Second},
				llmtest.Answer{Thinking: "canary q2x", Text: "Here you are.", Delay: time.Second})
			w.tools = append(w.tools, &countingTool{name: "todo"})
			w.configure = func(o *gatewaytest.Options) { o.Streaming, o.Progress = streaming, "all" }
			w.start()
			defer w.stop()
			w.sendText("7", "think")
			w.advance(time.Minute)
			for _, command := range []string{"/status", "/context", "/usage", "/sessions", "/why 1"} {
				w.sendText("7", command)
				w.advance(time.Second)
			}
			rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
			if err != nil {
				t.Fatal(err)
			}
			if found := canariesIn(rows); len(found) > 0 || canaryPattern.MatchString(w.adapter.history()) {
				t.Errorf("%v in:\n%s", found, w.adapter.history())
			}
			if got := w.adapter.visible("7"); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Here you are.") }) {
				t.Errorf("visible %q", got)
			}
		})
	}
}
