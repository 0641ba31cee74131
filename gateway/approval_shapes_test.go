package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
)

// A hangingTool requests the approval of an approvalTool, and then never ends.
type hangingTool struct{ approvalTool }

func (h hangingTool) Run(ctx context.Context, c tool.Call) (string, error) {
	if _, err := h.approvalTool.Run(ctx, c); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// newApprovalHarness returns a harness with the owner 7 and a tool that requests approval.
func newApprovalHarness(t *testing.T, tools tool.Tool, answers ...llmtest.Answer) *harness {
	w := newHarness(t, answers...)
	w.tools = []tool.Tool{tools}
	w.configure = func(o *gatewaytest.Options) {
		o.Access, o.Approvals = ownerChecker(t), approval.Options{Mode: "manual", Timeout: time.Minute, Level: access.ToolLevel}
	}
	return w
}

// A permanent approval is on disk before the command runs, and before a user reads of it.
func TestApprovalAlwaysSurvivesKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newApprovalHarness(t, hangingTool{}, llmtest.Use("run", `{"what":"rm a"}`))
		w.start()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		w.sendText("7", "/approve always")
		w.advance(time.Second)
		w.kill()
		w.tools = []tool.Tool{approvalTool{}}
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if strings.Contains(r.Newest(), "once more") {
				return llmtest.Use("run", `{"what":"rm b"}`)
			}
			return llmtest.Say("Done.")
		}
		w.start()
		defer w.stop()
		w.advance(time.Minute)
		w.sendText("7", "once more")
		w.advance(time.Second)
		list, err := w.gw.ApprovalManager().List(t.Context())
		if err != nil || len(list) != 1 || list[0].Shape != "rm" || list[0].Job != "" || list[0].Principal.ID != "7" || list[0].At.IsZero() {
			t.Errorf("stored %+v, %v", list, err)
		}
		if n := w.countTexts("7", "May I run this?"); n != 1 {
			t.Errorf("it asked %d times: %q", n, w.adapter.visible("7"))
		}
	})
}

// An orderedStore reports an approval that is stored after the reply to it.
type orderedStore struct {
	store.Store
	t *testing.T
}

func (s orderedStore) EditValue(ctx context.Context, key string, change func([]byte) ([]byte, error)) error {
	rows, _, err := s.Outbox(ctx, outbox.Query{Sent: true})
	for _, r := range rows {
		if strings.Contains(r.Msg.Text.Text, "from now on everywhere") {
			s.t.Errorf("%s is stored after the reply", key)
		}
	}
	return errors.Join(err, s.Store.EditValue(ctx, key, change))
}

// A crash loses no permanent approval that a user was told of.
func TestApprovalAlwaysIsStoredBeforeReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newApprovalHarness(t, approvalTool{}, llmtest.Use("run", `{"what":"rm a"}`), llmtest.Say("Done."))
		before := w.configure
		w.configure = func(o *gatewaytest.Options) {
			before(o)
			o.Store = orderedStore{o.Store, t}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		w.sendText("7", "/approve always")
		w.advance(time.Second)
		if list, err := w.gw.ApprovalManager().List(t.Context()); err != nil || len(list) != 1 || w.countTexts("7", "from now on everywhere") != 1 {
			t.Errorf("stored %+v, %v; seen %q", list, err, w.adapter.visible("7"))
		}
	})
}

// If a permanent approval cannot be stored, the reply does not say that it was.
func TestApprovalAlwaysThatCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newApprovalHarness(t, approvalTool{}, llmtest.Use("run", `{"what":"rm a"}`), llmtest.Say("Done."))
		before := w.configure
		w.configure = func(o *gatewaytest.Options) {
			before(o)
			o.Store = valuelessStore{o.Store}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		w.sendText("7", "/approve always")
		w.advance(time.Second)
		if w.countTexts("7", "from now on in this conversation") != 1 || w.countTexts("7", "everywhere") != 0 || w.countTexts("7", "Done.") != 1 {
			t.Errorf("seen: %q", w.adapter.visible("7"))
		}
	})
}

