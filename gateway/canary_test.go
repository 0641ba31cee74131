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
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/storage/index"
	"hermesd/storage/index/sessionlibrary"
)

// A spot is where a person speaks: in their direct chat, in a group in which
// each has a conversation of their own, or in a thread that all share.
type spot struct {
	who  string
	kind chat.Kind
}

func (s spot) String() string { return s.who + " in a " + string(s.kind) }

func (s spot) address() chat.Address {
	a := chat.Address{Platform: chat.Telegram, Kind: s.kind, Chat: "-100"}
	switch s.kind {
	case chat.DM:
		a.Chat = s.who
	case chat.Thread:
		a.Thread = "5"
	}
	return a
}

// the owner is 7; 8 is a member, 9 and 10 are guests.
var crowd = []string{"7", "8", "9", "10"}

// mayKnow is the law: whether the model may read at one spot what was said at
// another. It may where the same people read along: in the same conversation and
// in shared ones of the same chat; and a person finds their own again in their
// direct chat, an owner everything.
func mayKnow(at, said spot) bool {
	switch {
	case at.kind == chat.DM && at.who == "7":
		return true
	case at.kind == chat.DM:
		return at.who == said.who && said.kind != chat.Thread
	case said.kind == chat.Thread:
		return true // the thread is of the group
	}
	return at.kind == said.kind && at.who == said.who
}

// mayRead is the law of what is shown: in a group all read what is answered
// there to anybody.
func mayRead(in chat.Kind, chatID string, said spot) bool {
	if in == chat.DM {
		return mayKnow(spot{chatID, chat.DM}, said)
	}
	return said.kind != chat.DM
}

// An aviary is a world with people whose every word is a canary.
type aviary struct {
	*harness
	shelf  shelf
	follow *index.Follower
	birds  map[string]spot // by canary: where it was let out
	ids    []string        // of messages and sessions: what a curious person would try
	asked  int             // requests that were judged
	shown  int             // messages that were judged
	close  func() error    // of the index
}

// A shelf is a library that is there once the store is.
type shelf struct{ sessionsearch.Library }

var (
	bird  = regexp.MustCompile(`canary [a-z]\d+x`)
	story = regexp.MustCompile(`message \S+ from (\d+) \(`)
	perch = regexp.MustCompile(`PERCH\(([^,]*),([a-z]+)\)`)
)

// newAviary returns one whose model tells all it can find: it searches for
// canaries and reads what it has heard of, and says again whatever it has read.
func newAviary(t *testing.T) *aviary {
	a := &aviary{harness: newHarness(t), birds: map[string]spot{}}
	a.tools = append(a.tools, sessionsearch.New(&a.shelf, sessionsearch.Options{}))
	a.model.Default = a.mind
	a.set = func(o *gateway.Options) {
		x, err := index.Open(filepath.Join(a.dir, "search.db"))
		if err != nil {
			t.Fatal(err)
		}
		a.close = x.Close
		a.follow = index.NewFollower(x, a.store, sessionsearch.Name, zap.NewNop())
		a.shelf.Library = sessionlibrary.New(x, a.store, func() {})
		o.Access, o.CheckTool = ranked(t), byLevel
		build := o.Prefix
		o.Prefix = func(r session.Record) (prompt.Prefix, []string) { // the prompt says whose it is
			p, notes := build(r)
			return p.With(prompt.LayerMemory, fmt.Sprintf("PERCH(%s,%s)", r.Owner, r.Address.Kind)), notes
		}
	}
	a.start()
	return a
}

func (a *aviary) mind(r llmtest.Recorded) llmtest.Answer {
	if strings.Contains(r.Newest(), "tell me all") {
		var calls []llmtest.Call
		for _, q := range []string{`{"query":"canary","limit":10}`, `{"query":"canary","limit":10,"sort":"newest"}`, `{}`} {
			calls = append(calls, llmtest.Call{Name: sessionsearch.Name, Input: q})
		}
		for _, id := range a.ids {
			if strings.Contains(id, "_") { // a session's
				calls = append(calls, llmtest.Call{Name: sessionsearch.Name, Input: fmt.Sprintf(`{"session_id":%q,"around":1,"window":25}`, id)})
			}
		}
		return llmtest.Answer{Calls: calls}
	}
	return llmtest.Say("I know: " + strings.Join(birdsOf(r), ", "))
}

