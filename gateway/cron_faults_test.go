package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/telegram"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/schedule"
)

// A blockingTool blocks until its context ends.
type blockingTool struct{}

func (blockingTool) Spec() tool.Spec {
	return tool.Spec{Tool: llm.Tool{Name: "stuck", Schema: []byte(`{"type":"object"}`)}, Effect: tool.Pure}
}

func (blockingTool) Run(ctx context.Context, _ tool.Call) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// setModelAnswers makes the answer of the model a function of the question.
func setModelAnswers(w *harness, answer func(asked string) llmtest.Answer) {
	w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return answer(r.Newest()) }
}

func TestCronRunTimeoutIsReported(t *testing.T) {
	for name, hangs := range map[string]llmtest.Answer{
		"a model": {Text: "never", Wait: make(chan struct{})},
		"a tool":  llmtest.Use("stuck", `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCronHarness(t)
				if hangs.Wait != nil {
					hangs.Wait = make(chan struct{}) // of this bubble
				}
				w.tools = append(w.tools, blockingTool{})
				setModelAnswers(w, func(asked string) llmtest.Answer {
					if strings.Contains(asked, "hang") {
						return hangs
					}
					return llmtest.Say("echo: " + asked)
				})
				w.start()
				defer w.stop()
				bad := w.createJob(schedule.JobPatch{Prompt: ptrTo("hang")})
				good := w.createJob(schedule.JobPatch{Prompt: ptrTo("look")})
				w.advance(61 * time.Minute)
				w.sendText("7", "are you there?")
				w.advance(time.Minute)
				if got := w.adapter.visible("7"); len(got) != 2 || !strings.Contains(got[0], "look") || !strings.Contains(got[1], "are you there?") {
					t.Errorf("while it hangs: %q", got)
				}
				w.advance(2*time.Hour + 15*time.Minute)
				if got := w.occurrenceStates(bad); len(got) != 3 || !strings.HasPrefix(got[0], "ran failed: ") || !strings.HasPrefix(got[2], "ran failed: ") {
					t.Errorf("slots: %q", got)
				}
				if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.occurrenceStates(good)); d != "" {
					t.Error(d)
				}
				reported := 0
				for _, s := range w.adapter.visible("7") {
					if strings.Contains(s, "Scheduled prompt "+string(bad)+": ⚠️") && !strings.Contains(s, "\n") {
						reported++
					}
				}
				if reported != 3 {
					t.Errorf("%d of 3 failures are reported in a line: %q", reported, w.adapter.visible("7"))
				}
				if st := w.gw.Cron().Status(); st.Running != 0 || st.Waiting != 0 || st.Stalled {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// The user cannot send the message again, so the notice names another remedy, and the
// remedy works.
func TestCronRunFailureNamesRemedy(t *testing.T) {
	look := schedule.JobPatch{Prompt: ptrTo("look")}
	for name, tt := range map[string]struct {
		job   schedule.JobPatch
		fails llmtest.Answer
		what  string
		next  string // %s: the job
	}{
		"overloaded":    {look, llmtest.Fail(llm.Overloaded), "is overloaded.", "`/cron run %s`"},
		"a wrong key":   {look, llmtest.Fail(llm.Auth), "refuses the key.", "`/cron run %s`"},
		"a bad request": {look, llmtest.Fail(llm.Format), "refused the request.", "`/cron run %s`"},
		"declined":      {look, llmtest.Fail(llm.ContentPolicy), "declined this", "`hermesd cron edit %s`"},
		"too long":      {look, llmtest.Fail(llm.ContextOverflow), "too long", "`hermesd cron edit %s`"},
		"hanging":       {look, llmtest.Use("stuck", `{}`), "Nothing happened for too long", "`/cron run %s`"},
		"a script":      {schedule.JobPatch{Prompt: ptrTo("look"), Script: ptrTo("broken.sh")}, llmtest.Answer{}, "broken.sh: exit status 3", "`/cron run %s`"},
		"a skill":       {schedule.JobPatch{Prompt: ptrTo("look"), Skills: &[]string{"gone"}}, llmtest.Answer{}, "skill gone", "`hermesd cron edit %s`"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCronHarness(t, tt.fails)
				w.tools = append(w.tools, blockingTool{})
				w.start()
				defer w.stop()
				id := w.createJob(tt.job)
				w.advance(59 * time.Minute)
				setModelAnswers(w, func(string) llmtest.Answer { return tt.fails })
				w.advance(13 * time.Minute)
				seen := w.adapter.visible("7")
				if len(seen) != 1 {
					t.Fatalf("seen: %q", seen)
				}
				plain := strings.ReplaceAll(strings.ReplaceAll(tt.next, "%s", string(id)), "`", "")
				if !strings.Contains(seen[0], tt.what) || !strings.Contains(seen[0], plain) || strings.Contains(seen[0], "again") || strings.Contains(seen[0], "/new") {
					t.Errorf("it says %q", seen[0])
				}
				if slots := w.occurrenceStates(id); len(slots) != 1 || !strings.Contains(slots[0], tt.what) {
					t.Errorf("slots: %q", slots)
				}
				setModelAnswers(w, func(string) llmtest.Answer { return llmtest.Say("Now it works.") })
				w.sendText("7", "/cron run "+string(id))
				w.advance(time.Minute)
				seen = w.adapter.visible("7")
				if works := slices.Contains(seen, "Now it works."); works == (tt.job.Script != nil || tt.job.Skills != nil) {
					t.Errorf("after /cron run: %q", seen)
				}
			})
		})
	}
}

