package app_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// ask makes the model use a tool, and returns the bot's texts once an approval is requested
// or the result is told.
func (w *harness) ask(name string, in map[string]any) string {
	w.Helper()
	args, err := json.Marshal(in)
	w.must(err)
	before := w.botTexts()
	w.say(use(name, string(args)))
	var text string
	w.waitFor("a request or a result of "+string(args), func() bool {
		text = w.newBotText(before)
		return strings.Contains(text, "May I run this?") || strings.Contains(text, "result: ")
	})
	if !strings.Contains(text, "May I run this?") {
		w.waitEnded()
		w.waitSent()
	}
	return text
}

// waitSent waits until nothing is to be sent: a preview may still change after its turn.
func (w *harness) waitSent() {
	w.Helper()
	w.waitFor("everything is sent", func() bool { return w.app.Store().Stats().Outbox == 0 })
}

// deny denies the request of an approval and waits for the answer.
func (w *harness) deny() {
	w.Helper()
	w.askBot("no", "did not allow it")
	w.waitEnded()
	w.waitSent()
}

// secretFile is the content of the daemon's files in the tests.
const secretFile = "correct-horse-battery"

// TestCommandsAskForFilesOfTheDaemon: without a sandbox, a command that names files of the
// daemon by where it runs needs an approval.
func TestCommandsAskForFilesOfTheDaemon(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	inOrder(putFile("http.key", secretFile), putFile("memories/a/x.md", secretFile), putFile("workspace/sub/a.txt", "inner\n"), putFile("workspace/b.txt", "bread\n"), putFile("workspace/scripts/c.txt", "bread\n"))(w)
	w.start()
	w.waitConnected()
	for _, c := range []map[string]any{
		{"command": "rev ../http.key"}, {"command": "head ../http.key"}, {"command": "echo x >> ../http.key"},
		{"command": "cd .. && cat http.key"}, {"command": "cat sub/../../http.key"},
		{"command": "cat ../../http.key", "workdir": "sub"}, {"command": "cp -r ../memories m"}, {"command": "cat " + w.path("http.key")},
		{"command": "rm ../http.key"},
	} {
		text := w.ask("terminal", c)
		if !strings.Contains(text, "May I run this?") || !strings.Contains(text, "the daemon's own configuration") || strings.Contains(text, secretFile) {
			t.Errorf("%v: %s", c, text)
			continue
		}
		w.deny()
	}
	// Which file is named is not known, so an approval covers only this command.
	for _, c := range []string{
		"xargs -a ../http.key", `cat "$(dirname "$PWD")/http.key"`, `cat "${PWD%/*}/config.yaml"`, `d=$(pwd); cat "${d%/*}/config.yaml"`,
		"ln -s . l && cd l && cat ../http.key", "ln -s . m && cd m && cat ../config.yaml",
	} {
		text := w.ask("terminal", map[string]any{"command": c})
		if !strings.Contains(text, "May I run this?") || strings.Contains(text, "always") || strings.Contains(text, secretFile) {
			t.Errorf("%s: %s", c, text)
		}
		if strings.Contains(text, "May I run this?") {
			w.deny()
		}
	}
	for _, c := range []map[string]any{
		{"command": "cat b.txt"}, {"command": "cd sub && cat ../b.txt"}, {"command": "cd sub && cat ../scripts/c.txt"}, {"command": "cat ../b.txt", "workdir": "sub"}, {"command": "cat " + w.path("workspace/b.txt")},
	} {
		if text := w.ask("terminal", c); !strings.Contains(text, "result: bread") {
			t.Errorf("%v: %s", c, text)
		}
	}
	if got := w.readFile("http.key"); got != secretFile {
		t.Errorf("the key is %q", got)
	}
}

// TestOperatorsRowsAllowCommands: a command that approvals.commands allows runs unasked.
func TestOperatorsRowsAllowCommands(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: onlyOwner + "approvals:\n  commands: ['frobnicate :print']\n"})
	w.start()
	w.waitConnected()
	if text := w.ask("terminal", map[string]any{"command": "frobnicate 1"}); !strings.Contains(text, "result: ") {
		t.Errorf("it is asked about: %s", text)
	}
	if text := w.ask("terminal", map[string]any{"command": "frobnicat 1"}); !strings.Contains(text, "May I run this?") {
		t.Errorf("another command runs unasked: %s", text)
	}
	w.deny()
}
