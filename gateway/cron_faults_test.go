package gateway_test

import (
	"context"
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
func minded(w *world, answer func(asked string) llmtest.Answer) {
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
				bad := w.job(schedule.Draft{Prompt: text("hang")})
				good := w.job(schedule.Draft{Prompt: text("look")})
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
		bad := w.job(schedule.Draft{Prompt: text("fail")})
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
			down.fail(fault{op: "send", before: &chat.SendError{Outcome: chat.Refused, Reason: "no connection"}})
		}
		inner := w.set
		w.set = func(o *gateway.Options) {
			inner(o)
			o.Adapters[chat.Account{Platform: chat.Discord}] = down
		}
		w.start()
		defer w.stop()
		there := w.job(schedule.Draft{Prompt: text("there"), Deliver: &[]string{"discord:5"}})
		here := w.job(schedule.Draft{Prompt: text("here")})
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
