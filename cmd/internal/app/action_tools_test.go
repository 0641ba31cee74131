package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/sim/telegram"
)

// use returns the message that makes the model use a tool.
func use(name, args string) string { return "use " + name + " " + args }

// readFile returns the content of a file in the home directory.
func (w *harness) readFile(name string) string {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(w.home, name))
	if err != nil {
		w.Errorf("%s: %v", name, err)
	}
	return string(raw)
}

// newSkill is a message that creates the skill fresh, which needs a tool.
func newSkill(needs string) string {
	return use("skill_manage", `{"action":"create","name":"fresh","content":"---\nname: fresh\ndescription: d\nmetadata:\n  hermes:\n    requires_tools: [`+needs+`]\n---\nStir well."}`)
}

// Each tool, from the owner's message to its effect.
func TestActionToolsTakeEffect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sentence string
		config   string
		say      string
		then     func(*harness) // answers the request or question of the tool
		sees     string
		after    func(*harness)
	}{
		{
			sentence: "a command runs in the workspace", say: use("terminal", `{"command":"echo hello | tee a.txt"}`), sees: "result: hello",
			after: func(w *harness) {
				if got := w.readFile("workspace/a.txt"); got != "hello\n" {
					w.Errorf("the file holds %q", got)
				}
			},
		},
		{
			sentence: "a dangerous command runs once a person has allowed it", say: use("terminal", `{"command":"mkdir b && rm -rf b && echo gone"}`),
			then: func(w *harness) { w.waitText("May I run this?"); w.say("/approve") }, sees: "result: gone",
		},
		{
			sentence: "a dangerous command that is denied does not run", say: use("terminal", `{"command":"touch c && rm -rf c"}`),
			then: func(w *harness) { w.waitText("May I run this?"); w.say("no") }, sees: "did not allow it",
			after: func(w *harness) {
				if _, err := os.Stat(filepath.Join(w.home, "workspace", "c")); err == nil {
					w.Error("a part of it has run")
				}
			},
		},
		{
			sentence: "what is blocked nobody is asked about", say: use("terminal", `{"command":"rm -rf /"}`), sees: "it deletes or moves away the root",
		},
		{
			sentence: "with approvals off a dangerous command runs unasked", config: "approvals:\n  mode: off\n", say: use("terminal", `{"command":"mkdir b && rm -rf b && echo gone"}`), sees: "result: gone",
		},
		{
			sentence: "without a terminal there is none", config: "terminal:\n  enabled: false\n", say: use("terminal", `{"command":"echo hello"}`), sees: "no tool called",
		},
		{
			sentence: "a command gets no key of the environment", say: use("terminal", `{"command":"env | grep -c -i -E '^[^=]*(key|token|secret)' || true"}`),
			then: func(w *harness) { w.waitText("May I run this?"); w.say("/approve") }, sees: "result: 0",
		},
		{
			sentence: "a file is written into the workspace", say: use("write_file", `{"path":"notes/a.md","content":"buy milk\n"}`), sees: "notes/a.md",
			after: func(w *harness) {
				if got := w.readFile("workspace/notes/a.md"); got != "buy milk\n" {
					w.Errorf("the file holds %q", got)
				}
			},
		},
		{
			sentence: "the configuration is no file of the tools, also where they work in the home", config: "terminal:\n  cwd: ./\n",
			say: use("write_file", `{"path":"config.yaml","content":"access: {allow_all: true}"}`), sees: "belongs to the daemon",
			after: func(w *harness) {
				if strings.Contains(w.readFile("config.yaml"), "allow_all") {
					w.Error("it was changed")
				}
			},
		},
		{
			sentence: "a question with choices is answered by a number", say: use("clarify", `{"question":"Tea or coffee?","choices":["tea","coffee"]}`),
			then: func(w *harness) { w.waitText("Tea or coffee?"); w.say("2") }, sees: "result: The person chose 2: coffee",
		},
		{
			sentence: "a message goes where it is sent", say: use("send_message", `{"action":"send","target":"origin","message":"psst"}`),
			then: func(w *harness) { w.waitText("psst") }, sees: "on its way to",
		},
		{
			sentence: "the places to send to are known", say: use("send_message", `{"action":"list"}`), sees: "result: Targets (1):\n• telegram:100001",
		},
		{
			sentence: "a private address is not read", say: use("web_extract", `{"urls":["http://127.0.0.1:1/admin"]}`), sees: "not a place to fetch from",
		},
		{
			sentence: "a sub-agent does a task and reports", say: use("delegate_task", `{"goal":"count the apples"}`), sees: "completed (",
			after: func(w *harness) {
				if asked := strings.Join(w.modelQuestions(), "\n"); !strings.Contains(asked, "Task: count the apples") {
					w.Errorf("the model was asked %s", asked)
				}
			},
		},
		{
			sentence: "a skill is shown where the tools that it needs are", say: newSkill("delegate_task"),
			then: func(w *harness) { w.waitText("is written"); w.say(use("skill_view", `{"name":"fresh"}`)) }, sees: "Stir well.",
		},
		{
			sentence: "a skill is not shown where a tool that it needs is not", say: newSkill("oven"),
			then: func(w *harness) { w.waitText("is written"); w.say(use("skill_view", `{"name":"fresh"}`)) }, sees: "the skill fresh is not offered here",
		},
		{
			sentence: "a scheduled prompt is made, and comes when it is asked for", say: use("cronjob", `{"action":"create","schedule":"every weekday at 9am","prompt":"tell the news","name":"news"}`), sees: "Created.",
			after: func(w *harness) {
				w.say("/cron run news")
				w.waitText("echo: tell the news")
				w.say("thanks") // continues after it
				w.waitText("thanks")
				if asked := w.modelQuestions(); !strings.Contains(asked[len(asked)-1], "scheduled prompt") {
					w.Errorf("the conversation does not know of it: %q", asked[len(asked)-1])
				}
				out, err := filepath.Glob(filepath.Join(w.home, "cron", "output", "*", "*.md"))
				if err != nil || len(out) != 1 {
					w.Errorf("kept are %q, %v", out, err)
				}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{config: tt.config, sandboxed: true})
			w.start()
			w.waitConnected()
			w.say(tt.say)
			if tt.then != nil {
				tt.then(w)
			}
			w.waitText(tt.sees)
			if tt.after != nil {
				tt.after(w)
			}
			w.stop()
			w.checkLog()
		})
	}
}

