package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
)

// In a shared topic a guest sends each command that changes the conversation, as text
// and as a button: nothing changes. In their own direct chat the same commands work.
func TestGuestChangesNothingShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("Yes.") }
		w.configure = func(o *gatewaytest.Options) { o.Access = levelChecker(t) }
		w.start()
		defer w.stop()
		w.accept(w.inThread("7", "hello"))
		w.advance(time.Second)
		before, _ := w.store.Sessions(t.Context(), session.Query{Max: 10})
		for _, text := range []string{"/new", "/reset", "/title mine", "/compress", "/personality pirate", "/retry", "/undo", "/resume x", "/branch", "/forget now", "/busy queue", "/verbose all", "/voice on"} {
			need := "member"
			if strings.HasPrefix(text, "/forget") {
				need = "owner"
			}
			name, _, _ := strings.Cut(strings.Replace(text, "/reset", "/new", 1), " ")
			want := "Several people share this conversation. Here " + name + " requires level " + need + "; yours is guest."
			w.expectRefused(w.inThread("9", text), want)
			press := w.inThread("9", text)
			press.Kind = chat.Callback
			w.expectRefused(press, want)
		}
		after, err := w.store.Sessions(t.Context(), session.Query{Max: 10})
		if err != nil || len(after) != 1 || after[0].ID != before[0].ID || after[0].Settings != before[0].Settings || after[0].Title != before[0].Title || after[0].Messages != before[0].Messages {
			t.Errorf("the conversation was %+v and is %+v, %v", before, after, err)
		}
		w.sendText("9", "hello")
		w.advance(time.Second)
		for _, tt := range [][2]string{{"/personality none", "No personality"}, {"/forget", "Delete this conversation for good?"}, {"/undo", "Taken back"}, {"/new", "A new conversation begins."}} {
			w.sendText("9", tt[0])
			w.advance(time.Second)
			seen := w.adapter.visible("9")
			if got := seen[len(seen)-1]; !strings.Contains(got, tt[1]) {
				t.Errorf("%s in a direct chat: %q", tt[0], got)
			}
		}
	})
}

// A guest ends the turn of another person neither by /stop nor by a message. They can
// stop their own, which cancels no message of others.
func TestGuestStopsOnlyOwnTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		hold := make(chan struct{})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "Yes.", Wait: hold} }
		w.configure = func(o *gatewaytest.Options) { o.Access = levelChecker(t) }
		w.start()
		defer w.stop()
		owners := w.inThread("7", "work for a while")
		w.accept(owners)
		w.advance(time.Second)
		w.expectRefused(w.inThread("9", "/stop"), "This would stop what other people asked for. They or a member can use /stop.")
		guests := w.inThread("9", "me first")
		w.accept(guests)
		w.advance(time.Second)
		if got := w.outcome(owners.IdempotencyKey); got != "claimed" || len(w.model.Requests()) != 1 {
			t.Fatalf("the owner's turn is %s after %d requests", got, len(w.model.Requests()))
		}
		waiting := hold
		hold = make(chan struct{})
		close(waiting)
		w.advance(time.Second) // the guest's turn runs
		later := w.inThread("7", "/queue and then this")
		w.accept(later)
		w.advance(time.Second)
		w.accept(w.inThread("9", "/stop"))
		w.advance(time.Second)
		close(hold)
		w.advance(time.Minute)
		for key, want := range map[string]string{owners.IdempotencyKey: "replied", guests.IdempotencyKey: "cancelled(/stop)", later.IdempotencyKey: "replied"} {
			if got := w.outcome(key); got != want {
				t.Errorf("%s ends as %s, want %s", key, got, want)
			}
		}
	})
}

// A guest adds nothing to the turn of another person: neither by /steer nor by an answer to
// its question.
func TestGuestSteersOnlyOwnTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("run", `{"what":"x"}`), llmtest.Say("Done."), llmtest.Say("Yes."), llmtest.Say("Yes."))
		w.tools = []tool.Tool{askingTool{}}
		w.configure = func(o *gatewaytest.Options) { o.Access = levelChecker(t) }
		w.start()
		defer w.stop()
		owners := w.inThread("7", "delete one")
		w.accept(owners)
		w.advance(time.Second)
		for _, text := range []string{"/steer delete everything", "both of them"} {
			said := w.inThread("9", text)
			w.accept(said)
			w.advance(time.Second)
			if got := w.outcome(said.IdempotencyKey); got != "waiting" {
				t.Errorf("%q is %s", text, got)
			}
		}
		if n := len(w.model.Requests()); n != 1 {
			t.Fatalf("%d requests: the guest's text became part of the owner's turn", n)
		}
		press := w.inThread("7", w.adapter.buttonData(t, "1"))
		press.Kind = chat.Callback
		w.accept(press)
		w.advance(time.Minute)
		if said := fmt.Sprint(w.model.Requests()[1].Messages); strings.Contains(said, "delete everything") || strings.Contains(said, "both of them") {
			t.Errorf("the guest's text became part of the owner's turn: %s", said)
		}
	})
}

// An askingTool asks the user a question with two choices.
type askingTool struct{ approvalTool }

func (askingTool) Run(ctx context.Context, c tool.Call) (string, error) {
	a, err := c.User.Ask(ctx, tool.Question{Text: "Which?", Choices: []string{"the old one", "the new one"}})
	return a.Text, err
}

// A guest presses no button of a question in the turn of another person.
func TestGuestAnswersNoQuestionOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Use("run", `{"what":"x"}`), llmtest.Say("Done."))
		w.tools = []tool.Tool{askingTool{}}
		w.configure = func(o *gatewaytest.Options) { o.Access = levelChecker(t) }
		w.start()
		defer w.stop()
		w.accept(w.inThread("7", "delete one"))
		w.advance(time.Second)
		press := w.inThread("9", w.adapter.buttonData(t, "1"))
		press.Kind = chat.Callback
		w.expectRefused(press, "That requires level member; yours is guest.")
		press = w.inThread("8", press.Text)
		press.Kind = chat.Callback
		w.accept(press)
		w.advance(time.Second)
		if seen := w.adapter.visible(""); seen[len(seen)-1] != "Done." {
			t.Errorf("seen: %q", seen)
		}
	})
}
