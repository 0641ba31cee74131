package app_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/internal/sim/memory"
	"hermesd/internal/sim/memory/honcho"
	"hermesd/internal/sim/memory/openviking"
)

const goodKey = "the-good-key-of-the-memory"

// newKeyHarness returns a harness with a Honcho that takes goodKey, for which another key is
// configured.
func newKeyHarness(t *testing.T) honchoHarness {
	t.Helper()
	s := honcho.New(honcho.Options{Derive: soon, Think: soon, Keys: []string{goodKey}})
	w, bob, bobChat, _ := newProviderHarness(t, memoryProvider{name: "honcho", server: func() *memory.Server { return s.Server }, files: func(w *harness, url string) {
		w.writeFile("honcho.json", `{"baseUrl":"`+url+`","apiKey":"first-bad-key","recallSync":true}`)
	}}, "  recall_wait: 5s\n")
	return honchoHarness{w, bob, bobChat, s}
}

// honcho writes the configuration file of Honcho.
func (w honchoHarness) honcho(key, more string) {
	w.Helper()
	w.writeFile("honcho.json", `{"baseUrl":"`+w.server.URL+`","apiKey":"`+key+`","recallSync":true`+more+`}`)
}

// TestReloadTakesAnotherMemoryKey: a running daemon uses the key that is configured now,
// and sends what has waited.
func TestReloadTakesAnotherMemoryKey(t *testing.T) {
	t.Parallel()
	w := newKeyHarness(t)
	w.start()
	w.waitConnected()
	w.waitLog("a call of the memory provider failed", "401")
	var said []string
	turn := func(text string) {
		said = append(said, text)
		w.turn(text)
	}
	turn("I have bought a papaya.")
	turn("And then an espresso.")
	w.honcho("second-bad-key", "")
	if s := w.app.Reload(t.Context()); s.Problem != "" || len(s.PendingRestart) > 0 {
		t.Errorf("another bad key: %+v", s)
	}
	turn("Is it better now?")
	if n := w.notices(w.chat); n != 1 {
		t.Errorf("the outage was told %d times", n)
	}
	w.honcho(goodKey, "")
	if s := w.app.Reload(t.Context()); s.Problem != "" || len(s.PendingRestart) > 0 {
		t.Errorf("the good key: %+v", s)
	}
	w.waitStored(said)
	turn("What was it that I have bought, a papaya?")
	if !w.recalls("papaya") {
		t.Error("the conversation goes on without recalls")
	}
	w.waitStored(said)
	w.checkNoBreaks()
	if s := w.app.Pipeline().Control().Status().Memory; !s.Up || s.Breaker != "closed" || s.Detail == "" {
		t.Errorf("status: %+v", s)
	}
	w.stop()
	for _, key := range []string{"first-bad-key", "second-bad-key", goodKey} {
		if n := w.countLogs(key); n > 0 {
			t.Errorf("%s is in %d lines of the log", key, n)
		}
	}
}

// TestOwnersReloadTakesAnotherMemoryKey: /reload of an owner reads the configuration, that of
// a member only files of the prompt.
func TestOwnersReloadTakesAnotherMemoryKey(t *testing.T) {
	t.Parallel()
	w := newKeyHarness(t)
	w.start()
	w.waitConnected()
	w.waitLog("a call of the memory provider failed", "401")
	said := []string{"I have bought a papaya."}
	w.turn(said[0])
	const again, problem = "Memories, skills, context files and tools are read again.", "The configuration stays as it was: memory.provider: "
	w.writeFile("honcho.json", "{")
	w.bobChat.Say(w.bob, "/reload")
	if text := w.waitTextIn(w.bobChat, again).Text; strings.Contains(text, problem) {
		t.Errorf("a member reads the configuration: %q", text)
	}
	w.say("/reload")
	if text := w.waitText(problem).Text; !strings.HasPrefix(text, again) {
		t.Errorf("an owner is told %q", text)
	}
	w.honcho(goodKey, "")
	w.say("/reload")
	w.waitStored(said)
	w.stop()
}

// TestReloadsLoseNothingForTheMemory reloads with good and bad keys in turn, while recalls
// and sends are under way: each message is answered, and stored once.
func TestReloadsLoseNothingForTheMemory(t *testing.T) {
	t.Parallel()
	w := newKeyHarness(t)
	w.honcho(goodKey, "")
	w.server.Inject(memory.Fault{Delay: 5 * time.Millisecond, Late: 5 * time.Millisecond, Times: -1})
	w.start()
	w.waitConnected()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				w.honcho([]string{goodKey, "another-bad-key"}[n%2], "")
				if s := w.app.Reload(w.ctx); s.Problem != "" {
					t.Errorf("reload %d: %s", n, s.Problem)
				}
			}
		}
	})
	var said []string
	for n := range 20 {
		said = append(said, fmt.Sprintf("I like the papaya number%d.", n))
		w.turn(said[n])
	}
	close(stop)
	wg.Wait()
	w.honcho(goodKey, "")
	w.app.Reload(t.Context())
	w.waitStored(said)
	w.checkNoBreaks()
	w.stop()
}

