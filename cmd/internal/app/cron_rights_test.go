package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/gateway/schedule"
	"hermesd/internal/sim/telegram"
	"hermesd/storage/bolt"
)

// A member, or a model that obeys injected instructions in the member's chat, tries to
// deliver to another chat, to run a script of the operator and to name a folder, with a new
// job, with a changed one and with one that an older version stored.
func TestMemberSchedulesOnlyForOwnChat(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	w.writeConfig(fmt.Sprintf("access: {owners: [$ANN], allow_from: [%d]}\n", bob.ID()), "")
	w.writeScript("leak.sh", "touch "+filepath.Join(w.home, "owned")+"; echo the secret")
	w.start()
	w.waitConnected()
	c := bob.Chat(w.bot)
	w.askEcho("hello")
	extras := map[string]string{
		`"deliver":"` + w.placeholders().Replace("telegram:$ANN") + `"`: "may deliver to",
		`"script":"leak.sh","no_agent":true`:                            "may run a script",
		`"workdir":"/etc"`:                                              "may have a workdir",
	}
	attempts := func(action string) {
		for extra, refused := range extras {
			refusals := func() int {
				return strings.Count(strings.Join(w.visibleTexts(c), "\n"), "only the job of an owner "+refused)
			}
			before := refusals()
			c.Say(bob, use("cronjob", `{"action":`+action+`,"prompt":"you are owned",`+extra+`}`))
			w.waitFor("it is refused: "+extra, func() bool { return refusals() > before })
		}
	}
	attempts(`"create","schedule":"every 5h"`)
	c.Say(bob, use("cronjob", `{"action":"create","schedule":"every 5h","prompt":"tell the news","name":"news"}`))
	w.waitTextIn(c, "result: Created.")
	attempts(`"update","job_id":"news"`)
	c.Say(bob, "/cron run news")
	w.waitTextIn(c, "echo: tell the news")

	jobs, err := w.app.Pipeline().Cron().Manager().List(w.ctx, schedule.OperatorCaller())
	w.must(err)
	if len(jobs) != 1 {
		t.Fatalf("jobs: %+v", jobs)
	}
	w.stop()
	w.storeJobOfOlderVersion(jobs[0].ID)
	for range 2 {
		w.start()
		w.waitConnected()
		w.waitTextIn(c, "I paused the scheduled prompt")
		w.waitText("I paused the scheduled prompt")
		w.askEcho("still here")
		w.stop()
	}
	for _, chat := range []*telegram.Chat{c, w.chat} {
		all := strings.Join(w.visibleTexts(chat), "\n")
		if n := strings.Count(all, "I paused the scheduled prompt"); n != 1 || strings.Contains(all, "the secret") {
			t.Errorf("told %d times: %s", n, all)
		}
	}
	if _, err := os.Stat(w.path("owned")); err == nil || strings.Contains(strings.Join(w.visibleTexts(w.chat), "\n"), "owned") {
		t.Errorf("the owner's chat: %q", w.visibleTexts(w.chat))
	}
}

// storeJobOfOlderVersion gives a stored job a script, and requests a run of it.
func (w *harness) storeJobOfOlderVersion(id schedule.JobID) {
	w.Helper()
	s, err := bolt.Open(w.ctx, w.path("hermesd.db"), bolt.Options{})
	w.must(err)
	defer func() { w.must(s.Close()) }()
	_, err = s.EditJob(w.ctx, id, func(j *schedule.Job) error {
		j.Script, j.ScriptOnly, j.State.ManualRunAt = "leak.sh", true, j.Created
		return nil
	})
	w.must(err)
}