// A guest gets an error for each action tool, and the tool has no effect.
func TestGuestCannotUseActionTools(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "access:\n  owners: [$ANN]\n", telegram: "allow_all: true\n"})
	w.start()
	w.waitConnected()
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	c := bob.Chat(w.bot)
	for name, args := range map[string]string{
		"terminal": `{"command":"touch owned"}`, "write_file": `{"path":"owned","content":"x"}`, "send_message": `{"action":"list"}`,
		"cronjob": `{"action":"list"}`, "delegate_task": `{"goal":"x"}`, "web_extract": `{"urls":["http://example.com/"]}`,
	} {
		c.Say(bob, use(name, args))
		w.waitTextIn(c, name+" is for people of level")
	}
	if _, err := os.Stat(filepath.Join(w.home, "workspace", "owned")); err == nil {
		t.Error("it has happened")
	}
}

// writeScript writes a file into the folder scripts of the home directory.
func (w *harness) writeScript(name, text string) {
	w.Helper()
	dir := filepath.Join(w.home, "scripts")
	w.must(os.MkdirAll(dir, 0o700))
	w.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestScheduledPromptScripts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sentence, name, text string
		alone                bool
		slot, sees           string
	}{
		{"what a script writes comes before the prompt", "a.sh", "echo 42 new", false, "ran ok", "42 new"},
		{"a script alone says what it writes", "a.sh", "echo 42 new", true, "ran ok", "42 new"},
		{"a script that fails is told", "a.sh", "echo no disk >&2; exit 3", false, "ran failed", "Something went wrong"},
		{"a script that is not there is told", "b.sh", "", false, "ran failed", "Something went wrong"},
		{"a file that cannot be run is told", "a.txt", "hello", false, "ran failed", "Something went wrong"},
	}
	for _, tt := range tests {
		t.Run(tt.sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{})
			w.writeScript("a.sh", tt.text)
			w.writeScript("a.txt", tt.text)
			w.start()
			w.waitConnected()
			w.askEcho("hello")
			w.waitEnded()
			rec, err := w.app.Store().Sessions(w.ctx, session.Query{Max: 1})
			w.must(err)
			when, prompt := "in 3 days", "look at it"
			draft := schedule.JobPatch{Schedule: &when, Prompt: &prompt, Script: &tt.name, ScriptOnly: &tt.alone}
			viewer := schedule.Caller{Principal: access.Principal{Platform: "telegram", ID: rec[0].Owner, Level: access.Owner}, Address: rec[0].Address}
			j, err := w.app.Pipeline().Cron().Manager().Create(w.ctx, viewer, "", draft)
			w.must(err)
			_, err = w.app.Pipeline().Cron().Manager().Run(w.ctx, viewer, string(j.ID), "now")
			w.must(err)
			w.waitText(tt.sees)
			w.waitFor("the slot is "+tt.slot, func() bool {
				slots, err := w.app.Store().Occurrences(w.ctx, j.ID, 1)
				return err == nil && len(slots) == 1 && strings.HasPrefix(string(slots[0].State)+" "+string(slots[0].Result), tt.slot)
			})
		})
	}
}