// TestAMemoryKeyInDotenvIsTaken: nobody has to ask for a reload.
func TestAMemoryKeyInDotenvIsTaken(t *testing.T) {
	t.Parallel()
	s := openviking.New(openviking.Options{Extract: soon, Keys: []string{goodKey}})
	w, _, _, _ := newProviderHarness(t, memoryProvider{
		name: "openviking", server: func() *memory.Server { return s.Server }, env: map[string]string{"OPENVIKING_URL": "URL"},
	}, "")
	w.writeFile(".env", "OPENVIKING_API_KEY=first-bad-key\n")
	w.start()
	w.waitConnected()
	w.waitLog("a call of the memory provider failed", "401")
	w.say("I have bought a papaya.")
	w.waitText("done: I have bought a papaya.")
	w.writeFile(".env", "OPENVIKING_API_KEY="+goodKey+"\n")
	w.waitFor("the turn is stored", func() bool {
		return slices.ContainsFunc(s.Calls(), func(c memory.Call) bool {
			return c.Status == 200 && strings.HasSuffix(c.Path, "/messages/batch") && strings.Contains(string(c.Body), "papaya")
		})
	})
	w.stop()
}

// TestReloadSaysWhichMemoryWaits: another provider, or other tools, are used after a
// restart; until then the present one goes on.
func TestReloadSaysWhichMemoryWaits(t *testing.T) {
	t.Parallel()
	w := newKeyHarness(t)
	w.honcho(goodKey, "")
	w.start()
	w.waitConnected()
	config := func(name, memory, more string) {
		w.writeConfig(fmt.Sprintf("access:\n  owners: [$ANN]\n  allow_from: [\"%d\"]\nmemory:\n  provider: %s\n  recall_wait: 5s\n%s%s", w.bob.ID(), name, memory, more), "")
	}
	var said []string
	for _, test := range []struct {
		name             string
		change           func()
		problem          string
		applied, waiting []string
	}{
		{"another provider", func() { config("holographic", "  people: members\n", "honcho:\n  timeout: 5\n") }, "", nil, []string{"honcho.timeout", "memory.people", "memory.provider"}},
		{"none", func() { config("''", "", "") }, "", nil, []string{"memory.provider"}},
		{"settings", func() { config("honcho", "  people: members\n", "honcho:\n  timeout: 5\n") }, "", []string{"honcho.timeout", "memory.people"}, nil},
		{"a broken file", func() { w.writeFile("honcho.json", "{") }, "memory.provider: ", []string{"honcho.timeout", "memory.people"}, nil},
		{"no tools", func() { w.honcho(goodKey, `,"recallMode":"context"`) }, "", nil, []string{"honcho.timeout", "memory.people", "memory.provider"}},
		{"as at the start", func() { w.honcho(goodKey, ""); config("honcho", "", "") }, "", nil, nil},
	} {
		test.change()
		s := w.app.Reload(t.Context())
		if !strings.HasPrefix(s.Problem, test.problem) || (s.Problem == "") != (test.problem == "") || !slices.Equal(s.Applied, test.applied) || !slices.Equal(s.PendingRestart, test.waiting) {
			t.Errorf("%s: %+v", test.name, s)
		}
		said = append(said, "I like papaya. It is "+test.name+".")
		w.turn(said[len(said)-1])
		w.bobChat.Say(w.bob, "I am Bob. It is "+test.name+".")
		w.waitTextIn(w.bobChat, "done: I am Bob. It is "+test.name+".")
		w.waitStored(said)
	}
	w.waitStored([]string{"I am Bob. It is settings."})
	if n := w.stored()["I am Bob. It is another provider."]; n != 0 {
		t.Error("what is meant for another provider applies to the present one")
	}
	w.checkNoBreaks()
	w.stop()
}

// TestReloadOfAMemoryThatWasUnusable: it needs a restart, and is no error before it can be
// used.
func TestReloadOfAMemoryThatWasUnusable(t *testing.T) {
	t.Parallel()
	w, _, _, _ := newProviderHarness(t, memoryProvider{name: "mem0", files: func(w *harness, _ string) { w.writeFile("mem0.json", `{"mode":"oss"}`) }}, "")
	w.start()
	w.waitConnected()
	if s := w.app.Reload(t.Context()); s.Problem != "" || len(s.PendingRestart) > 0 {
		t.Errorf("as it was: %+v", s)
	}
	w.writeFile("mem0.json", `{"host":"http://127.0.0.1:1","api_key":"`+goodKey+`"}`)
	if s := w.app.Reload(t.Context()); s.Problem != "" || !slices.Equal(s.PendingRestart, []string{"memory.provider"}) {
		t.Errorf("usable: %+v", s)
	}
	w.stop()
}
