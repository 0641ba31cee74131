package gateway_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/i18n"
)

// English words decide in every language, single letters only in their own.
func TestApprovalWordsOfLanguages(t *testing.T) {
	for language, words := range map[string]map[string]bool{
		"en": {"j": false, "ja": false, "y": true, "yes": true, "ok": true},
		"de": {"j": true, "ja": true, "y": false, "yes": true, "erlauben": true},
	} {
		for word, want := range words {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Use("run", `{"what":"rm -r a"}`), llmtest.Say("Done."), llmtest.Say("Done."))
				w.tools = []tool.Tool{approvalTool{}}
				w.configure = func(o *gatewaytest.Options) {
					var err error
					if o.Printer, err = i18n.For(language); err != nil {
						t.Fatal(err)
					}
					o.Access = ownerChecker(t)
					o.Approvals = approval.Options{Mode: "manual", Timeout: time.Minute, Level: access.ToolLevel}
				}
				w.start()
				defer w.stop()
				w.sendText("7", "clean up")
				w.advance(time.Second)
				key := w.sendText("7", word)
				w.advance(time.Second)
				m, err := w.store.MessageHistory(t.Context(), "7:"+key)
				if err != nil || strings.HasPrefix(m[0].Entry.Inbound.Text, "/approve ") != want {
					t.Errorf("%s in %s: %+v, %v", word, language, m, err)
				}
				w.advance(10 * time.Minute)
			})
		}
	}
}

// An unstorableTool asks for an approval that covers one run only.
type unstorableTool struct{ approvalTool }

func (unstorableTool) Run(ctx context.Context, c tool.Call) (string, error) {
	return "done", c.User.Approve(ctx, tool.ApprovalRequest{Tool: "run", Command: "rm -r x", Reasons: []string{"it deletes"}})
}

// Approving for always what is never stored says that it counts once.
func TestApprovalAlwaysOfUnstorableRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("run", `{}`), llmtest.Say("Done."))
		w.tools = []tool.Tool{unstorableTool{}}
		w.configure = func(o *gatewaytest.Options) {
			o.Access, o.Approvals = ownerChecker(t), approval.Options{Mode: "manual", Timeout: time.Minute, Level: access.ToolLevel}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		w.sendText("7", "/approve always")
		w.advance(time.Second)
		if got := strings.Join(w.adapter.visible("7"), "\n"); !strings.Contains(got, "Allowed, this once. A command like this is asked about each time.") || strings.Contains(got, "everywhere") {
			t.Errorf("seen: %s", got)
		}
	})
}
