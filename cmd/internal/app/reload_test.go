package app_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermesd/cmd/internal/config"
	"hermesd/internal/sim/telegram"
)

// reloading returns a harness whose daemon can reload its configuration.
func reloading(t *testing.T) *harness {
	t.Helper()
	w := newHarness(t, fault{sentence: "the configuration changes"})
	w.load = func() (*config.Config, config.Report, error) {
		return config.Load(config.Options{Home: w.home, Env: func(string) (string, bool) { return "", false }})
	}
	return w
}

func TestReloadAppliesAccess(t *testing.T) {
	t.Parallel()
	w := reloading(t)
	w.start()
	w.waitConnected()
	w.askEcho("hello")
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	room := bob.Chat(w.bot)
	w.writeConfig(fmt.Sprintf("access:\n  allow_from: ['telegram:%d']\ndisplay:\n  tool_progress: new\n", bob.ID()), "")
	w.waitLog("configuration reloaded") // not requested: the file has changed
	room.Say(bob, "may I")
	w.waitTextIn(room, "echo: may I")
	w.waitLog("settings wait for a restart", "display.tool_progress")

	w.writeConfig("agnet: 1", "")
	w.waitLog("configuration has errors; keeping the previous one")
	if s := w.app.Reload(t.Context()); !strings.Contains(s.Problem, "agnet") || !slices.Equal(s.PendingRestart, []string{"display.tool_progress"}) {
		t.Errorf("with errors: %+v", s)
	}
	w.writeFile("config.yaml", " \n") // as in the middle of being written
	if s := w.app.Reload(t.Context()); !strings.Contains(s.Problem, "empty") || !slices.Contains(s.Applied, "access.allow_from") {
		t.Errorf("of an empty file: %+v", s)
	}
	room.Say(bob, "still")
	w.waitTextIn(room, "echo: still")

	w.writeConfig("agent:\n  personalities:\n    pirate: Arr.\n", "")
	if s := w.app.Reload(t.Context()); s.Problem != "" || len(s.PendingRestart) != 0 || !slices.Contains(s.Applied, "agent.personalities") {
		t.Errorf("back again: %+v", s)
	}
	room.Say(bob, "and now")
	w.askEcho("barrier")
	if said := w.modelQuestions(); slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "and now") }) {
		t.Errorf("somebody who is not allowed any more is answered: %q", said)
	}
}

// What the start does without keeps no change from taking effect.
func TestReloadDoesWithoutWhatTheStartDoesWithout(t *testing.T) {
	t.Parallel()
	w := reloading(t)
	const broken = "context: {engine: none-such}\nagent: {prefill_messages_file: none.json}\nterminal: {cwd: /dev/null/x}\n"
	w.writeConfig(broken, "")
	w.start()
	w.waitConnected()
	w.askEcho("hello")
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	room := bob.Chat(w.bot)
	w.writeConfig(broken+fmt.Sprintf("access: {allow_from: ['telegram:%d']}\n", bob.ID()), "")
	if s := w.app.Reload(t.Context()); s.Problem != "" || !slices.Contains(s.Applied, "access.allow_from") || len(s.PendingRestart) != 0 {
		t.Errorf("%+v", s)
	}
	room.Say(bob, "may I")
	w.waitTextIn(room, "echo: may I")
}

// Settings change repeatedly while messages arrive: each message is answered once.
func TestReloadLosesNoMessage(t *testing.T) {
	t.Parallel()
	w := reloading(t)
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
				w.writeConfig(fmt.Sprintf("access:\n  allow_from: ['telegram:%d']\nlogging:\n  level: %s\n", 1000+n, []string{"info", "debug"}[n%2]), "")
				w.app.Reload(w.ctx)
			}
		}
	})
	const messages = 25
	for i := range messages {
		w.askEcho(fmt.Sprintf("message-%02d.", i))
	}
	close(stop)
	wg.Wait()
	for i := range messages {
		want, n := fmt.Sprintf("echo: message-%02d.", i), 0
		for _, m := range w.chat.Messages() {
			if strings.Contains(m.Text, want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is seen %d times", want, n)
		}
	}
}

// The prefill messages are those of the start as long as the daemon runs, and an
// invalid file is reported when it changes and not at the next start.
func TestReloadReportsChangedPrefill(t *testing.T) {
	t.Parallel()
	w := reloading(t)
	said := func(s string) string {
		return `[{"role":"user","content":"` + s + `"},{"role":"assistant","content":"Yes."}]`
	}
	w.writeFile("prefill.json", said("Tea?"))
	w.writeConfig("agent:\n  prefill_messages_file: prefill.json\n", "")
	w.start()
	w.waitConnected()
	w.writeFile("prefill.json", "[{")
	if s := w.app.Reload(t.Context()); !strings.Contains(s.Problem, "agent.prefill_messages_file") || !strings.Contains(s.Problem, "prefill.json") {
		t.Errorf("a broken file: %+v", s)
	}
	w.writeFile("prefill.json", said("Coffee?"))
	if s := w.app.Reload(t.Context()); s.Problem != "" || !slices.Equal(s.PendingRestart, []string{"agent.prefill_messages_file"}) {
		t.Errorf("another text: %+v", s)
	}
	w.askEcho("hello")
	if body := string(w.model.Requests()[0].Body); !strings.Contains(body, "Tea?") || strings.Contains(body, "Coffee?") {
		t.Errorf("the model is asked with %s", body)
	}
	w.writeFile("prefill.json", said("Tea?"))
	if s := w.app.Reload(t.Context()); s.Problem != "" || len(s.PendingRestart) != 0 {
		t.Errorf("back again: %+v", s)
	}
}
