package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/config"
)

// askConsole sends text from the terminal, whose user is an owner, and returns the answer
// once it contains all of the words.
func (w *harness) askConsole(text string, words ...string) {
	w.Helper()
	c, err := w.app.Console().Attach(w.ctx, "")
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Say(w.ctx, "", text); err != nil {
		w.Fatal(err)
	}
	last := ""
	for {
		ev, err := c.Next(w.ctx)
		if err != nil {
			w.fatal(fmt.Sprintf("%s is not answered with %q but with\n%s\n%v", text, words, last, err))
		}
		if ev.Seq != 0 {
			c.Seen(ev.Seq)
		}
		if ev.Kind != console.Message && ev.Kind != console.Edit {
			continue
		}
		last = ev.Text.Text
		missing := 0
		for _, word := range words {
			if !strings.Contains(last, word) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
}

// TestCommandsShowStoredState checks what chat commands show of the store, the price
// table and the home directory.
func TestCommandsShowStoredState(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{telegram: "none"})
	for path, text := range map[string]string{
		"memories/MEMORY.md":         "The server runs Debian",
		"skills/dev/review/SKILL.md": "---\nname: review\ndescription: How to review\n---\nRead it.",
		"skills/web/SKILL.md":        "---\nname: web\ndescription: Elsewhere\nmetadata:\n  hermes:\n    requires_tools: [teleport]\n---\nGo.",
	} {
		if err := os.MkdirAll(filepath.Join(w.home, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		w.writeFile(path, text)
	}
	w.start()
	w.echoConsole("hello")
	w.askConsole("/context", "claude-sonnet-4-5", "a window of 200000 tokens", "memory ", "tools: ", "messages: 2", "compactions: none yet")
	w.askConsole("/usage", "calls: 1 in 1 turn", "cost: $0.", "without a cache it were $0.")
	w.askConsole("/memory", "MEMORY.md: 1 entry, 1% — 22/2,200 chars", "USER.md: 0 entries")
	w.askConsole("/skills", "Skills (1)", "/review How to review", "web: needs the tool teleport, which is not offered")
	w.askConsole("/model claude-opus-4-8", "claude-opus-4-8 answers here", "which costs about $0.")
	w.askConsole("/model a-model-nobody-knows", "answers here", "again, once.")
	s := w.app.Pipeline().Control().Status()
	if s.CallStats.Calls != 1 || s.CallStats.Paid <= 0 || len(s.CallStats.Unknown) != 0 || !strings.Contains(s.Caching, "5m TTL") {
		t.Errorf("status: %+v, %q", s.CallStats, s.Caching)
	}
}

// TestCustomPricesOverrideBuiltin checks that prices_file takes precedence wherever
// costs are shown, and that an unreadable file is reported at once.
func TestCustomPricesOverrideBuiltin(t *testing.T) {
	w := newHarness(t, fault{telegram: "none"})
	w.load = func() (*config.Config, config.Report, error) {
		return config.Load(config.Options{Home: w.home, Env: func(string) (string, bool) { return "", false }})
	}
	w.writeConfig("prices_file: prices.yaml", "none")
	w.writeFile("prices.yaml", "date: 2026-03-01\nmodels:\n- {match: claude-sonnet*, input: 90000, output: 90000}\n- {match: a-model-of-ours, input: 50000, output: 1}\n")
	w.start()
	w.echoConsole("hello")
	w.askConsole("/model a-model-of-ours", "answers here", "which costs about $")
	s := w.app.Pipeline().Control().Status()
	if s.CallStats.Paid < 10 || len(s.CallStats.Unknown) != 0 {
		t.Errorf("status goes by other prices: %+v", s.CallStats)
	}
	w.writeFile("prices.yaml", "date: 2026-03-01\nmodels:\n- {match: claude-sonnet*, input: cheap, output: 90000}\n")
	if state := w.app.Reload(w.ctx); !strings.Contains(state.Problem, "prices.yaml:3:34") {
		t.Errorf("reloaded with %+v", state)
	}
	if s := w.app.Pipeline().Control().Status(); s.CallStats.Paid < 10 {
		t.Errorf("broken prices took the place of good ones: %+v", s.CallStats)
	}
	w.writeFile("prices.yaml", "date: 2026-03-02\nmodels: []\n")
	if state := w.app.Reload(w.ctx); !slices.Contains(state.PendingRestart, "prices_file") {
		t.Errorf("new prices are not told of: %+v", state)
	}
}
