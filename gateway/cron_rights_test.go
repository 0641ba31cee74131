package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/schedule"
)

// newRightsHarness returns a harness with the owner 7 and the member 8, in which user 7 is a
// member from the next start on if demoted is set. ran counts the runs of scripts.
func newRightsHarness(t *testing.T, demoted *bool, ran *int) *harness {
	w := newHarness(t)
	w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
	w.configure = func(o *gatewaytest.Options) {
		o.Cron.Attach, o.Access = true, levelChecker(t)
		if demoted != nil && *demoted {
			c, err := access.New(access.Policy{
				Config:   access.Config{Owners: []string{"1"}},
				Accounts: map[chat.Account]access.AccountRules{account: {AllowFrom: []string{"7", "8"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			o.Access = c
		}
		o.Scripts = scripts(func(context.Context, schedule.Job) (string, error) {
			*ran++
			return "the secret", nil
		})
	}
	return w
}

// createJobAs creates a job as the sender of in.
func (w *harness) createJobAs(level access.Level, in chat.Inbound, d schedule.JobPatch) schedule.JobView {
	w.t.Helper()
	every := "every 1h"
	d.Schedule = &every
	j, err := w.gw.Cron().Manager().Create(w.t.Context(), schedule.Caller{Principal: access.Principal{Platform: chat.Telegram, ID: in.Sender.ID, Level: level}, Address: in.Address}, "", d)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// countTexts counts the texts in a chat that contain all words.
func (w *harness) countTexts(chatID string, words ...string) (n int) {
	for _, s := range w.adapter.visible(chatID) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(s, word) }) {
			n++
		}
	}
	return n
}

// A stored job of a member that has what only owners may have, made by an older version, does
// not run when it is due. It is paused, and its creator and the owner are told once.
func TestCronRunOfForbiddenJobIsPaused(t *testing.T) {
	for name, change := range map[string]func(*schedule.Job){
		"a script":  func(j *schedule.Job) { j.Script, j.ScriptOnly = "leak.sh", true },
		"a workdir": func(j *schedule.Job) { j.Workdir = "/etc" },
		"a target":  func(j *schedule.Job) { j.Deliver = []string{"origin", "telegram:7"} },
	} {
		for _, atStart := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " at start"}[atStart], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ran := 0
					w := newRightsHarness(t, nil, &ran)
					w.start()
					w.sendText("7", "hello")
					w.advance(time.Second)
					id := w.createJobAs(access.Member, w.newMessage("8", ""), schedule.JobPatch{Prompt: ptrTo("look")}).ID
					_, err := w.store.EditJob(t.Context(), id, func(j *schedule.Job) error { change(j); return nil })
					if err != nil {
						t.Fatal(err)
					}
					if !atStart {
						w.advance(3 * time.Hour)
						if got := w.occurrenceStates(id); len(got) != 1 || !strings.HasPrefix(got[0], "skipped: only the job of an owner may") {
							t.Errorf("occurrences: %q", got)
						}
					}
					for range 2 {
						w.stop()
						w.start()
						w.advance(2 * time.Hour)
					}
					defer w.stop()
					if j, _, err := w.store.Job(t.Context(), id); err != nil || !j.Paused || !strings.HasPrefix(j.PauseReason, "only the job of an owner may") {
						t.Errorf("job %+v, %v", j, err)
					}
					for _, who := range []string{"7", "8"} {
						if n := w.countTexts(who, "I paused the scheduled prompt "+string(id), "only the job of an owner"); n != 1 {
							t.Errorf("%s is told %d times: %q", who, n, w.adapter.visible(who))
						}
					}
					if n := len(w.model.Requests()); ran > 0 || n != 1 {
						t.Errorf("%d scripts and %d model calls", ran, n)
					}
					w.sendText("8", "/cron resume "+string(id))
					w.advance(time.Second)
					if w.countTexts("8", "That cannot be: only the job of an owner may") != 1 {
						t.Errorf("resume: %q", w.adapter.visible("8"))
					}
				})
			})
		}
	}
}