// A valuelessStore stores no values.
type valuelessStore struct{ store.Store }

func (valuelessStore) EditValue(context.Context, string, func([]byte) ([]byte, error)) error {
	return errors.New("no space left on device")
}

// A shape that a secret is part of is neither proposed nor stored, and with it no other
// shape of the request.
func TestApprovalOfShapeWithSecretCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		input := `{"what":"login","shapes":["ls * in /w","login hunter2 in /w"]}`
		w := newApprovalHarness(t, approvalTool{}, llmtest.Use("run", input), llmtest.Say("Done."), llmtest.Use("run", input), llmtest.Say("Done."))
		before := w.configure
		w.configure = func(o *gatewaytest.Options) {
			before(o)
			set, err := tool.NewSet(w.tools...)
			if err != nil {
				t.Fatal(err)
			}
			o.Agent = agent.New(agent.Config{}, w.model, set, agent.MaskSecrets(func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }))
		}
		w.start()
		defer w.stop()
		for range 2 {
			w.sendText("7", "log in")
			w.advance(time.Second)
			w.sendText("7", "/approve always")
			w.advance(time.Second)
		}
		list, err := w.gw.ApprovalManager().List(t.Context())
		if err != nil || len(list) > 0 || w.countTexts("7", "A command like this is asked about each time.") != 2 || w.countTexts("7", "hunter2") > 0 || w.countTexts("7", "in /w") > 0 {
			t.Errorf("stored %+v, %v; seen %q", list, err, w.adapter.visible("7"))
		}
	})
}

// An approval of an older version covers nothing, even if its text is that of a shape. It is
// listed and can be removed.
func TestApprovalOfOlderVersionIsNoLongerUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newApprovalHarness(t, approvalTool{}, llmtest.Use("run", `{"what":"rm a"}`), llmtest.Say("Done."))
		w.start()
		if err := w.store.SetValue(t.Context(), "allowed", []byte(`["rm","other"]`)); err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		w.sendText("7", "/approve always")
		w.advance(time.Second)
		if w.countTexts("7", "May I run this?") != 1 {
			t.Errorf("it did not ask: %q", w.adapter.visible("7"))
		}
		for _, step := range []struct{ say, want string }{
			{"/approvals", "1. rm: everywhere (telegram:7, 2000-01-01)\n2. rm: no longer used, from an older version\n3. other: no longer used, from an older version\n\n"},
			{"/approvals remove 2", "Removed: rm"},
			{"/approvals", "1. rm: everywhere (telegram:7, 2000-01-01)\n2. other: no longer used, from an older version\n\n"},
			{"/approvals remove rm", "Removed: rm"},
			{"/approvals", "1. other: no longer used, from an older version\n\n"},
		} {
			w.sendText("7", step.say)
			w.advance(time.Second)
			seen := w.adapter.visible("7")
			if got := seen[len(seen)-1]; !strings.Contains(got, step.want) {
				t.Errorf("%s: %q, want %q", step.say, got, step.want)
			}
		}
	})
}