// A link must not lead out of the folder of scripts.
func TestScriptOutsideOfFolderIsRejected(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.writeScript("a.sh", "true")
	w.writeFile("evil.sh", "echo evil")
	w.must(os.Symlink(filepath.Join(w.home, "evil.sh"), filepath.Join(w.home, "scripts", "link.sh")))
	w.start()
	w.waitConnected()
	a := w.app
	if _, err := a.Script(w.ctx, schedule.Job{Script: "link.sh"}); err == nil || !strings.Contains(err.Error(), "not in the folder") {
		t.Errorf("got %v", err)
	}
	if out, err := a.Script(w.ctx, schedule.Job{Script: "a.sh"}); out != "" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// A hung command must not delay the stop of the daemon.
func TestHungCommandEndsWithDaemon(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "gateway:\n  drain_timeout: 1s\n", sandboxed: true})
	w.start()
	w.waitConnected()
	w.say(use("terminal", `{"command":"echo $$ > pid; sleep 600"}`))
	w.waitFor("the command runs", func() bool { _, err := os.Stat(filepath.Join(w.home, "workspace", "pid")); return err == nil })
	began := time.Now()
	w.stop()
	if took := time.Since(began); took > testTimeout {
		t.Errorf("the stop took %v", took)
	}
}

// A new conversation has no access to the background commands of the old one, so
// they end with it.
func TestNewConversationEndsBackgroundCommands(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: onlyOwner, telegram: "allow_all: true"})
	w.start()
	w.waitConnected()
	bob := w.newTalker(time.Hour) // an unrelated conversation
	w.askBot(use("terminal", `{"background":true,"command":"sleep `+w.processMark()+`"}`), "result: p1 runs in the background")
	bob.end()
	bob.answered()
	bob.chat.Say(bob.who, "/new")
	w.waitTextIn(bob.chat, "A new conversation begins.")
	if n := len(w.processesWith(w.processMark())); n == 0 {
		t.Error("somebody else's /new has ended it")
	}
	w.askBot("/new", "A new conversation begins.", "The command that it runs in the background is ended.")
	w.waitProcessesEnd(w.processMark())
	w.askBot(use("process", `{"action":"list"}`), "result: This conversation has no background processes.")
	if said := w.askBot("/new", "A new conversation begins."); strings.Contains(said, "background") {
		t.Errorf("it says %q", said)
	}
}
