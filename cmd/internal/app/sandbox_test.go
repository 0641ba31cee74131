package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/internal/sim/llm"
)

// rewriteConfig replaces the section of the terminal in the configuration file.
func (w *harness) rewriteConfig(section string) {
	w.Helper()
	text, _, _ := strings.Cut(w.readFile("config.yaml"), "terminal:\n")
	w.writeFile("config.yaml", text+"terminal:\n"+section)
}

// status returns what `hermesd status` shows.
func (w *harness) status() admin.Status {
	w.Helper()
	c, err := admin.Dial(w.ctx, w.home)
	w.must(err)
	s, err := c.Status(w.ctx)
	w.must(err)
	w.must(c.Close(w.ctx))
	return s
}

// isOffered reports whether the newest request offers a tool to the model.
func (w *harness) isOffered(name string) bool {
	asked := w.model.Requests()
	return slices.ContainsFunc(asked[len(asked)-1].Tools, func(t llm.Tool) bool { return t.Name == name })
}

// Without a sandbox that works the agent has no terminal: it is not offered, a
// conversation that had it before is told why it does not work, and nobody is asked to
// approve a command that cannot run. The start and the status say it. Only `sandbox:
// off` brings the terminal back.
func TestNoSandboxMeansNoTerminal(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: onlyOwner})
	w.start()
	w.waitConnected()
	w.askBot(use("terminal", `{"command":"echo hello"}`), "result: hello")
	w.stop()
	w.rewriteConfig("  sandbox: auto\n  cwd: /\n") // no sandbox lets commands change everything
	w.start()
	w.waitConnected()
	w.waitFor("the start says it", func() bool {
		return slices.ContainsFunc(w.log.lines(), func(l logLine) bool { return l.has("The agent has no terminal") })
	})
	if s := w.status().Sandbox; s.HasTerminal() || s.Error == "" || s.Mode != "auto" || s.Mechanism != "none" {
		t.Errorf("the status says %+v", s)
	}
	for _, command := range []string{"touch /tmp/x", "rm -rf x"} {
		w.askBot(use("terminal", `{"command":"`+command+`"}`), "result: ", "no command runs here", "hermesd sandbox")
	}
	w.askBot("/new", "A new conversation begins.")
	w.askBot(use("terminal", `{"command":"echo hello"}`), "there is no tool called")
	if w.isOffered("terminal") || w.isOffered("process") || !w.isOffered("todo") {
		t.Error("the model is offered a terminal")
	}
	w.stop()
	w.rewriteConfig("  sandbox: off\n  cwd: /\n")
	w.start()
	w.waitConnected()
	w.askBot("/new", "A new conversation begins.")
	w.askBot(use("terminal", `{"command":"echo hello"}`), "result: hello")
	if s := w.status().Sandbox; !s.HasTerminal() || !strings.Contains(s.Text, "without a sandbox") {
		t.Errorf("the status says %+v", s)
	}
}

// The policy hides the home directory as a whole, unless it is the workspace: then it
// hides what the daemon keeps in it, also what does not exist yet.
func TestSandboxPolicyHidesHome(t *testing.T) {
	load := func(home, yaml string) []string {
		c, r, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		return app.SandboxPolicy(c, r, home).Hide
	}
	put := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	home := filepath.Join(root, ".hermes")
	for _, cwd := range []string{"", root, "/"} {
		put(filepath.Join(home, "config.yaml"), "terminal: {cwd: '"+cwd+"'}\n")
		if hidden := load(home, cwd); !slices.Contains(hidden, home) {
			t.Errorf("workspace %q: %s is visible: %q", cwd, home, hidden)
		}
	}
	key := filepath.Join(root, "keys", "model")
	put(key, "sk-1")
	put(filepath.Join(home, "hermesd.db.schema1.bak"), "x")
	put(filepath.Join(home, "config.yaml"), "terminal: {cwd: ./}\nmodel: {provider: openai, default: x, api_key_file: "+key+"}\nlogging: {file: my.log}\n")
	hidden := load(home, ".")
	if slices.Contains(hidden, home) {
		t.Errorf("the workspace is hidden: %q", hidden)
	}
	for _, name := range []string{
		".env", "config.yaml", "hermesd.db", "hermesd.db.schema1.bak", "search.db", "http.key", "metrics.key", "hermesd.sock", "hermesd.sock.path", "hermesd.lock",
		"hermesd.starts", "memories", "cron", "scripts", "plugins", "profiles", "cache", "logs", "my.log", "SOUL.md", "restore.plan", "setup.plan", key,
	} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(home, name)
		}
		if !slices.Contains(hidden, name) {
			t.Errorf("%s is visible", name)
		}
	}
	work := filepath.Join(home, "profiles", "work")
	put(filepath.Join(work, "config.yaml"), "terminal: {cwd: "+root+"}\n")
	if hidden := load(work, ""); !slices.Contains(hidden, home) || !slices.Contains(hidden, work) {
		t.Errorf("a profile shows the main home: %q", hidden)
	}
}

// Commands of a daemon whose workspace is its home see none of its files, and cannot
// connect to its control socket.
func TestCommandsInHomeSeeNoneOfItsFiles(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: onlyOwner + "approvals:\n  mode: off\nterminal:\n  cwd: ./\n", sandboxed: true})
	w.writeFile("notes.txt", "mine")
	w.writeFile(".env", "X_TOKEN=secret-of-env\n")
	w.start()
	w.waitConnected()
	if !w.status().Sandbox.HasTerminal() {
		t.Skip(w.status().Sandbox.Error)
	}
	w.askBot(use("terminal", `{"command":"cat notes.txt; cat .env config.yaml hermesd.db memories/* 2>/dev/null | wc -c; test -S hermesd.sock && echo reachable; echo end"}`), "result: mine0\nend")
	w.askBot(use("terminal", `{"command":"echo x > scripts/evil.sh; echo x > plugins/evil; echo x > memories/MEMORY.md; echo end"}`), "end")
	for _, name := range []string{"scripts/evil.sh", "plugins/evil", "memories/MEMORY.md"} {
		if _, err := os.Stat(w.path(name)); err == nil {
			t.Errorf("a command has made %s", name)
		}
	}
}
