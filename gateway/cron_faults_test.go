package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// A stuck is a tool that does not come back before it is told to.
type stuck struct{}

func (stuck) Spec() tool.Spec {
	return tool.Spec{Tool: llm.Tool{Name: "stuck", Schema: []byte(`{"type":"object"}`)}, Effect: tool.Pure}
}

func (stuck) Run(ctx context.Context, _ tool.Call) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// minded has what a model answers depend on what it is asked.
func minded(w *harness, answer func(asked string) llmtest.Answer) {
	w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return answer(r.Newest()) }
}

func TestARunThatNeverEndsIsGivenUpAndToldAndHoldsNothingUp(t *testing.T) {
	for name, hangs := range map[string]llmtest.Answer{
		"a model": {Text: "never", Wait: make(chan struct{})},
		"a tool":  llmtest.Use("stuck", `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := scheduled(t)
				if hangs.Wait != nil {
					hangs.Wait = make(chan struct{}) // of this bubble
				}
				w.tools = append(w.tools, stuck{})
				minded(w, func(asked string) llmtest.Answer {
					if strings.Contains(asked, "hang") {
						return hangs
					}
					return llmtest.Say("echo: " + asked)
				})
				w.start()
				defer w.stop()
				bad := w.job(schedule.JobPatch{Prompt: text("hang")})
				good := w.job(schedule.JobPatch{Prompt: text("look")})
				w.settle(61 * time.Minute)
				w.say("7", "are you there?")
				w.settle(time.Minute)
				if got := w.room.visible("7"); len(got) != 2 || !strings.Contains(got[0], "look") || !strings.Contains(got[1], "are you there?") {
					t.Errorf("while it hangs: %q", got)
				}
				w.settle(2*time.Hour + 15*time.Minute)
				if got := w.slots(bad); len(got) != 3 || !strings.HasPrefix(got[0], "ran failed: ") || !strings.HasPrefix(got[2], "ran failed: ") {
					t.Errorf("slots: %q", got)
				}
				if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.slots(good)); d != "" {
					t.Error(d)
				}
				told := 0
				for _, s := range w.room.visible("7") {
					if strings.Contains(s, "Scheduled prompt "+string(bad)+": ⚠️") && !strings.Contains(s, "\n") {
						told++
					}
				}
				if told != 3 {
					t.Errorf("%d of 3 failures are told in a line: %q", told, w.room.visible("7"))
				}
				if st := w.gw.CronStatus(); st.Running != 0 || st.Waiting != 0 || st.Stalled {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// TestAFailedRunSaysWhatCanBeDoneWithTheJob: there is no message that could be sent
// again, and what it says does help.
func TestAFailedRunSaysWhatCanBeDoneWithTheJob(t *testing.T) {
	look := schedule.JobPatch{Prompt: text("look")}
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
		"a script":      {schedule.JobPatch{Prompt: text("look"), Script: text("broken.sh")}, llmtest.Answer{}, "broken.sh: exit status 3", "`/cron run %s`"},
		"a skill":       {schedule.JobPatch{Prompt: text("look"), Skills: &[]string{"gone"}}, llmtest.Answer{}, "skill gone", "`hermesd cron edit %s`"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := scheduled(t, tt.fails)
				w.tools = append(w.tools, stuck{})
				w.start()
				defer w.stop()
				id := w.job(tt.job)
				w.settle(59 * time.Minute)
				minded(w, func(string) llmtest.Answer { return tt.fails })
				w.settle(13 * time.Minute)
				seen := w.room.visible("7")
				if len(seen) != 1 {
					t.Fatalf("seen: %q", seen)
				}
				plain := strings.ReplaceAll(strings.ReplaceAll(tt.next, "%s", string(id)), "`", "")
				if !strings.Contains(seen[0], tt.what) || !strings.Contains(seen[0], plain) || strings.Contains(seen[0], "again") || strings.Contains(seen[0], "/new") {
					t.Errorf("it says %q", seen[0])
				}
				if slots := w.slots(id); len(slots) != 1 || !strings.Contains(slots[0], tt.what) {
					t.Errorf("slots: %q", slots)
				}
				minded(w, func(string) llmtest.Answer { return llmtest.Say("Now it works.") })
				w.say("7", "/cron run "+string(id))
				w.settle(time.Minute)
				seen = w.room.visible("7")
				if works := slices.Contains(seen, "Now it works."); works == (tt.job.Script != nil || tt.job.Skills != nil) {
					t.Errorf("after /cron run: %q", seen)
				}
			})
		})
	}
}

