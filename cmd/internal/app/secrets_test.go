package app_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/sim/llm"
	"hermesd/internal/spawn"
)

// TestCommandGetsListedVariablesOnly: a command sees the variables that docs/terminal.md
// lists and those of env_passthrough, and nothing of .env or of the rest of the
// environment; what it prints of them is masked.
func TestCommandGetsListedVariablesOnly(t *testing.T) {
	const passed, hidden, stored = "passed-canary-7f3a", "hidden-canary-81c2", "stored-canary-9d4e"
	t.Setenv("DEPLOY_KEY", passed)
	t.Setenv("HERMESD_CANARY", hidden)
	w := newHarness(t, fault{config: "terminal:\n  sandbox: off\n  env_passthrough: [DEPLOY_KEY]\n"})
	w.env = map[string]string{"DEPLOY_KEY": passed, "HERMESD_CANARY": hidden}
	w.writeFile(".env", "UNKNOWN_TOKEN="+stored+"\n")
	w.start()
	w.waitConnected()
	if v, ok := os.LookupEnv("UNKNOWN_TOKEN"); ok {
		t.Errorf("the daemon has put a variable of .env into its environment: %q", v)
	}
	text := w.askBot(use("terminal", `{"command":"env"}`), "result: ", "exit code 0")
	listed := append(spawn.Passed(), "DEPLOY_KEY", "TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "PWD", "OLDPWD", "SHLVL", "_") // the last four are the shell's own
	for line := range strings.Lines(strings.TrimPrefix(text[strings.Index(text, "result: "):], "result: ")) {
		if name, _, ok := strings.Cut(line, "="); ok && !slices.Contains(listed, name) {
			t.Errorf("the command has the variable %s", name)
		}
	}
	if !strings.Contains(text, "DEPLOY_KEY=<secret>") {
		t.Errorf("the variable of env_passthrough is not passed and masked: %q", text)
	}
	w.askBot(use("terminal", `{"command":"test \"$(printenv DEPLOY_KEY | tr a-z A-Z)\" = PASSED-CANARY-7F3A && echo it is whole"}`), "result: it is whole")
	w.askBot(use("terminal", `{"command":"cat ../.env"}`), "May I run this?")
	w.askBot("/approve", "UNKNOWN_TOKEN=<secret>")
	w.stop()
	w.checkNowhere(passed, hidden, stored)
}

// checkNowhere checks that no request to a model and no file of the home directory
// except .env and the workspace contains one of the secrets, and that ann has seen none.
func (w *harness) checkNowhere(secrets ...string) {
	w.Helper()
	files := map[string][]byte{}
	w.must(filepath.WalkDir(w.home, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.home, path)
		switch {
		case err != nil || rel == ".env" || rel == "config.yaml":
			return err
		case d.IsDir() && (rel == "workspace" || rel == "scripts"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			files[rel], err = os.ReadFile(path)
		}
		return err
	}))
	for i, r := range w.model.Requests() {
		files[fmt.Sprintf("request %d", i)] = r.Body
	}
	for i, m := range w.chat.FromBots() {
		files[fmt.Sprintf("message %d", i)] = []byte(m.Text)
	}
	for name, data := range files {
		for _, s := range secrets {
			if at := bytes.Index(data, []byte(s)); at >= 0 {
				w.Errorf("%s contains %q: %q", name, s, data[max(0, at-60):min(len(data), at+60)])
			}
		}
	}
}