// birdsOf are the canaries in whatever a request holds.
func birdsOf(v any) []string {
	raw, err := json.Marshal(v)
	if err != nil {
		return []string{"canary z0x"} // nobody's, so the test fails
	}
	found := bird.FindAllString(string(raw), -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// canary returns words that nobody has said before.
func (a *aviary) canary(kind string, at spot) string {
	c := fmt.Sprintf("canary %s%dx", kind, len(a.birds))
	a.birds[c] = at
	return c
}

// does has a person do something, and judges what comes of it.
func (a *aviary) does(at spot, text string) {
	a.t.Helper()
	in := a.message(at.who, text)
	in.Address = at.address()
	in.Sender.Name = a.canary("n", at)
	a.offer(in)
	a.settle(5 * time.Second)
	a.judge(at, text)
}

// learns has everybody hear of all that is there, and the index too.
func (a *aviary) learns() {
	a.t.Helper()
	if _, err := a.follow.CatchUp(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	recs, err := a.store.Sessions(a.t.Context(), 100)
	if err != nil {
		a.t.Fatal(err)
	}
	a.ids = []string{"1", "7:1", "m1", "o1", fmt.Sprint("m", a.sent-1)}
	for _, r := range recs {
		a.ids = append(a.ids, string(r.ID))
	}
}

// judge looks for canaries where they must not be.
func (a *aviary) judge(at spot, text string) {
	a.t.Helper()
	rs := a.model.Requests()
	for _, r := range rs[a.asked:] {
		m := perch.FindStringSubmatch(r.System)
		if m == nil {
			a.t.Fatalf("a request of nobody's: %q", r.System)
		}
		here := spot{m[1], chat.Kind(m[2])}
		for _, c := range birdsOf(r) {
			if from, ok := a.birds[c]; !ok || !mayKnow(here, from) {
				a.t.Errorf("after %q by %s, the model reads at %s the words %q of %s", text, at, here, c, from)
			}
		}
	}
	a.asked = len(rs)
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	for _, m := range a.room.seen[a.shown:] {
		for _, c := range bird.FindAllString(m.text, -1) {
			if from, ok := a.birds[c]; !ok || !mayRead(m.to.Kind, m.to.Chat, from) {
				a.t.Errorf("after %q by %s, %s shows the words %q of %s: %s", text, at, m.to, c, from, m.text)
			}
		}
	}
	for _, m := range a.room.seen[a.shown:] {
		if of := story.FindStringSubmatch(m.text); of != nil && m.to.Kind == chat.DM && of[1] != m.to.Chat {
			a.t.Errorf("after %q by %s, %s shows what became of a message of %s", text, at, m.to, of[1])
		}
	}
	a.shown = len(a.room.seen)
}

// end judges once more what was ever shown, previews that were edited and what
// still waits too.
func (a *aviary) end() {
	rows, err := a.store.Outbox(a.t.Context(), true)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, row := range rows {
		for _, c := range birdsOf(row) {
			if from, ok := a.birds[c]; !ok || !mayRead(row.Msg.To.Kind, row.Msg.To.Chat, from) {
				a.t.Errorf("%s to %s holds the words %q of %s: %s", row.ID, row.Msg.To, c, from, row.Msg.Text.Text)
			}
		}
	}
	a.shown = 0
	a.judge(spot{}, "everything")
	a.stop()
	if err := a.close(); err != nil {
		a.t.Error(err)
	}
}

func everywhere() (all []spot) {
	for _, who := range crowd {
		for _, kind := range []chat.Kind{chat.DM, chat.Group, chat.Thread} {
			all = append(all, spot{who, kind})
		}
	}
	return all
}

// Everybody says something everywhere, and then tries everything that could show
// the words of others: each command of the table, plain and with the ids and the
// names of other people's messages and conversations; and the search.
func TestNobodySeesWhatOthersSaidElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAviary(t)
		defer a.end()
		for _, at := range everywhere() {
			a.does(at, "I say "+a.canary("w", at))
			a.does(at, "/title "+a.canary("t", at))
		}
		a.learns()
		titles := a.titles()
		for _, at := range []spot{{"9", chat.DM}, {"9", chat.Group}, {"10", chat.Thread}, {"8", chat.DM}, {"7", chat.Group}} {
			a.does(at, "tell me all")
			for _, c := range a.gw.Commands().All() {
				if !held(c.Name) {
					a.does(at, "/"+c.Name)
				}
			}
			a.learns()
			for _, name := range []string{"why", "resume", "sessions", "branch", "forget"} {
				for _, arg := range slices.Concat(a.ids[:9], titles[:2]) {
					a.does(at, "/"+name+" "+arg)
				}
			}
			a.does(at, "tell me all")
		}
		if !a.known("8", chat.DM) {
			t.Error("nobody found even their own words: the test proves nothing")
		}
	})
}

