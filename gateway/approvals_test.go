package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
)

// inThread returns a message in a shared thread.
func (w *harness) inThread(who, text string) chat.Inbound {
	m := w.newMessage(who, text)
	m.Address.Kind, m.Address.Chat, m.Address.Thread = chat.Thread, "-100", "5"
	return m
}

// A user below the level that the tool requires cannot approve, by command, button or
// plain word. Permanent approval requires an owner.
func TestApprovalRequiresSufficientLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("run", `{"what":"rm -r build"}`), llmtest.Say("Done."), llmtest.Use("run", `{"what":"rm -r dist"}`), llmtest.Say("Done too."))
		w.tools = []tool.Tool{approvalTool{}}
		need := access.Owner
		w.configure = func(o *gatewaytest.Options) {
			o.Access = levelChecker(t)
			o.Approvals = approval.Options{Mode: "manual", Timeout: 5 * time.Minute, Level: func(string) access.Level { return need }}
		}
		w.start()
		defer w.stop()
		w.accept(w.inThread("7", "clean up"))
		w.advance(time.Second)
		press := w.inThread("8", w.adapter.buttonData(t, "1"))
		press.Kind = chat.Callback
		w.expectRefused(press, "That requires level owner; yours is member.")
		w.expectRefused(w.inThread("9", "/approve"), "That requires level owner; yours is guest.")
		w.expectRefused(w.inThread("9", "yes"), "That requires level owner; yours is guest.")
		w.expectRefused(w.inThread("8", "/deny"), "That requires level owner; yours is member.")
		w.accept(w.inThread("7", "/approve"))
		w.advance(time.Second)
		if got := w.adapter.visible(""); got[len(got)-1] != "Done." {
			t.Errorf("in the end a person sees %q", got)
		}
		need = access.Member
		w.accept(w.inThread("7", "and dist"))
		w.advance(time.Second)
		w.expectRefused(w.inThread("8", "/approve always"), "Only an owner can approve a command permanently.")
		w.accept(w.inThread("8", "/approve"))
		w.advance(time.Second)
		if got := w.adapter.visible(""); got[len(got)-1] != "Done too." {
			t.Errorf("in the end a person sees %q", got)
		}
	})
}

// A parallelApprovalTool is an approvalTool whose calls run concurrently.
type parallelApprovalTool struct{ approvalTool }

func (parallelApprovalTool) Spec() tool.Spec {
	s := approvalTool{}.Spec()
	s.Effect, s.Parallel = tool.Pure, true
	return s
}

func (b parallelApprovalTool) Run(ctx context.Context, c tool.Call) (string, error) {
	return b.approvalTool.Run(ctx, c)
}

var approvalPrompt = regexp.MustCompile(`May I run this\? \(([a-z0-9]+)\)`)

// A plain yes answers the only pending request; with several it answers none.
func TestApprovalPlainWordAnswersOnlyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := llmtest.Use("run", `{"what":"rm -r a"}`)
		two.Calls = append(two.Calls, llmtest.Call{Name: "run", Input: `{"what":"rm -r b"}`})
		w := newHarness(t, two, llmtest.Say("Both are gone."), llmtest.Say("You are welcome."))
		w.tools = []tool.Tool{parallelApprovalTool{}}
		w.configure = func(o *gatewaytest.Options) {
			o.Access, o.Mode = ownerChecker(t), inbox.Queue
			o.Approvals = approval.Options{Mode: "manual", Timeout: 5 * time.Minute, Level: access.ToolLevel}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		requests := approvalPrompt.FindAllStringSubmatch(strings.Join(w.adapter.visible("7"), "\n"), -1)
		if len(requests) != 2 {
			t.Fatalf("the person sees %q", w.adapter.visible("7"))
		}
		yes := w.newMessage("7", "yes")
		w.accept(yes)
		w.advance(time.Second)
		if got := w.outcome(yes.IdempotencyKey); got != "waiting" {
			t.Errorf("a yes to nothing ended %s", got)
		}
		seen := len(w.adapter.visible("7"))
		w.sendText("7", "/approve")
		w.advance(time.Second)
		if got := w.adapter.visible("7")[seen:]; len(got) != 1 || !strings.HasPrefix(got[0], "There are 2 pending requests; choose one: ") {
			t.Errorf("an /approve of nothing says %q", got)
		}
		w.sendText("7", "/approve "+requests[0][1])
		w.advance(time.Second)
		w.sendText("7", "yes") // one is pending
		w.advance(time.Second)
		if got := strings.Join(w.adapter.visible("7"), "\n"); strings.Count(got, "Allowed, this once.") != 2 || !strings.Contains(got, "Both are gone.") {
			t.Errorf("in the end the person sees\n%s", got)
		}
	})
}