// Runs that are not resumed name a remedy as well.
func TestCronRunNotResumedNamesRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		deaths int
		away   time.Duration
		want   string
	}{
		"it kills the daemon": {2, 0, "I stopped this run because the daemon crashed 2 times during it."},
		"it is long ago":      {1, 26 * time.Hour, "too long ago to go on"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCronHarness(t)
				never := make(chan struct{})
				setModelAnswers(w, func(string) llmtest.Answer { return llmtest.Answer{Text: "never", Wait: never} })
				w.start()
				when := "in 30m"
				id := w.createJob(schedule.JobPatch{Prompt: ptrTo("look"), Schedule: &when})
				w.advance(31 * time.Minute)
				for range tt.deaths {
					w.kill()
					time.Sleep(tt.away)
					w.start()
					w.advance(time.Minute)
				}
				defer w.stop()
				seen := w.adapter.visible("7")
				if len(seen) != 1 || !strings.Contains(seen[0], tt.want) || !strings.Contains(seen[0], "/cron run "+string(id)) || strings.Contains(seen[0], "again") {
					t.Errorf("it says %q", seen)
				}
				if slots := w.occurrenceStates(id); len(slots) != 1 || !strings.HasPrefix(slots[0], "ran failed: ") {
					t.Errorf("slots: %q", slots)
				}
			})
		})
	}
}

func TestCronRunFailuresAreAllRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t)
		setModelAnswers(w, func(asked string) llmtest.Answer {
			if strings.Contains(asked, "fail") {
				return llmtest.Fail(llm.Auth)
			}
			return llmtest.Say("echo: " + asked)
		})
		w.start()
		defer w.stop()
		bad := w.createJob(schedule.JobPatch{Prompt: ptrTo("fail")})
		const days = 3
		w.advance(days*24*time.Hour + time.Minute)
		slots := w.occurrenceStates(bad)
		if len(slots) != days*24 || len(w.adapter.visible("7")) != days*24 {
			t.Errorf("%d slots and %d lines in %d hours", len(slots), len(w.adapter.visible("7")), days*24)
		}
		for _, s := range slots {
			if !strings.HasPrefix(s, "ran failed: ") {
				t.Errorf("slot: %q", s)
			}
		}
		w.sendText("7", "hello")
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); got[len(got)-1] != "echo: hello" {
			t.Errorf("then it says %q", got[len(got)-1])
		}
		if st := w.gw.Cron().Status(); st.Error != "" || st.Running != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestCronRunsWhilePlatformIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCronHarness(t)
		setModelAnswers(w, func(asked string) llmtest.Answer { return llmtest.Say("echo: " + asked) })
		down := newFakeAdapter()
		for range 10_000 {
			down.addFaults(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "no connection"}})
		}
		inner := w.configure
		w.configure = func(o *gatewaytest.Options) {
			inner(o)
			o.Accounts.Add(chat.Account{Platform: chat.Discord}, down)
			o.Cron.Rules = schedule.NewValidator("", chat.ProfilesOf(telegram.Profile(), chat.Profile{Platform: chat.Discord, Unasked: true}))
		}
		w.start()
		defer w.stop()
		there := w.createJob(schedule.JobPatch{Prompt: ptrTo("there"), Deliver: &[]string{"discord:5"}})
		here := w.createJob(schedule.JobPatch{Prompt: ptrTo("here")})
		w.advance(3*time.Hour + time.Minute)
		if got := w.adapter.visible("7"); len(got) != 3 {
			t.Errorf("on the platform that is up: %q", got)
		}
		if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.occurrenceStates(here)); d != "" {
			t.Error(d)
		}
		if got := down.visible("5"); len(got) != 0 {
			t.Errorf("on the platform that is down: %q", got)
		}
		down.mu.Lock()
		down.faults = nil
		down.mu.Unlock()
		w.advance(10 * time.Minute)
		if got := down.visible("5"); len(got) != 3 {
			t.Errorf("once it is up: %q", got)
		}
		if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.occurrenceStates(there)); d != "" {
			t.Error(d)
		}
	})
}
