package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func TestMessageIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hello Ann."))
		w.start()
		defer w.stop()
		m := w.newMessage("7", "hi")
		for range 5 { // the platform delivers it again and again
			w.accept(m)
		}
		w.advance(time.Minute)
		w.accept(m)
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"Hello Ann."}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		if got := w.outcome("7:1"); got != "replied" {
			t.Errorf("outcome is %s", got)
		}
		if n := len(w.model.Requests()); n != 1 {
			t.Errorf("the model was called %d times", n)
		}
		if lanes, rows := w.unfinished(); len(lanes)+len(rows) != 0 {
			t.Errorf("left open: %v, %v", lanes, rows)
		}
	})
}

func TestTurnWithoutToolsNeedsThreeCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(time.Minute)
		before := w.store.Stats().Commits
		w.sendText("7", "second")
		w.advance(time.Minute)
		if n := w.store.Stats().Commits - before; n > 3 {
			t.Errorf("the turn cost %d commits", n)
		}
	})
}

func TestMessageFromUnauthorizedUserIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hello."))
		w.start()
		defer w.stop()
		w.sendText("666", "secret words")
		w.advance(time.Minute)
		if got := w.adapter.visible(""); len(got) != 0 || len(w.model.Requests()) != 0 {
			t.Errorf("a stranger was answered: %q", got)
		}
		chains, err := w.store.MessageHistory(t.Context(), "666:1")
		if err != nil || len(chains) != 1 || chains[0].Entry.Outcome.Result != "silent" {
			t.Fatalf("why knows %+v, %v", chains, err)
		}
		if chains[0].Entry.Inbound.Text != "" {
			t.Error("what a stranger wrote was kept")
		}
		w.sendText("7", "hi")
		w.advance(time.Minute)
		if want := []string{chains[0].Entry.Inbound.IdempotencyKey}; !slices.Equal(w.adapter.dismissed, want) {
			t.Errorf("%q get no answer, want %q", w.adapter.dismissed, want)
		}
		w.accept(chains[0].Entry.Inbound) // the platform delivers it again
		if n := len(w.adapter.dismissed); n != 2 {
			t.Errorf("of two deliveries %d were dismissed", n)
		}
	})
}

func TestMessageInterruptsAndIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "to the first", Wait: never}, llmtest.Say("To both."))
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(time.Second)
		w.sendText("7", "second")
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"To both."}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		reqs := w.model.Requests()
		if got, want := reqs[len(reqs)-1].Newest(), "first\n\nsecond"; got != want {
			t.Errorf("the model read %q, want %q", got, want)
		}
		for _, key := range []string{"7:1", "7:2"} {
			if got := w.outcome(key); got != "replied" {
				t.Errorf("%s ended %s", key, got)
			}
		}
		w.transcript()
	})
}

func TestQueueModeRunsMessagesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			return llmtest.Answer{Text: "re: " + r.Newest(), Delay: 10 * time.Millisecond}
		}
		w.configure = func(o *gatewaytest.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		var want []string
		for i := range 50 {
			w.sendText("7", fmt.Sprint("message ", i))
			want = append(want, fmt.Sprint("re: message ", i))
		}
		w.advance(time.Hour)
		if diff := cmp.Diff(want, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		w.transcript()
	})
}

func TestChatsRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: never})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("quick") }
		w.adapter.addFaults(fault{op: "send", delay: 30 * time.Second}) // the answer to the second chat is slow
		w.start()
		w.sendText("7", "one that hangs")
		w.advance(10 * time.Millisecond)
		w.sendText("8", "one whose send hangs")
		w.advance(10 * time.Millisecond)
		w.sendText("9", "one that is quick")
		w.advance(10 * time.Millisecond)
		if diff := cmp.Diff([]string{"quick"}, w.adapter.visible("9")); diff != "" {
			t.Error(diff)
		}
		if err := w.gw.Accept(t.Context(), []chat.Inbound{w.newMessage("7", "/stop")}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		w.stop()
	})
}

func TestStopIsImmediate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "never said", Wait: never})
		w.configure = func(o *gatewaytest.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		w.sendText("7", "a long task")
		w.advance(time.Second)
		w.sendText("7", "and another")
		w.sendText("7", "/stop")
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"The running turn is stopped, 1 waiting message is cancelled."}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		for key, want := range map[string]string{"7:1": "cancelled(/stop)", "7:2": "cancelled(/stop)", "7:3": "replied"} {
			if got := w.outcome(key); got != want {
				t.Errorf("%s ended %s, want %s", key, got, want)
			}
		}
		w.transcript()
	})
}

func TestNewCommandStartsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("I know."), llmtest.Say("Who are you?"))
		w.start()
		defer w.stop()
		w.sendText("7", "my name is Ann")
		w.advance(time.Minute)
		w.sendText("7", "/new Second try")
		w.advance(time.Minute)
		w.sendText("7", "who am I?")
		w.advance(time.Minute)
		reqs := w.model.Requests()
		if n := len(reqs[1].Messages); n != 1 {
			t.Errorf("the new conversation begins with %d messages", n)
		}
		recs, err := w.store.Sessions(t.Context(), session.Query{Max: 10})
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d sessions, %v", len(recs), err)
		}
		if !slices.ContainsFunc(recs, func(r sessionRecord) bool { return r.Title == "Second try" }) {
			t.Error("the title is lost")
		}
	})
}

func rateLimitError(after time.Duration) error {
	return &chat.SendError{Outcome: chat.Transient, RetryAfter: after, Reason: "Too Many Requests"}
}

func TestRetryAfterIsHonored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.adapter.addFaults(fault{op: "send", before: rateLimitError(149 * time.Second)})
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		w.advance(time.Second)
		w.sendText("8", "another chat is not held back")
		w.advance(147 * time.Second)
		if len(w.adapter.visible("7")) != 0 || len(w.adapter.visible("8")) != 1 {
			t.Errorf("after 148 s:\n%s", w.adapter.history())
		}
		w.advance(2 * time.Second)
		if diff := cmp.Diff([]string{"re: one"}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUncertainReplyPolicies(t *testing.T) {
	for policy, want := range map[outbox.UncertainPolicy][]string{
		outbox.Resend: {"Hello.", "(may be a repeat)\nHello.", "Again."},
		outbox.Hold:   {"Hello.", "Again."},
		outbox.Drop:   {"Hello.", "Again."},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("Hello."), llmtest.Say("Again."))
				w.configure = func(o *gatewaytest.Options) { o.Uncertain = policy }
				w.adapter.addFaults(fault{op: "send", after: errors.New("no answer")})
				w.start()
				defer w.stop()
				w.sendText("7", "hi")
				w.advance(time.Minute)
				w.sendText("7", "more")
				w.advance(time.Minute)
				if diff := cmp.Diff(want, w.adapter.visible("7")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestToolProgressUntilAnswer(t *testing.T) {
	for mode, want := range map[string]string{
		"off": "", "new": "🔧 lookup", "all": "🔧 lookup trains", "verbose": `🔧 lookup {"query":"trains"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Use("lookup", `{"query":"trains"}`), llmtest.Answer{Text: "They go at nine.", Delay: 2 * time.Second})
			w.tools = []tool.Tool{lookupTool{}}
			w.configure = func(o *gatewaytest.Options) { o.Progress = mode }
			w.start()
			defer w.stop()
			w.sendText("7", "when?")
			w.advance(time.Hour)
			if log := w.adapter.history(); want != "" && !strings.Contains(log, "< "+want+"\n") || want == "" && strings.Contains(log, "🔧") {
				t.Errorf("%s shows\n%s", mode, log)
			}
			if got := w.adapter.visible("7"); len(got) != 1 || got[0] != "They go at nine." {
				t.Errorf("%s leaves %q", mode, got)
			}
		})
	}
}

// Text before a tool call stays, and what follows starts a new message; if tool calls
// are not shown, the answer replaces it.
func TestToolProgressStartsNewMessage(t *testing.T) {
	for mode, want := range map[string][]string{
		"off": {"They go at nine."}, "new": {"Let me look.", "They go at nine."}, "all": {"Let me look.", "They go at nine."},
	} {
		for _, slow := range []time.Duration{0, 3 * time.Second} { // without and with a preview
			synctest.Test(t, func(t *testing.T) {
				ahead := llmtest.Use("lookup", `{"query":"trains"}`)
				ahead.Text, ahead.Delay = "Let me look.", slow
				w := newHarness(t, ahead, llmtest.Answer{Text: "They go at nine.", Delay: 2 * time.Second})
				w.tools = []tool.Tool{lookupTool{}}
				w.configure = func(o *gatewaytest.Options) { o.Progress = mode }
				w.start()
				defer w.stop()
				w.sendText("7", "when?")
				w.advance(time.Hour)
				if diff := cmp.Diff(want, w.adapter.visible("7")); diff != "" {
					t.Errorf("%s, after %v: %s\n%s", mode, slow, diff, w.adapter.history())
				}
			})
		}
	}
}

// A tool call without preceding text still shows that the agent works.
func TestToolProgressOfImmediateCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := llmtest.Use("lookup", `{"query":"trains"}`)
		ahead.Text = "Let me look."
		w := newHarness(t, ahead, llmtest.Answer{Text: "They go at nine.", Delay: 900 * time.Millisecond})
		w.tools = []tool.Tool{lookupTool{}}
		w.configure = func(o *gatewaytest.Options) { o.Progress, o.EditInterval = "all", time.Second }
		w.start()
		defer w.stop()
		w.sendText("7", "when?")
		w.advance(500 * time.Millisecond)
		w.adapter.mu.Lock()
		n := w.adapter.typingCalls
		w.adapter.mu.Unlock()
		if n == 0 {
			t.Error("the running turn is not shown")
		}
		w.advance(time.Hour)
	})
}

func TestEditReplacesTextOfWaitingMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "one", Wait: hold})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.configure = func(o *gatewaytest.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(time.Second)
		w.sendText("7", "secnod")
		edit := w.newMessage("7", "second")
		edit.Kind, edit.IdempotencyKey, edit.EditedKey = chat.Edit, "7:2:1", "7:2"
		w.accept(edit)
		late := w.newMessage("7", "frist")
		late.Kind, late.IdempotencyKey, late.EditedKey = chat.Edit, "7:1:1", "7:1"
		w.accept(late)
		queued := w.sendText("7", "/queue thrid")
		edit = w.newMessage("7", "/queue third")
		edit.Kind, edit.IdempotencyKey, edit.EditedKey = chat.Edit, "7:"+queued+":1", "7:"+queued
		w.accept(edit)
		close(hold)
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"one", "re: second", "re: third"}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
		if got := w.outcome("7:1:1"); got != "silent(edit_too_late)" {
			t.Errorf("the late edit ended %s", got)
		}
	})
}

// A waiting command that is edited is what it is then: another command, or a message.
func TestEditReplacesWaitingCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "one", Wait: hold})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.configure = func(o *gatewaytest.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(time.Second)
		for _, edited := range []string{"what about tomorrow?", "/title garden"} {
			id := w.sendText("7", "/undo")
			edit := w.newMessage("7", edited)
			edit.Kind, edit.IdempotencyKey, edit.EditedKey = chat.Edit, "7:"+id+":1", "7:"+id
			w.accept(edit)
		}
		close(hold)
		w.advance(time.Minute)
		seen := w.adapter.visible("7")
		if len(seen) != 3 || seen[0] != "one" || seen[1] != "re: what about tomorrow?" || !strings.Contains(seen[2], "garden") {
			t.Errorf("seen %q", seen)
		}
	})
}

func TestMessagePartsAreOneInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Read."))
		w.start()
		defer w.stop()
		long := w.newMessage("7", strings.Repeat("a", 4000))
		long.Part = &chat.Part{Group: "text", Wait: time.Second}
		w.accept(long)
		w.advance(400 * time.Millisecond)
		rest := w.newMessage("7", "the end")
		rest.Part = &chat.Part{Group: "text"}
		w.accept(rest)
		w.advance(time.Minute)
		reqs := w.model.Requests()
		if len(reqs) != 1 || reqs[0].Newest() != strings.Repeat("a", 4000)+"\nthe end" {
			t.Errorf("%d requests, the last with %d letters", len(reqs), len(reqs[len(reqs)-1].Newest()))
		}
		if got := w.adapter.visible("7"); len(got) != 1 {
			t.Errorf("answers: %q", got)
		}
	})
}

// An overtakenStore accepts another message before Accept returns for the first.
type overtakenStore struct {
	store.Store
	by func()
}

func (s *overtakenStore) Accept(ctx context.Context, admissions []store.Admission) ([]store.Acceptance, error) {
	taken, err := s.Store.Accept(ctx, admissions)
	if by := s.by; by != nil {
		s.by = nil
		by()
	}
	return taken, err
}

func TestMessageOrderIfOneOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("first"), llmtest.Say("second"))
		w.configure = func(o *gatewaytest.Options) {
			o.Mode = inbox.Queue
			o.Store = &overtakenStore{Store: o.Store, by: func() { w.sendText("7", "two"); synctest.Wait() }}
		}
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"first", "second"}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}
