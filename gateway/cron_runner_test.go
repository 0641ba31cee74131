package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/reply"
	"hermesd/gateway/schedule"
)

// scripts is a cron.Scripts.
type scripts func(context.Context, schedule.Job) (string, error)

func (s scripts) Run(ctx context.Context, j schedule.Job) (string, error) { return s(ctx, j) }

// newCronHarness returns a harness whose owner, user 7, may schedule prompts.
func newCronHarness(t *testing.T, answers ...llmtest.Answer) *harness {
	w := newHarness(t, answers...)
	w.configure = func(o *gatewaytest.Options) {
		o.Access, o.Cron.Attach = ownerChecker(t), true
		o.Scripts = scripts(func(_ context.Context, j schedule.Job) (string, error) {
			switch j.Script {
			case "quiet.sh":
				return "nothing new\n{\"wakeAgent\": false}", nil
			case "broken.sh":
				return "", errors.New("exit status 3")
			}
			return "42 new\n{\"wakeAgent\": true}", nil
		})
	}
	return w
}

// createJob creates a job as user 7.
func (w *harness) createJob(d schedule.JobPatch) schedule.JobID {
	w.t.Helper()
	in := w.newMessage("7", "")
	every := "every 1h"
	if d.Schedule == nil {
		d.Schedule = &every
	}
	g, _ := ownerChecker(w.t).Check(in)
	j, err := w.gw.Cron().Manager().Create(w.t.Context(), schedule.Caller{Principal: g.Principal(), Address: in.Address}, "", d)
	if err != nil {
		w.t.Fatal(err)
	}
	return j.ID
}

func ptrTo(s string) *string { return &s }

// occurrenceStates returns how the occurrences of a job ended, oldest first.
func (w *harness) occurrenceStates(id schedule.JobID) (ended []string) {
	w.t.Helper()
	slots, err := w.store.Occurrences(w.t.Context(), id, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range slots {
		line := string(s.State)
		if s.Result != "" {
			line += " " + string(s.Result)
		}
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		ended = append([]string{line}, ended...)
	}
	return ended
}

func TestCronRunStartsOnTimeAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t, llmtest.Say("Good morning."), llmtest.Say("You asked, here it is."))
		w.start()
		w.sendText("7", `/cron add 30m say good morning`)
		w.advance(29 * time.Minute)
		if n := len(w.model.Requests()); n != 0 {
			t.Fatalf("%d calls before it is due", n)
		}
		w.kill()
		w.start()
		w.advance(2 * time.Minute)
		w.stop()
		w.start()
		w.advance(time.Hour)
		seen := w.adapter.visible("7")
		if len(seen) != 2 || seen[1] != "Good morning." || !strings.Contains(seen[0], "next: ") {
			t.Errorf("seen: %q", seen)
		}
		w.sendText("7", "what did you say?") // refers to the announced text
		w.advance(time.Minute)
		if got := w.model.Requests()[1].Newest(); !strings.Contains(got, "Good morning.") || !strings.Contains(got, "scheduled prompt") {
			t.Errorf("the conversation does not know of it: %q", got)
		}
		w.stop()
	})
}

func TestCronRunOutcomes(t *testing.T) {
	tests := []struct {
		name   string
		job    schedule.JobPatch
		answer llmtest.Answer
		seen   []string
		slot   string
		asked  string // what the model reads
	}{
		{"an answer", schedule.JobPatch{Prompt: ptrTo("look")}, llmtest.Say("I looked."), []string{"I looked."}, "ran ok", "look"},
		{"silence", schedule.JobPatch{Prompt: ptrTo("look")}, llmtest.Say("[SILENT]\n"), nil, "ran ok", "look"},
		{"silence in another word", schedule.JobPatch{Prompt: ptrTo("look")}, llmtest.Say("NO_REPLY"), nil, "ran ok", "look"},
		{"silence inside of words is none", schedule.JobPatch{Prompt: ptrTo("look")}, llmtest.Say("I stay [SILENT]"), []string{"I stay [SILENT]"}, "ran ok", "look"},
		{"local", schedule.JobPatch{Prompt: ptrTo("look"), Deliver: &[]string{"local"}}, llmtest.Say("Kept."), nil, "ran ok", "look"},
		{"a failure is reported", schedule.JobPatch{Prompt: ptrTo("look")}, llmtest.Fail(llm.Auth), []string{"⚠️"}, "ran failed", "look"},
		{"a script that finds nothing", schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("quiet.sh")}, llmtest.Answer{}, nil, "ran ok", ""},
		{"a script before the prompt", schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("new.sh")}, llmtest.Say("42."), []string{"42."}, "ran ok", "42 new"},
		{"a broken script", schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("broken.sh")}, llmtest.Answer{}, []string{"Something went wrong"}, "ran failed", ""},
		{"a script alone", schedule.JobPatch{Script: ptrTo("new.sh"), ScriptOnly: new(true)}, llmtest.Answer{}, []string{"42 new"}, "ran ok", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCronHarness(t, tt.answer)
				w.start()
				defer w.stop()
				id := w.createJob(tt.job)
				w.advance(61 * time.Minute)
				seen := w.adapter.visible("7")
				if len(seen) != len(tt.seen) || len(seen) > 0 && !strings.Contains(seen[0], tt.seen[0]) {
					t.Errorf("seen: %q", seen)
				}
				slots := w.occurrenceStates(id)
				if len(slots) != 1 || !strings.HasPrefix(slots[0], tt.slot) {
					t.Errorf("slots: %q", slots)
				}
				asked := ""
				if rs := w.model.Requests(); len(rs) > 0 {
					asked = rs[0].Newest()
				}
				if (asked == "") != (tt.asked == "") || !strings.Contains(asked, tt.asked) {
					t.Errorf("the model reads %q", asked)
				}
			})
		})
	}
}

func TestCronRunSurvivesCrashDeliversOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t, llmtest.Answer{Text: "never", Wait: make(chan struct{})}, llmtest.Say("Second try."))
		w.start()
		id := w.createJob(schedule.JobPatch{Prompt: ptrTo("look")})
		w.advance(61 * time.Minute)
		w.kill()
		w.start()
		w.advance(time.Minute)
		w.kill()
		w.start()
		w.advance(time.Minute)
		if d := cmp.Diff([]string{"Second try."}, w.adapter.visible("7")); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"ran ok"}, w.occurrenceStates(id)); d != "" {
			t.Error(d)
		}
		w.stop()
	})
}

// onlyUser8 returns a checker that allows only user 8.
func onlyUser8(t *testing.T) *access.Checker {
	t.Helper()
	c, err := access.New(access.Policy{Config: access.Config{Owners: []string{"8"}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCronRunRequiresAccessOfCreator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t)
		w.start()
		id := w.createJob(schedule.JobPatch{Prompt: ptrTo("look")})
		w.stop()
		w.configure = func(o *gatewaytest.Options) { o.Access = onlyUser8(t) }
		w.start()
		w.advance(61 * time.Minute)
		if got := w.occurrenceStates(id); len(got) != 1 || !strings.HasPrefix(got[0], "skipped: 7, who made it, may not speak any more") {
			t.Errorf("slots: %q", got)
		}
		w.stop()
	})
}

// A job is removed while it runs: its target gets the answer, or why there is none, also after
// a crash.
func TestCronRunOfRemovedJobIsDelivered(t *testing.T) {
	for _, answer := range []llmtest.Answer{llmtest.Say("I looked."), llmtest.Fail(llm.Auth)} {
		for _, crash := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				running := make(chan struct{})
				slow := answer
				slow.Wait = running
				w := newCronHarness(t, slow)
				w.start()
				defer func() { w.stop() }()
				id := w.createJob(schedule.JobPatch{Prompt: ptrTo("look")})
				w.advance(61 * time.Minute)
				w.sendText("7", "/cron remove "+string(id))
				w.advance(time.Second)
				for _, say := range []string{"/cron show ", "/cron run ", "/approvals add " + string(id) + " make # "} {
					w.sendText("7", say+string(id))
					w.advance(time.Second)
					if seen := w.adapter.visible("7"); !strings.Contains(strings.ToLower(seen[len(seen)-1]), "there is no job") {
						t.Errorf("%s: %q", say, seen[len(seen)-1])
					}
				}
				if crash {
					w.kill()
					w.model = llmtest.NewScripted(answer)
					w.start()
				}
				close(running)
				w.advance(3 * time.Hour)
				want := answer.Text
				if answer.Err != nil {
					want = "⏰ Scheduled prompt " + string(id) + ": "
				}
				if seen := w.adapter.visible("7"); len(seen) != 5 || !strings.HasPrefix(seen[4], want) {
					t.Errorf("crash %v: seen %q", crash, seen)
				}
			})
		}
	}
}

func TestCronCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t)
		w.start()
		defer w.stop()
		for _, tt := range []struct{ say, want string }{
			{"/cron", "No prompt is scheduled here."},
			{`/cron add "every weekday at 9am" look at my calendar`, "next: "},
			{"/cron", "every weekday at 9am"},
			{`/cron add "every blue moon" howl`, "That cannot be"},
			{"/cron add 30m", "/cron add"},
			{`/cron pause "look at my calendar"`, "no job"},
			{"/cron pause look at my calendar", "paused"},
			{"/cron resume look at my calendar", "scheduled"},
			{"/cron history", "Nothing was due yet."},
			{"/cron remove look at my calendar", "Removed"},
			{"/cron show x", "no job"},
			{"/cron dance", "lists the scheduled prompts"},
		} {
			w.sendText("7", tt.say)
			w.advance(time.Second)
			seen := w.adapter.visible("7")
			if got := seen[len(seen)-1]; !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.say, got, tt.want)
			}
		}
	})
}

// The output of a script may attach files, although its run has no conversation.
func TestCronScriptAttachesFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t)
		configure := w.configure
		w.configure = func(o *gatewaytest.Options) {
			configure(o)
			o.Scripts = scripts(func(context.Context, schedule.Job) (string, error) { return "The report.\nMEDIA:/w/report.pdf", nil })
			o.Attach = func(path string, _ reply.AttachScope) (chat.File, error) {
				return chat.File{Kind: chat.Document, Name: path, Path: path}, nil
			}
		}
		w.start()
		defer w.stop()
		w.createJob(schedule.JobPatch{Script: ptrTo("report.sh"), ScriptOnly: new(true)})
		w.advance(2 * time.Hour)
		seen := w.adapter.visible("7")
		if len(seen) < 2 || seen[0] != "The report." || seen[1] != "file /w/report.pdf" {
			t.Errorf("seen: %q", seen)
		}
	})
}
