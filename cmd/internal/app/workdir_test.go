package app_test

import (
	"slices"
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// TestScheduledPromptToolsUseItsFolder: commands run in the folder of the job if it
// is in the workspace, and the prompt says so.
func TestScheduledPromptToolsUseItsFolder(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]struct{ workdir, command, sees, told string }{
		"a folder of the workspace": {"workspace/garden", `{"command":"basename $(pwd); cat plan"}`, "result: garden\nroses", "works in the folder garden of the workspace"},
		"another one that is named": {"workspace/garden", `{"command":"cat plan","workdir":"."}`, "result: bread", "works in the folder garden of the workspace"},
		"a folder elsewhere":        {"project", `{"command":"cat plan"}`, "result: bread", "is not in the workspace"},
		"a link out of it":          {"workspace/out", `{"command":"cat plan"}`, "result: bread", "is not in the workspace"},
		"the workspace":             {"workspace", `{"command":"cat plan"}`, "result: bread", "!of this job"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sandboxed: true})
			inOrder(putFile("workspace/garden/plan", "roses"), putFile("workspace/plan", "bread"), putFile("project/plan", "secret"), putLink("../project", "workspace/out"))(w)
			w.start()
			w.waitConnected()
			at, when, text := w.path(c.workdir), "every 12h", use("terminal", c.command)
			to := []string{w.placeholders().Replace("telegram:$ANN")}
			jobs := w.app.Pipeline().Cron().Manager()
			_, err := jobs.Create(w.ctx, schedule.Caller{Principal: access.Principal{Platform: chat.Cron, ID: "somebody", Level: access.Owner}}, "garden", schedule.JobPatch{Schedule: &when, Prompt: &text, Workdir: &at, Deliver: &to})
			w.must(err)
			_, err = jobs.Run(w.ctx, schedule.OperatorCaller(), "garden", "")
			w.must(err)
			w.waitText(c.sees)
			promptHas(c.told)(w, w.model.Requests()[0].Request)
		})
	}
}

// TestScheduledPromptMayScheduleIfAllowed: the new job belongs to the creator of the
// first one and to the same chat.
func TestScheduledPromptMayScheduleIfAllowed(t *testing.T) {
	t.Parallel()
	child := `use cronjob {\"action\":\"create\",\"schedule\":\"every 5h\",\"prompt\":\"tell the news\",\"name\":\"child\"}`
	for name, c := range map[string]struct{ config, sees string }{
		"as it is":            {"", "result: Refused: a scheduled prompt does not schedule others"},
		"where it is allowed": {"cron: {allow_agent_scheduling: true}", "result: Created."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{config: c.config})
			w.start()
			w.waitConnected()
			w.say(use("cronjob", `{"action":"create","schedule":"every 12h","name":"parent","prompt":"`+child+`"}`))
			w.waitText("result: Created.")
			w.say("/cron pause parent")
			w.waitText("paused")
			before := len(w.visibleTexts(w.chat))
			w.say("/cron run parent")
			w.waitFor("the run is told", func() bool {
				return slices.ContainsFunc(w.visibleTexts(w.chat)[before:], func(s string) bool { return strings.HasPrefix(s, c.sees) })
			})
			jobs, err := w.app.Pipeline().Cron().Manager().List(w.ctx, schedule.OperatorCaller())
			w.must(err)
			made := map[string]schedule.JobView{}
			for _, j := range jobs {
				made[j.Name] = j
			}
			if _, ok := made["child"]; ok != (c.config != "") {
				t.Fatalf("jobs: %+v", made)
			} else if ok && (made["child"].Origin != made["parent"].Origin || made["child"].Creator != made["parent"].Creator) {
				t.Errorf("made at %v by %+v", made["child"].Origin, made["child"].Creator)
			}
		})
	}
}

// TestScheduledRunAsksNoQuestions: dangerous commands are denied and others run.
func TestScheduledRunAsksNoQuestions(t *testing.T) {
	t.Parallel()
	for command, sees := range map[string]string{
		"mkdir b && rm -rf b && echo gone": "Nobody is there to allow it in this unattended turn",
		"echo harmless":                    "harmless",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sandboxed: true})
			w.start()
			w.waitConnected()
			when, text, to := "every 12h", use("terminal", `{"command":"`+command+`"}`), []string{w.placeholders().Replace("telegram:$ANN")}
			jobs := w.app.Pipeline().Cron().Manager()
			_, err := jobs.Create(w.ctx, schedule.Caller{Principal: access.Principal{Platform: chat.Cron, ID: "somebody", Level: access.Owner}}, "job", schedule.JobPatch{Schedule: &when, Prompt: &text, Deliver: &to})
			w.must(err)
			_, err = jobs.Run(w.ctx, schedule.OperatorCaller(), "job", "")
			w.must(err)
			w.waitFor("the run is told", func() bool {
				return slices.ContainsFunc(w.visibleTexts(w.chat), func(s string) bool { return strings.HasPrefix(s, "result: ") && strings.Contains(s, sees) })
			})
		})
	}
}