// TestARunThatDiesOrWaitsTooLongSaysWhatCanBeDoneWithTheJob is about runs that are not
// gone on with.
func TestARunThatDiesOrWaitsTooLongSaysWhatCanBeDoneWithTheJob(t *testing.T) {
	for name, tt := range map[string]struct {
		deaths int
		away   time.Duration
		want   string
	}{
		"it kills the daemon": {2, 0, "I set it aside: the daemon died 2 times while it ran."},
		"it is long ago":      {1, 26 * time.Hour, "too long ago to go on"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := scheduled(t)
				never := make(chan struct{})
				minded(w, func(string) llmtest.Answer { return llmtest.Answer{Text: "never", Wait: never} })
				w.start()
				when := "in 30m"
				id := w.job(schedule.JobPatch{Prompt: text("look"), Schedule: &when})
				w.settle(31 * time.Minute)
				for range tt.deaths {
					w.kill()
					time.Sleep(tt.away)
					w.start()
					w.settle(time.Minute)
				}
				defer w.stop()
				seen := w.room.visible("7")
				if len(seen) != 1 || !strings.Contains(seen[0], tt.want) || !strings.Contains(seen[0], "/cron run "+string(id)) || strings.Contains(seen[0], "again") {
					t.Errorf("it says %q", seen)
				}
				if slots := w.slots(id); len(slots) != 1 || !strings.HasPrefix(slots[0], "ran failed: ") {
					t.Errorf("slots: %q", slots)
				}
			})
		})
	}
}

func TestAJobThatFailsForEverHasARecordAndALineForEachSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t)
		minded(w, func(asked string) llmtest.Answer {
			if strings.Contains(asked, "fail") {
				return llmtest.Fail(llm.Auth)
			}
			return llmtest.Say("echo: " + asked)
		})
		w.start()
		defer w.stop()
		bad := w.job(schedule.JobPatch{Prompt: text("fail")})
		const days = 3
		w.settle(days*24*time.Hour + time.Minute)
		slots := w.slots(bad)
		if len(slots) != days*24 || len(w.room.visible("7")) != days*24 {
			t.Errorf("%d slots and %d lines in %d hours", len(slots), len(w.room.visible("7")), days*24)
		}
		for _, s := range slots {
			if !strings.HasPrefix(s, "ran failed: ") {
				t.Errorf("slot: %q", s)
			}
		}
		w.say("7", "hello")
		w.settle(time.Minute)
		if got := w.room.visible("7"); got[len(got)-1] != "echo: hello" {
			t.Errorf("then it says %q", got[len(got)-1])
		}
		if st := w.gw.CronStatus(); st.Error != "" || st.Running != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestAPlatformThatIsDownStopsNoScheduledPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t)
		minded(w, func(asked string) llmtest.Answer { return llmtest.Say("echo: " + asked) })
		down := newRoom()
		for range 10_000 {
			down.fail(fault{op: "send", before: &chat.SendError{Outcome: chat.Transient, Reason: "no connection"}})
		}
		inner := w.set
		w.set = func(o *gateway.Options) {
			inner(o)
			o.Adapters[chat.Account{Platform: chat.Discord}] = down
		}
		w.start()
		defer w.stop()
		there := w.job(schedule.JobPatch{Prompt: text("there"), Deliver: &[]string{"discord:5"}})
		here := w.job(schedule.JobPatch{Prompt: text("here")})
		w.settle(3*time.Hour + time.Minute)
		if got := w.room.visible("7"); len(got) != 3 {
			t.Errorf("on the platform that is up: %q", got)
		}
		if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.slots(here)); d != "" {
			t.Error(d)
		}
		if got := down.visible("5"); len(got) != 0 {
			t.Errorf("on the platform that is down: %q", got)
		}
		down.mu.Lock()
		down.faults = nil
		down.mu.Unlock()
		w.settle(10 * time.Minute)
		if got := down.visible("5"); len(got) != 3 {
			t.Errorf("once it is up: %q", got)
		}
		if d := cmp.Diff([]string{"ran ok", "ran ok", "ran ok"}, w.slots(there)); d != "" {
			t.Error(d)
		}
	})
}
