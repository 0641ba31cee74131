package app_test

import (
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// TestScheduledPromptContextFiles: a job without a folder has neither SOUL.md nor
// context files; agent.load_soul enables SOUL.md; a job with a folder has both, if
// its creator may name that folder.
func TestScheduledPromptContextFiles(t *testing.T) {
	for sentence, c := range map[string]struct {
		config  string
		workdir string
		level   access.Level
		want    []string // words that begin with "!" must be absent
	}{
		"no folder":                        {level: access.Owner, want: []string{"!I am Ada", "!keep to the plan", "!build it here", "You are Hermes"}},
		"no folder, and load_soul":         {config: "agent: {load_soul: true}", level: access.Owner, want: []string{"I am Ada", "!keep to the plan", "!You are Hermes"}},
		"a folder":                         {workdir: "project", level: access.Owner, want: []string{"I am Ada", "build it here", "!keep to the plan"}},
		"a folder, and skip_context_files": {config: "agent: {skip_context_files: true}", workdir: "project", level: access.Owner, want: []string{"!I am Ada", "!build it here"}},
		"skip_context_files and load_soul": {config: "agent: {skip_context_files: true, load_soul: true}", workdir: "project", level: access.Owner, want: []string{"I am Ada", "!build it here"}},
		"a folder that is not there":       {workdir: "nowhere", level: access.Owner, want: []string{"I am Ada", "!build it here"}},
		"a member's folder elsewhere":      {workdir: "project", level: access.Member, want: []string{"!I am Ada", "!build it here"}},
		"a member's link out of it":        {workdir: "workspace/out", level: access.Member, want: []string{"!I am Ada", "!build it here"}},
		"a member's in the workspace":      {workdir: "workspace", level: access.Member, want: []string{"I am Ada", "keep to the plan"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sentence: sentence, config: c.config})
			w.scriptModel()
			inOrder(putFile("SOUL.md", "I am Ada."), putFile("workspace/AGENTS.md", "Always keep to the plan."), putFile("project/AGENTS.md", "Please build it here."),
				putLink("../project", "workspace/out"))(w)
			w.start()
			w.waitConnected()
			at, when, text := w.path(c.workdir), "every 12h", "tell the news"
			if c.workdir == "" {
				at = ""
			}
			to := []string{w.placeholders().Replace("telegram:$ANN")}
			jobs := w.app.Gateway().JobManager()
			_, err := jobs.Create(w.ctx, schedule.Caller{Principal: access.Principal{Platform: chat.Cron, ID: "somebody", Level: c.level}}, "news", schedule.JobPatch{Schedule: &when, Prompt: &text, Workdir: &at, Deliver: &to})
			w.must(err)
			_, err = jobs.Run(w.ctx, schedule.OperatorCaller(), "news", "")
			w.must(err)
			w.waitText("echo: tell the news")
			promptHas(c.want...)(w, w.model.Requests()[0].Request)
			if c.level < access.Owner && strings.Contains(strings.Join(c.want, ""), "!I am") {
				w.waitLog("context files of a scheduled prompt are excluded")
			}
		})
	}
}