// TestSecretsAreMaskedBeforeTheyAreStored: a configured secret from each source reaches
// neither the store nor a model nor the chat, commands run as they were approved, and
// what is stored is what was sent, also after a restart.
func TestSecretsAreMaskedBeforeTheyAreStored(t *testing.T) {
	t.Parallel()
	const key = "deploy-canary-5b7e"
	const escaped = `deploy\u002dcanary\u002d5b7e` // the user does not write it, the model does
	w := newHarness(t, fault{config: "display:\n  tool_progress: verbose\n"})
	w.writeFile(".env", "DEPLOY_SECRET="+key+"\n")
	w.must(os.MkdirAll(w.path("workspace"), 0o700))
	w.writeFile("workspace/AGENTS.md", "The host takes the key "+key+".\n")
	w.writeFile("workspace/notes.txt", "first line\nkey: "+key+"\n")
	w.writeFile("workspace/slow.sh", "printf 'now deploy-cana'\ntouch half\nread -r line\necho 'ry-5b7e end'\nsleep 600\n")
	w.writeScript("a.sh", "echo the key is "+key)
	w.start()
	w.waitConnected()

	w.askBot("my key is "+key, "echo: my key is <secret>")
	w.askBot(use("read_file", `{"path":"notes.txt"}`), "result: ", "key: <secret>")
	w.askBot(fmt.Sprintf("unhex %x", "it is "+key+", is it not"), "decoded: it is <secret>, is it not")
	w.askBot(use("terminal", `{"command":"printf %s `+escaped+` > out.txt; cat out.txt"}`), "result: <secret>")
	if got := w.readFile("workspace/out.txt"); got != key {
		t.Errorf("the command has written %q", got)
	}
	before := w.botTexts()
	w.say(use("terminal", `{"command":"mkdir `+escaped+` && echo inside > `+escaped+`/.env && cat `+escaped+`/.env"}`))
	if ask := w.waitBotText(before, "May I run this?", "mkdir <secret> && ", "cat <secret>/.env"); strings.Contains(ask, "always") {
		t.Errorf("a secret can be part of a stored approval: %q", ask)
	}
	w.askBot("/approve", "result: inside")
	w.askBot(use("delegate_task", `{"goal":"use read_file {\"path\":\"notes.txt\",\"note\":\"`+escaped+`\"}"}`), "result: ", "key: <secret>")

	w.askBot(use("terminal", `{"command":"sh slow.sh","background":true}`), "result: p1 runs")
	w.waitFor("half of the key is written", func() bool { _, err := os.Stat(w.path("workspace/half")); return err == nil })
	w.waitOutput("p1", "now") // the daemon reads it later
	w.askBot(use("process", `{"action":"poll","id":"p1"}`), "result: now")
	w.askBot(use("process", `{"action":"write","id":"p1","data":"yes\n"}`), "result: ")
	w.waitOutput("p1", "<secret> end")
	w.askBot(use("process", `{"action":"kill","id":"p1"}`), "result: ")
	w.askBot(use("cronjob", `{"action":"create","schedule":"every 5h","prompt":"say `+escaped+`","name":"child"}`), "result: ")
	w.runScript(key)

	a := w.newestRequest()
	w.stop()
	w.checkNowhere(key, "canary-5b7e", "deploy-cana")
	w.start()
	w.askEcho("after the restart")
	if b := w.prefixBreaks(); len(b) > 0 {
		t.Errorf("breaks: %v", b)
	}
	sameMessages(t, a, w.newestRequest())
	w.stop()
	w.checkNowhere(key)
}

// waitOutput asks for the output of a background process until it contains words, and
// returns it.
func (w *harness) waitOutput(id, words string) string {
	w.Helper()
	for {
		if text := w.askBot(use("process", `{"action":"log","id":"`+id+`"}`), "result: "); strings.Contains(text, words) {
			return text
		}
	}
}

// runScript runs a scheduled prompt whose script prints key, and waits for its answer.
func (w *harness) runScript(key string) {
	w.Helper()
	recs, err := w.app.Store().Sessions(w.ctx, session.Query{Max: 50})
	w.must(err)
	rec := recs[slices.IndexFunc(recs, func(r session.Record) bool { return r.Owner != "" })]
	when, prompt, name := "in 3 days", "look at it", "a.sh"
	caller := schedule.Caller{Principal: access.Principal{Platform: "telegram", ID: rec.Owner, Level: access.Owner}, Address: rec.Address}
	j, err := w.app.Pipeline().Cron().Manager().Create(w.ctx, caller, "", schedule.JobPatch{Schedule: &when, Prompt: &prompt, Script: &name})
	w.must(err)
	_, err = w.app.Pipeline().Cron().Manager().Run(w.ctx, caller, string(j.ID), "now")
	w.must(err)
	w.waitText("the key is <secret>")
	w.askBot("after the script", "after the script")
}

// sameMessages checks that the messages of a are the first messages of b, without the
// overlay, and that none is missing.
func sameMessages(t *testing.T, a, b llm.Request) {
	t.Helper()
	if len(b.Messages) <= len(a.Messages) {
		t.Fatalf("%d messages before the restart, %d after it", len(a.Messages), len(b.Messages))
	}
	for i, m := range a.Messages[:len(a.Messages)-1] { // the last one carries the overlay
		for j, x := range m.Blocks {
			if y := b.Messages[i].Blocks[j]; x.Text != y.Text || string(x.Input) != string(y.Input) {
				t.Errorf("message %d is %q, %s before the restart and %q, %s after it", i, x.Text, x.Input, y.Text, y.Input)
			}
		}
	}
}
