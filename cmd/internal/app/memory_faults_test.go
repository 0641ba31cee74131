package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/telegram"
)

// A honchoHarness is a harness with Honcho, which says what it has stored.
type honchoHarness struct {
	*harness
	bob     *telegram.User
	bobChat *telegram.Chat
	server  *honcho.Server
}

// newHonchoHarness returns a harness whose daemon can reload its configuration. settings
// are more of honcho.json.
func newHonchoHarness(t *testing.T, settings, config string) honchoHarness {
	t.Helper()
	s := honcho.New(honcho.Options{Derive: soon, Think: soon})
	p := memoryProvider{name: "honcho", server: func() *memory.Server { return s.Server }, files: func(w *harness, url string) {
		w.writeFile("honcho.json", `{"baseUrl":"`+url+`","apiKey":"key-of-honcho"`+settings+`}`)
	}}
	w, bob, bobChat, _ := newProviderHarness(t, p, config)
	return honchoHarness{w, bob, bobChat, s}
}

func (w *harness) loadConfig() (*config.Config, config.Report, error) {
	return config.Load(config.Options{Home: w.home, Env: func(name string) (string, bool) {
		v, ok := w.env[name]
		return v, ok
	}})
}

// turn has a turn of ann and returns when its answer is visible.
func (w honchoHarness) turn(text string) {
	w.Helper()
	w.say(text)
	w.waitText("done: " + text)
	w.waitEnded() // the next message would become a part of it
}

// stored returns how often each text is stored as a message.
func (w honchoHarness) stored() map[string]int {
	times, seen := map[string]int{}, map[string]bool{}
	for _, c := range w.server.Calls() {
		place, ok := strings.CutSuffix(strings.TrimPrefix(c.Path, "/v3/workspaces/"), "/messages")
		workspace, session, found := strings.Cut(place, "/sessions/")
		if !ok || !found || seen[place] {
			continue
		}
		seen[place] = true
		for _, m := range w.server.Messages(workspace, session) {
			times[m.Content]++
		}
	}
	return times
}

// waitStored returns once all texts are stored, and checks that none is twice. It polls,
// because a server of a provider notifies nobody.
func (w honchoHarness) waitStored(texts []string) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	times := w.stored()
	for slices.ContainsFunc(texts, func(text string) bool { return times[text] == 0 }) {
		select {
		case <-tick.C:
			times = w.stored()
		case <-w.ctx.Done():
			w.fatal(fmt.Sprintf("stored are %v, not all of %q", times, texts))
		}
	}
	for _, text := range texts {
		if times[text] != 1 {
			w.Errorf("%q is stored %d times", text, times[text])
		}
	}
}

const outage = "Long-term memory (Honcho) does not answer"

// notices returns how often an outage was told in a chat.
func (w honchoHarness) notices(c *telegram.Chat) (n int) {
	for _, m := range c.FromBots() {
		n += strings.Count(m.Text, outage)
	}
	return n
}