// A run of a job has the approvals of its creator and of the job only.
func TestCronRunHasApprovalsOfCreatorAndJob(t *testing.T) {
	six, seven := access.Principal{Platform: chat.Telegram, ID: "6", Level: access.Owner}, access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}
	type grant struct {
		by    access.Principal
		job   string // "": everywhere; "this": of the job that runs
		shape string
	}
	for name, tt := range map[string]struct {
		grants       []grant
		isOfOperator bool // the operator made the job; else the owner 7
		demoted      bool // 7 is no owner any more
		want         bool
	}{
		"nobody":                         {},
		"the creator":                    {grants: []grant{{seven, "", "rm"}}, want: true},
		"another owner":                  {grants: []grant{{six, "", "rm"}}},
		"the same ID elsewhere":          {grants: []grant{{access.Principal{Platform: chat.Slack, ID: "7", Level: access.Owner}, "", "rm"}}},
		"the operator":                   {grants: []grant{{schedule.Operator(), "", "rm"}}},
		"for the job":                    {grants: []grant{{schedule.Operator(), "this", "rm"}}, want: true},
		"for another job":                {grants: []grant{{schedule.Operator(), "other", "rm"}, {seven, "other", "rm"}}},
		"another shape":                  {grants: []grant{{seven, "", "rm *"}}},
		"a former owner":                 {grants: []grant{{seven, "", "rm"}}, demoted: true},
		"for the job of a former owner":  {grants: []grant{{six, "this", "rm"}}, demoted: true, want: true},
		"an owner, job of the operator":  {grants: []grant{{six, "", "rm"}}, isOfOperator: true, want: true},
		"another job's, of the operator": {grants: []grant{{six, "other", "rm"}}, isOfOperator: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newApprovalHarness(t, approvalTool{}, llmtest.Use("run", `{"what":"rm it's","shapes":["rm","it's"]}`), llmtest.Say("So be it."))
				before := w.configure
				w.configure = func(o *gatewaytest.Options) {
					before(o)
					owners := []string{"6", "7"}
					if tt.demoted {
						owners = owners[:1]
					}
					var err error
					if o.Access, err = access.New(access.Policy{Config: access.Config{Owners: owners}, Accounts: map[chat.Account]access.AccountRules{account: {AllowFrom: []string{"7"}}}}); err != nil {
						t.Fatal(err)
					}
				}
				w.start()
				defer w.stop()
				caller := schedule.OperatorCaller()
				if !tt.isOfOperator {
					caller = schedule.Caller{Principal: seven, Address: w.newMessage("7", "").Address}
				}
				every := "every 1h"
				j, err := w.gw.Cron().Manager().Create(t.Context(), caller, "", schedule.JobPatch{Schedule: &every, Prompt: ptrTo("clean up")})
				if err != nil {
					t.Fatal(err)
				}
				m := w.gw.ApprovalManager()
				for _, g := range append(tt.grants, grant{schedule.Operator(), "this", "it's"}) {
					job := schedule.JobID(g.job)
					if g.job == "this" {
						job = j.ID
					}
					if err := m.Add(t.Context(), g.by, job, g.shape); err != nil {
						t.Fatal(err)
					}
				}
				w.advance(61 * time.Minute)
				got := w.transcript()[2].Blocks[0].Text
				refusal := "hermesd approvals add --job " + string(j.ID) + " 'rm'"
				if ran := strings.Contains(got, "ran rm it's"); ran != tt.want || strings.Contains(got, refusal) == tt.want || strings.Contains(got, `'it'\''s'`) {
					t.Errorf("the tool came to %q", got)
				}
				if n := w.countTexts("7", "May I run this?"); n > 0 {
					t.Errorf("it asked: %q", w.adapter.visible("7"))
				}
			})
		})
	}
}

// What a refusal names, once approved for the job, lets its next run do it; once removed, no
// further one.
func TestCronRunAfterApprovalForJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newApprovalHarness(t, approvalTool{})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			if strings.Contains(r.Newest(), "clean up") {
				return llmtest.Use("run", `{"what":"rm a","shapes":["it's"]}`)
			}
			return llmtest.Say("So be it.")
		}
		w.start()
		defer w.stop()
		id := w.createJob(schedule.JobPatch{Prompt: ptrTo("clean up")})
		m := w.gw.ApprovalManager()
		for i, want := range []string{"\nhermesd approvals add --job " + string(id) + ` 'it'\''s'`, "ran rm a", "denied"} {
			w.advance(61 * time.Minute)
			if got := w.transcript()[2].Blocks[0].Text; !strings.Contains(got, want) {
				t.Errorf("run %d: %q, want %q", i, got, want)
			}
			list, err := m.List(t.Context())
			if err == nil && i == 0 {
				err = m.Add(t.Context(), schedule.Operator(), id, "it's")
			} else if err == nil {
				err = m.Remove(t.Context(), list...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