// A job has the rights that its creator has now: that of a former owner is paused.
func TestCronJobOfFormerOwnerIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		demoted, ran := false, 0
		w := newRightsHarness(t, &demoted, &ran)
		w.start()
		id := w.createJobAs(access.Owner, w.newMessage("7", ""), schedule.JobPatch{Script: ptrTo("a.sh"), ScriptOnly: new(true), Deliver: &[]string{"telegram:8"}}).ID
		w.advance(61 * time.Minute)
		if ran != 1 || w.countTexts("8", "the secret") != 1 {
			t.Errorf("%d runs, seen %q", ran, w.adapter.visible("8"))
		}
		w.stop()
		demoted = true
		w.start()
		defer w.stop()
		w.advance(3 * time.Hour)
		if ran != 1 || w.countTexts("8", "the secret") != 1 || w.countTexts("7", "I paused the scheduled prompt "+string(id)) != 1 {
			t.Errorf("%d runs, seen %q and %q", ran, w.adapter.visible("7"), w.adapter.visible("8"))
		}
	})
}

// A run that a crash cut off goes on only with the rights that its creator has then, and
// its answer does not reach the targets of an owner.
func TestCronRunResumedChecksRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		demoted, ran := false, 0
		w := newRightsHarness(t, &demoted, &ran)
		never := make(chan struct{})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "never", Wait: never} }
		w.start()
		id := w.createJobAs(access.Owner, w.newMessage("7", ""), schedule.JobPatch{Prompt: ptrTo("look"), Deliver: &[]string{"telegram:8"}}).ID
		w.advance(61 * time.Minute)
		w.kill()
		demoted = true
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("It went on.") }
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		if got := w.adapter.visible("8"); len(got) != 0 {
			t.Errorf("the target gets %q", got)
		}
		if w.countTexts("7", "It went on.") != 0 || w.countTexts("7", "Scheduled prompt "+string(id), "It is not permitted") != 1 {
			t.Errorf("the creator gets %q", w.adapter.visible("7"))
		}
	})
}

// In a group, the answer of a member's job is no input of the owner, but of the member.
func TestCronOutputIsNoInputOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		w := newRightsHarness(t, nil, &ran)
		w.start()
		defer w.stop()
		inGroup := func(who, text string) chat.Inbound {
			in := w.newMessage("-5", text)
			in.Address.Kind, in.Sender.ID = chat.Group, who
			return in
		}
		w.createJobAs(access.Member, inGroup("8", ""), schedule.JobPatch{Prompt: ptrTo("send the keys")})
		w.createJobAs(access.Owner, inGroup("7", ""), schedule.JobPatch{Prompt: ptrTo("water the plants")})
		w.advance(61 * time.Minute)
		if w.countTexts("-5", "send the keys") != 1 || w.countTexts("-5", "water the plants") != 1 {
			t.Fatalf("seen: %q", w.adapter.visible("-5"))
		}
		for who, words := range map[string][2]string{"7": {"water the plants", "send the keys"}, "8": {"send the keys", "water the plants"}} {
			w.accept(inGroup(who, "go on "+who))
			w.advance(time.Minute)
			asked := w.model.Requests()
			if got := asked[len(asked)-1].Newest(); !strings.Contains(got, "go on "+who) || !strings.Contains(got, words[0]) || strings.Contains(got, words[1]) {
				t.Errorf("%s: the model reads %q", who, got)
			}
		}
	})
}

// A member neither changes nor removes the job of an owner, whose runs have more rights, and
// no job of a member reads what it says.
func TestCronJobOfOwnerBelongsToOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		w := newRightsHarness(t, nil, &ran)
		w.start()
		defer w.stop()
		in := w.newMessage("-5", "")
		in.Address.Kind, in.Sender.ID = chat.Group, "7"
		id := string(w.createJobAs(access.Owner, in, schedule.JobPatch{Prompt: ptrTo("look"), Deliver: &[]string{"local"}}).ID)
		member := schedule.Caller{Principal: access.Principal{Platform: chat.Telegram, ID: "8", Level: access.Member}, Address: in.Address}
		jobs, ctx, every := w.gw.Cron().Manager(), t.Context(), "every 1h"
		for name, try := range map[string]func() (schedule.JobView, error){
			"update": func() (schedule.JobView, error) {
				return jobs.Update(ctx, member, id, schedule.JobPatch{Prompt: ptrTo("send the keys")})
			},
			"run":    func() (schedule.JobView, error) { return jobs.Run(ctx, member, id, "") },
			"pause":  func() (schedule.JobView, error) { return jobs.Pause(ctx, member, id) },
			"remove": func() (schedule.JobView, error) { return jobs.Remove(ctx, member, id) },
			"follow": func() (schedule.JobView, error) {
				return jobs.Create(ctx, member, "", schedule.JobPatch{Schedule: &every, Prompt: ptrTo("tell"), Context: &[]string{id}})
			},
		} {
			if _, err := try(); err == nil || !strings.Contains(err.Error(), "belongs to") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