// TestFaultsOfAMemoryProviderHarmNoAnswer has a conversation while Honcho fails in one way,
// and goes on after it.
func TestFaultsOfAMemoryProviderHarmNoAnswer(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]memory.Fault{
		"slow":                   {Delay: 10 * time.Second},
		"401":                    {Kind: memory.Refuse, Status: 401},
		"429":                    {Kind: memory.Refuse, Status: 429, RetryAfter: 40 * time.Second},
		"500":                    {Kind: memory.Refuse, Status: 500},
		"502":                    {Kind: memory.Page},
		"pages of a proxy":       {Kind: memory.Page, Status: 200},
		"connections break":      {Kind: memory.Cut},
		"answers are lost":       {Kind: memory.CutAfter},
		"half of the answers":    {Kind: memory.HalfAfter},
		"half of the bodies":     {Kind: memory.ShortAfter},
		"answers without a body": {Kind: memory.Empty},
		"answers of 10 MB":       {Kind: memory.Huge, Size: 10 << 20},
		"answers of 50 MB":       {Kind: memory.Huge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := `,"recallSync":true`
			if f.Delay > 0 {
				settings += `,"timeout":2`
			}
			w := newHonchoHarness(t, settings, "  recall_wait: 50ms\n")
			w.start()
			w.waitConnected()
			said := []string{"It works in the morning."}
			w.turn(said[0])
			w.waitStored(said)
			f.Times = -1
			w.server.Inject(f)
			for n := 0; n < 3 || w.notices(w.chat) == 0; n++ {
				said = append(said, fmt.Sprintf("It fails at noon, message %d.", n))
				w.turn(said[len(said)-1])
				if w.ctx.Err() != nil {
					w.fatal("nobody is told")
				}
				if n > 3 {
					time.Sleep(100 * time.Millisecond) // the client waits for an answer
				}
			}
			w.bobChat.Say(w.bob, "Does it work?")
			w.waitTextIn(w.bobChat, "done: Does it work?")
			for n := range 3 {
				said = append(said, fmt.Sprintf("It fails in the evening, message %d.", n))
				w.turn(said[len(said)-1])
			}
			if ann, bob := w.notices(w.chat), w.notices(w.bobChat); ann != 1 || bob != 0 {
				t.Errorf("the outage was told %d times to an owner, %d times to a member", ann, bob)
			}
			w.server.Heal()
			w.app.Reload(t.Context())
			w.waitStored(said)
			said = append(said, "It works at night.")
			w.turn(said[len(said)-1])
			w.waitStored(said)
			if b := w.prefixBreaks(); len(b) > 0 {
				t.Errorf("breaks: %v", b)
			}
			w.stop()
		})
	}
}

// TestAnOutageIsToldToAnOwnerOnce: nobody else is told of it, and a turn that fails takes
// no notice with it.
func TestAnOutageIsToldToAnOwnerOnce(t *testing.T) {
	t.Parallel()
	w := newHonchoHarness(t, "", "  people: everyone\ngroup_sessions_per_user: false\n")
	group := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann, w.bob}, Admins: []*telegram.Bot{w.bot}})
	w.server.Inject(memory.Fault{Kind: memory.Refuse, Status: 401, Times: -1})
	w.start()
	w.waitConnected()
	w.waitLog("a call of the memory provider failed", "401")
	w.bobChat.Say(w.bob, "Does it work?")
	w.waitTextIn(w.bobChat, "done: Does it work?")
	group.Say(w.ann, "Does it work?")
	w.waitTextIn(group, "Does it work?")
	w.model.Inject(llm.Fault{Kind: llm.Unauthorized, Match: func(r llm.Request) bool { return strings.Contains(r.Newest(), "fail") }})
	w.say("You fail.")
	w.waitFor("it is told that the turn failed", func() bool { return len(w.chat.FromBots()) > 0 })
	w.waitEnded()
	for _, c := range []*telegram.Chat{w.chat, w.bobChat, group} {
		if n := w.notices(c); n != 0 {
			t.Errorf("the outage was told %d times in %s", n, c.Type())
		}
	}
	for n := range 3 {
		w.turn(fmt.Sprintf("Does it work, message %d?", n))
		if told := w.notices(w.chat); told != 1 {
			t.Errorf("after message %d the outage was told %d times", n, told)
		}
	}
	w.stop()
}

// TestAnswersDoNotWaitForAMemoryProviderThatHangs: each answer is there while Honcho has
// answered no recall.
func TestAnswersDoNotWaitForAMemoryProviderThatHangs(t *testing.T) {
	t.Parallel()
	w := newHonchoHarness(t, `,"recallSync":true,"timeout":3600`, "  recall_wait: 50ms\n")
	w.server.Inject(memory.Fault{Delay: time.Hour, Times: -1, Skip: 1}) // not the check at the start
	w.start()
	w.waitConnected()
	w.waitFor("the check at the start", func() bool { return len(w.server.Calls()) > 0 })
	for n := range 6 {
		w.turn(fmt.Sprintf("What is it that hangs, message %d?", n))
		asked := 0
		for _, c := range w.server.Calls()[1:] {
			if c.Status != 0 || c.Effect {
				t.Errorf("%s %s was answered", c.Method, c.Path)
			}
			if !strings.HasSuffix(c.Path, "/messages") {
				asked++
			}
		}
		if asked == 0 {
			t.Error("nothing was asked")
		}
	}
	w.stop() // it does not wait for it either
}