// Where nobody can answer, approval is denied at once.
func TestApprovalDeniedWhereNobodyCanAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("run", `{"what":"rm -r build"}`), llmtest.Say("It is not done."))
		w.tools = []tool.Tool{approvalTool{}}
		raw := &rawAdapter{fakeAdapter: w.adapter}
		w.configure = func(o *gatewaytest.Options) {
			o.Access, o.Accounts = ownerChecker(t), accountsOf(raw)
			o.Approvals = approval.Options{Mode: "manual", Timeout: 5 * time.Minute, Level: access.ToolLevel}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "clean up")
		w.advance(time.Second)
		if got := w.adapter.visible("7"); len(got) != 1 || got[0] != "It is not done." {
			t.Errorf("the client sees %q", got)
		}
		result := w.transcript()[2].Blocks[0].Text
		if !strings.Contains(result, "Nobody is there to allow it") || !strings.Contains(result, "\nhermesd approvals add 'rm'") || strings.Contains(result, "ran rm") {
			t.Errorf("the tool came to %q", result)
		}
	})
}

// A short text file is inlined into the message; for longer files and other types the
// message names the path.
func TestAttachmentShortTextIsInlined(t *testing.T) {
	const most = 100 << 10
	for name, c := range map[string]struct {
		mime, content string
		inline        bool
	}{
		"short": {"text/plain", "buy milk", true}, "as long as it may be": {"text/markdown", strings.Repeat("x", most), true},
		"too long": {"text/plain", strings.Repeat("x", most+1), false}, "not text": {"text/plain", "\xff\xfe\x00", false},
		"another type": {"application/pdf", "%PDF buy milk", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("I see."))
				w.start()
				defer w.stop()
				path := filepath.Join(w.dir, "a.txt")
				if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
				m := w.newMessage("7", "look")
				m.Files = []chat.File{{Kind: chat.Document, Name: "a.txt", MIME: c.mime, Size: int64(len(c.content)), Path: path}}
				w.accept(m)
				w.advance(time.Minute)
				said := w.transcript()[0].Text()
				if got := strings.Contains(said, "a.txt\"]\n"+c.content+"\n[end of file]"); got != c.inline {
					t.Errorf("text inlined: %v\n%.200s", got, said)
				}
				if got := strings.Contains(said, path); got == c.inline {
					t.Errorf("path given: %v\n%.200s", got, said)
				}
			})
		})
	}
}

// A name shared by two chats is ambiguous.
func TestTargetAmbiguousChatNameIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("Yes.") }
		w.start()
		defer w.stop()
		for id, name := range map[string]string{"-1": "#news", "-2": "News", "-3": "cats"} {
			m := w.newMessage("7", "hello")
			m.Address.Kind, m.Address.Chat, m.ChatName = chat.Group, id, name
			w.accept(m)
			w.advance(time.Second)
		}
		if got, err := w.gw.Targets().Resolve(t.Context(), "telegram:#Cats", chat.Address{}); err != nil || len(got) != 1 || got[0].Chat != "-3" {
			t.Errorf("#Cats is %v, %v", got, err)
		}
		if got, err := w.gw.Targets().Resolve(t.Context(), "telegram:#news", chat.Address{}); err == nil || !strings.Contains(err.Error(), "2 chats of telegram are called #news") {
			t.Errorf("#news is %v, %v", got, err)
		}
	})
}
