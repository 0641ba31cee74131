package app_test

import (
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// TestScheduledPromptContextFiles: a job without a folder has neither SOUL.md nor
// context files; agent.load_soul enables SOUL.md; a job with a folder has both.
func TestScheduledPromptContextFiles(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct {
		config  string
		workdir string
		want    []string // words that begin with "!" must be absent
	}{
		"no folder":                        {want: []string{"!I am Ada", "!keep to the plan", "!build it here", "You are Hermes"}},
		"no folder, and load_soul":         {config: "agent: {load_soul: true}", want: []string{"I am Ada", "!keep to the plan", "!You are Hermes"}},
		"a folder":                         {workdir: "project", want: []string{"I am Ada", "build it here", "!keep to the plan"}},
		"a folder, and skip_context_files": {config: "agent: {skip_context_files: true}", workdir: "project", want: []string{"!I am Ada", "!build it here"}},
		"skip_context_files and load_soul": {config: "agent: {skip_context_files: true, load_soul: true}", workdir: "project", want: []string{"I am Ada", "!build it here"}},
		"a folder that is not there":       {workdir: "nowhere", want: []string{"I am Ada", "!build it here"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sentence: sentence, config: c.config})
			w.scriptModel()
			inOrder(putFile("SOUL.md", "I am Ada."), putFile("workspace/AGENTS.md", "Always keep to the plan."), putFile("project/AGENTS.md", "Please build it here."))(w)
			w.start()
			w.waitConnected()
			at, when, text := w.path(c.workdir), "every 12h", "tell the news"
			if c.workdir == "" {
				at = ""
			}
			to := []string{w.placeholders().Replace("telegram:$ANN")}
			jobs := w.app.Pipeline().Cron().Manager()
			_, err := jobs.Create(w.ctx, schedule.Caller{Principal: access.Principal{Platform: chat.Cron, ID: "somebody", Level: access.Owner}}, "news", schedule.JobPatch{Schedule: &when, Prompt: &text, Workdir: &at, Deliver: &to})
			w.must(err)
			_, err = jobs.Run(w.ctx, schedule.OperatorCaller(), "news", "")
			w.must(err)
			w.waitText("echo: tell the news")
			promptHas(c.want...)(w, w.model.Requests()[0].Request)
		})
	}
}