// held are the commands that would end the test.
func held(name string) bool { return name == "pause" || name == "restart" }

// titles are those that people gave, in capitals: who repeats one has not been
// told it.
func (a *aviary) titles() (all []string) {
	for c := range a.birds {
		if strings.HasPrefix(c, "canary t") {
			all = append(all, strings.ToUpper(c))
		}
	}
	slices.Sort(all)
	return all
}

// known reports whether a person was shown their own words in their direct chat.
func (a *aviary) known(who string, kind chat.Kind) bool {
	for _, text := range a.room.visible(who) {
		for _, c := range bird.FindAllString(text, -1) {
			if a.birds[c] == (spot{who, kind}) {
				return true
			}
		}
	}
	return false
}

// A walk is who says what where, in any order.
type walk []struct {
	at   int    // of everywhere
	what string // "say", "ask" or the name of a command
	arg  int    // of what is known
}

var walks = rapid.Custom(func(t *rapid.T) walk {
	w := make(walk, rapid.IntRange(10, 30).Draw(t, "steps"))
	for i := range w {
		w[i].at = rapid.IntRange(0, len(everywhere())-1).Draw(t, "at")
		w[i].what = rapid.SampledFrom([]string{"say", "say", "ask", "ask", "new", "title", "resume", "branch", "why", "sessions", "context", "usage", "status", "skills", "undo", "retry", "forget", "model"}).Draw(t, "what")
		w[i].arg = rapid.IntRange(0, 40).Draw(t, "arg")
	}
	return w
})

func TestCanariesStayHomeWhateverIsSaidInWhateverOrder(t *testing.T) {
	for seed := range 8 {
		t.Run(fmt.Sprint("walk ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAviary(t)
				defer a.end()
				for _, step := range walks.Example(seed) {
					at := everywhere()[step.at]
					switch known := append(slices.Clone(a.ids), a.titles()...); step.what {
					case "say":
						a.does(at, "I say "+a.canary("w", at))
					case "ask":
						a.learns()
						a.does(at, "tell me all")
					case "title":
						a.does(at, "/title "+a.canary("t", at))
					default:
						text := "/" + step.what
						if len(known) > 0 && step.arg > 10 {
							text += " " + known[step.arg%len(known)]
						}
						a.does(at, text)
					}
				}
			})
		})
	}
}

// What a model thinks is no answer: nothing shows it, with or without a preview.
func TestThinkingIsShownToNobody(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Answer{Thinking: "canary q1x", Text: "One moment.", Calls: []llmtest.Call{{Name: "todo"}}, Delay: time.Second},
				llmtest.Answer{Thinking: "canary q2x", Text: "Here you are.", Delay: time.Second})
			w.tools = append(w.tools, &tallied{name: "todo"})
			w.set = func(o *gateway.Options) { o.Streaming, o.Progress = streaming, "all" }
			w.start()
			defer w.stop()
			w.say("7", "think")
			w.settle(time.Minute)
			for _, command := range []string{"/status", "/context", "/usage", "/sessions", "/why 1"} {
				w.say("7", command)
				w.settle(time.Second)
			}
			rows, err := w.store.Outbox(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			if found := birdsOf(rows); len(found) > 0 || bird.MatchString(w.room.history()) {
				t.Errorf("%v in:\n%s", found, w.room.history())
			}
			if got := w.room.visible("7"); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "Here you are.") }) {
				t.Errorf("visible %q", got)
			}
		})
	}
}
