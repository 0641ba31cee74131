package app_test

import (
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// TestTheToolsOfAScheduledPromptWorkInItsFolder: as long as that is in the
// workspace; and the prompt says where they are.
func TestTheToolsOfAScheduledPromptWorkInItsFolder(t *testing.T) {
	for sentence, c := range map[string]struct{ workdir, command, sees, told string }{
		"a folder of the workspace": {"workspace/garden", `{"command":"basename $(pwd); cat plan"}`, "result: garden\nroses", "works in the folder garden of the workspace"},
		"another one that is named": {"workspace/garden", `{"command":"cat plan","workdir":"."}`, "result: bread", "works in the folder garden of the workspace"},
		"a folder elsewhere":        {"project", `{"command":"cat plan"}`, "result: bread", "is not in the workspace"},
		"a link out of it":          {"workspace/out", `{"command":"cat plan"}`, "result: bread", "is not in the workspace"},
		"the workspace":             {"workspace", `{"command":"cat plan"}`, "result: bread", "!of this job"},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fault{sandboxed: true})
			all(put("workspace/garden/plan", "roses"), put("workspace/plan", "bread"), put("project/plan", "secret"), link("../project", "workspace/out"))(w)
			w.start()
			w.online()
			at, when, text := w.path(c.workdir), "every 12h", use("terminal", c.command)
			to := []string{w.names().Replace("telegram:$ANN")}
			jobs := w.app.Gateway().Jobs()
			_, err := jobs.Create(w.ctx, schedule.Viewer{By: access.Principal{Platform: chat.Cron, ID: "somebody", Level: access.Owner}}, "garden", schedule.Draft{Schedule: &when, Prompt: &text, Workdir: &at, Deliver: &to})
			w.must(err)
			_, err = jobs.Run(w.ctx, schedule.Machine(), "garden", "")
			w.must(err)
			w.sees(c.sees)
			told(c.told)(w, w.model.Requests()[0].Request)
		})
	}
}