// TestChangingRecallBreaksNoPrefix has a conversation of 200 turns in which each turn
// recalls something else, with an outage and a restart.
func TestChangingRecallBreaksNoPrefix(t *testing.T) {
	t.Parallel()
	w := newHonchoHarness(t, `,"recallSync":true`, "  recall_wait: 5s\ndisplay:\n  busy_input_mode: queue\n")
	w.start()
	w.waitConnected()
	const turns, down, up, restart = 200, 60, 80, 140
	var said []string
	before := 0 // requests before the restart
	for n := range turns {
		switch n {
		case down:
			w.server.Inject(memory.Fault{Kind: memory.Refuse, Status: 500, Times: -1})
		case up:
			w.server.Heal()
			w.app.Reload(t.Context())
		case restart:
			w.checkNoBreaks()
			w.stop()
			before = len(w.model.Requests())
			w.start()
			w.waitHealthOf(chat.Account{Platform: chat.Telegram}, chat.Connected, "")
		}
		said = append(said, fmt.Sprintf("The bicycle bought%d is better than the bicycle bought%d.", n, n-1))
		w.say(said[n])
		w.waitText("done: " + said[n])
		if n < down || n >= up {
			w.waitStored(said[n:]) // so that the next turn recalls it
		}
	}
	w.waitStored(said)
	w.checkNoBreaks()
	w.stop()
	if n := w.notices(w.chat); n != 1 {
		t.Errorf("the outage was told %d times", n)
	}
	w.checkOneConversation(turns, before)
}

func (w *harness) checkNoBreaks() {
	w.Helper()
	if b := w.prefixBreaks(); len(b) > 0 {
		w.Errorf("breaks: %v", b)
	}
}

// checkOneConversation checks that each request of a conversation of so many turns begins
// with the one before it, that those after a restart have the bytes of the prompt and the
// tools of those before, and that most turns recalled something else.
func (w honchoHarness) checkOneConversation(turns, restart int) {
	w.Helper()
	recalled := map[string]bool{}
	var last []string
	var body map[string]json.RawMessage // of the last request before the restart
	calls := 0
	for n, r := range w.model.Requests() {
		if len(r.Tools) == 0 {
			continue // asks for a title
		}
		calls++
		recalled[checkRecallIsInTheOverlay(w.T, n, r.Request)] = true
		now, _ := blocks(r.Request)
		if len(now) < len(last) || !slices.Equal(now[:len(last)], last) {
			w.Fatalf("request %d does not begin with the one before it:\n%q\n%q", n, last[1:], now[1:])
		}
		last = now[:len(now)-1] // without what is left of the overlay
		switch b := w.requestBody(r); {
		case n < restart:
			body = b
		case string(b["system"]) != string(body["system"]) || string(b["tools"]) != string(body["tools"]):
			w.Errorf("request %d, after the restart, has another prompt or other tools", n)
		}
	}
	if calls != turns || len(recalled) < turns*3/4 {
		w.Errorf("%d different recalls in %d requests of %d turns", len(recalled), calls, turns)
	}
}

// checkRecallIsInTheOverlay checks that recalled text is only in the last message of a
// request, and returns it.
func checkRecallIsInTheOverlay(t *testing.T, n int, r llm.Request) (block string) {
	t.Helper()
	if strings.Contains(r.System, "<memory-context>") {
		t.Errorf("request %d: recalled text is in the cached prompt", n)
	}
	for i, m := range r.Messages {
		for _, b := range m.Blocks {
			_, inside, ok := strings.Cut(b.Text, "<memory-context>")
			if ok && i < len(r.Messages)-1 {
				t.Errorf("request %d: recalled text is in message %d of %d", n, i, len(r.Messages))
			}
			block += inside
		}
	}
	return block
}
