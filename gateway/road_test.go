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
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

func TestAMessageIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hello Ann."))
		w.start()
		defer w.stop()
		m := w.message("7", "hi")
		for range 5 { // the platform delivers it again and again
			w.offer(m)
		}
		w.settle(time.Minute)
		w.offer(m)
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"Hello Ann."}, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
		if got := w.outcome("7:1"); got != "replied" {
			t.Errorf("outcome is %s", got)
		}
		if n := len(w.model.Requests()); n != 1 {
			t.Errorf("the model was called %d times", n)
		}
		if lanes, rows := w.open(); len(lanes)+len(rows) != 0 {
			t.Errorf("left open: %v, %v", lanes, rows)
		}
	})
}

func TestATurnWithoutToolsCostsThreeCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.start()
		defer w.stop()
		w.say("7", "first")
		w.settle(time.Minute)
		before := w.store.Stats().Commits
		w.say("7", "second")
		w.settle(time.Minute)
		if n := w.store.Stats().Commits - before; n > 3 {
			t.Errorf("the turn cost %d commits", n)
		}
	})
}

func TestAPersonWhoIsNotAllowedGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hello."))
		w.start()
		defer w.stop()
		w.say("666", "secret words")
		w.settle(time.Minute)
		if got := w.room.visible(""); len(got) != 0 || len(w.model.Requests()) != 0 {
			t.Errorf("a stranger was answered: %q", got)
		}
		chains, err := w.store.MessageHistory(t.Context(), "666:1")
		if err != nil || len(chains) != 1 || chains[0].Entry.Outcome.Result != "silent" {
			t.Fatalf("why knows %+v, %v", chains, err)
		}
		if chains[0].Entry.Inbound.Text != "" {
			t.Error("what a stranger wrote was kept")
		}
		w.say("7", "hi")
		w.settle(time.Minute)
		if want := []string{chains[0].Entry.Inbound.IdempotencyKey}; !slices.Equal(w.room.dropped, want) {
			t.Errorf("%q get no answer, want %q", w.room.dropped, want)
		}
	})
}

func TestANewerMessageInterruptsAndBothAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "to the first", Wait: never}, llmtest.Say("To both."))
		w.start()
		defer w.stop()
		w.say("7", "first")
		w.settle(time.Second)
		w.say("7", "second")
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"To both."}, w.room.visible("7")); diff != "" {
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

func TestQueuedMessagesAreTurnsOfTheirOwnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer {
			return llmtest.Answer{Text: "re: " + r.Newest(), Delay: 10 * time.Millisecond}
		}
		w.set = func(o *gateway.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		var want []string
		for i := range 50 {
			w.say("7", fmt.Sprint("message ", i))
			want = append(want, fmt.Sprint("re: message ", i))
		}
		w.settle(time.Hour)
		if diff := cmp.Diff(want, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
		w.transcript()
	})
}

func TestChatsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "slow", Wait: never})
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("quick") }
		w.room.fail(fault{op: "send", delay: 30 * time.Second}) // and the platform is slow for the second
		w.start()
		w.say("7", "one that hangs")
		w.settle(10 * time.Millisecond)
		w.say("8", "one whose send hangs")
		w.settle(10 * time.Millisecond)
		w.say("9", "one that is quick")
		w.settle(10 * time.Millisecond)
		if diff := cmp.Diff([]string{"quick"}, w.room.visible("9")); diff != "" {
			t.Error(diff)
		}
		if err := w.gw.Accept(t.Context(), []chat.Inbound{w.message("7", "/stop")}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.stop()
	})
}

func TestStopIsImmediateAndNothingIsAnsweredAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "never said", Wait: never})
		w.set = func(o *gateway.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		w.say("7", "a long task")
		w.settle(time.Second)
		w.say("7", "and another")
		w.say("7", "/stop")
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"The running turn is stopped, 1 waiting message is cancelled."}, w.room.visible("7")); diff != "" {
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

func TestNewStartsAnotherConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("I know."), llmtest.Say("Who are you?"))
		w.start()
		defer w.stop()
		w.say("7", "my name is Ann")
		w.settle(time.Minute)
		w.say("7", "/new Second try")
		w.settle(time.Minute)
		w.say("7", "who am I?")
		w.settle(time.Minute)
		reqs := w.model.Requests()
		if n := len(reqs[1].Messages); n != 1 {
			t.Errorf("the new conversation begins with %d messages", n)
		}
		recs, err := w.store.Sessions(t.Context(), 10)
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d sessions, %v", len(recs), err)
		}
		if !slices.ContainsFunc(recs, func(r sessionRecord) bool { return r.Title == "Second try" }) {
			t.Error("the title is lost")
		}
	})
}

func TestAnAnswerThatTakesLongIsShownWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Answer{Text: strings.Repeat("more and more words ", 10) + "end", Delay: 2 * time.Second})
		w.start()
		defer w.stop()
		w.say("7", "tell me")
		w.settle(10 * time.Minute)
		if n := len(w.room.seen); n != 1 || w.room.seen[0].edits == 0 || w.room.typing == 0 {
			t.Errorf("%d messages, %+v, typing %d times\n%s", n, w.room.seen, w.room.typing, w.room.history())
		}
		if got := w.room.visible("7"); len(got) != 1 || !strings.HasSuffix(got[0], "end") {
			t.Errorf("in the end a person sees %q", got)
		}
	})
}

func TestTheFinalTextIsDeliveredOnceWhateverHappensToThePreview(t *testing.T) {
	faults := map[string][]fault{
		"refused":         {{op: "send", before: refused(0)}},
		"unanswered":      {{op: "send", after: errors.New("connection cut")}},
		"edits refused":   {{op: "edit", before: refused(0)}, {op: "edit", before: refused(0)}, {op: "edit", before: refused(0)}},
		"flood control":   {{op: "edit", before: refused(40 * time.Second)}},
		"edit hangs":      {{op: "edit", delay: time.Hour}},
		"edit unclear":    {{op: "edit", after: errors.New("connection cut")}},
		"message gone":    {{op: "edit", before: fmt.Errorf("deleted: %w", chat.ErrGone)}, {op: "edit", before: fmt.Errorf("deleted: %w", chat.ErrGone)}},
		"preview is slow": {{op: "send", delay: 20 * time.Second}},
	}
	for name, fs := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Answer{Text: strings.Repeat("word ", 20) + "end", Delay: 3 * time.Second})
				w.room.fail(fs...)
				w.start()
				defer w.stop()
				w.say("7", "tell me")
				w.settle(3 * time.Hour)
				n := 0
				for _, text := range w.room.visible("7") {
					if strings.HasSuffix(text, "end") {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the answer is there %d times:\n%s", n, w.room.history())
				}
				if _, rows := w.open(); len(rows) != 0 {
					for _, r := range rows {
						if r.Role == outbox.Reply {
							t.Errorf("left in the outbox: %+v", r)
						}
					}
				}
			})
		})
	}
}

func refused(after time.Duration) error {
	return &chat.SendError{Outcome: chat.Transient, RetryAfter: after, Reason: "Too Many Requests"}
}

func TestARetryAfterIsHonouredToTheLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.room.fail(fault{op: "send", before: refused(149 * time.Second)})
		w.start()
		defer w.stop()
		w.say("7", "one")
		w.settle(time.Second)
		w.say("8", "another chat is not held back")
		w.settle(147 * time.Second)
		if len(w.room.visible("7")) != 0 || len(w.room.visible("8")) != 1 {
			t.Errorf("after 148 s:\n%s", w.room.history())
		}
		w.settle(2 * time.Second)
		if diff := cmp.Diff([]string{"re: one"}, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnUncertainReplyIsRepeatedMarkedHeldOrDropped(t *testing.T) {
	for policy, want := range map[outbox.UncertainPolicy][]string{
		outbox.Resend: {"Hello.", "(may be a repeat)\nHello.", "Again."},
		outbox.Hold:   {"Hello.", "Again."},
		outbox.Drop:   {"Hello.", "Again."},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("Hello."), llmtest.Say("Again."))
				w.set = func(o *gateway.Options) { o.Uncertain = policy }
				w.room.fail(fault{op: "send", after: errors.New("no answer")})
				w.start()
				defer w.stop()
				w.say("7", "hi")
				w.settle(time.Minute)
				w.say("7", "more")
				w.settle(time.Minute)
				if diff := cmp.Diff(want, w.room.visible("7")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestToolCallsAreShownAsLongAsThereIsNoAnswer(t *testing.T) {
	for mode, want := range map[string]string{
		"off": "", "new": "🔧 lookup", "all": "🔧 lookup trains", "verbose": `🔧 lookup {"query":"trains"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Use("lookup", `{"query":"trains"}`), llmtest.Answer{Text: "They go at nine.", Delay: 2 * time.Second})
			w.tools = []tool.Tool{lookup{}}
			w.set = func(o *gateway.Options) { o.Progress = mode }
			w.start()
			defer w.stop()
			w.say("7", "when?")
			w.settle(time.Hour)
			if log := w.room.history(); want != "" && !strings.Contains(log, "< "+want+"\n") || want == "" && strings.Contains(log, "🔧") {
				t.Errorf("%s shows\n%s", mode, log)
			}
			if got := w.room.visible("7"); len(got) != 1 || got[0] != "They go at nine." {
				t.Errorf("%s leaves %q", mode, got)
			}
		})
	}
}

// What the model writes ahead of a tool call stays, and what follows begins a new
// message; where tool calls are not shown, the answer takes its place.
func TestAToolCallBeginsANewMessage(t *testing.T) {
	for mode, want := range map[string][]string{
		"off": {"They go at nine."}, "new": {"Let me look.", "They go at nine."}, "all": {"Let me look.", "They go at nine."},
	} {
		for _, slow := range []time.Duration{0, 3 * time.Second} { // without and with a preview
			synctest.Test(t, func(t *testing.T) {
				ahead := llmtest.Use("lookup", `{"query":"trains"}`)
				ahead.Text, ahead.Delay = "Let me look.", slow
				w := newHarness(t, ahead, llmtest.Answer{Text: "They go at nine.", Delay: 2 * time.Second})
				w.tools = []tool.Tool{lookup{}}
				w.set = func(o *gateway.Options) { o.Progress = mode }
				w.start()
				defer w.stop()
				w.say("7", "when?")
				w.settle(time.Hour)
				if diff := cmp.Diff(want, w.room.visible("7")); diff != "" {
					t.Errorf("%s, after %v: %s\n%s", mode, slow, diff, w.room.history())
				}
			})
		}
	}
}

// A tool call that comes at once does not keep people from seeing that the agent
// works.
func TestATurnWithAToolAtOnceShowsThatItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := llmtest.Use("lookup", `{"query":"trains"}`)
		ahead.Text = "Let me look."
		w := newHarness(t, ahead, llmtest.Answer{Text: "They go at nine.", Delay: 900 * time.Millisecond})
		w.tools = []tool.Tool{lookup{}}
		w.set = func(o *gateway.Options) { o.Progress, o.EditInterval = "all", time.Second }
		w.start()
		defer w.stop()
		w.say("7", "when?")
		w.settle(500 * time.Millisecond)
		w.room.mu.Lock()
		n := w.room.typing
		w.room.mu.Unlock()
		if n == 0 {
			t.Error("nobody sees that a turn runs")
		}
		w.settle(time.Hour)
	})
}

func TestAnEditOfAWaitingMessageReplacesItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newHarness(t, llmtest.Answer{Text: "one", Wait: hold})
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("re: " + r.Newest()) }
		w.set = func(o *gateway.Options) { o.Mode = inbox.Queue }
		w.start()
		defer w.stop()
		w.say("7", "first")
		w.settle(time.Second)
		w.say("7", "secnod")
		edit := w.message("7", "second")
		edit.Kind, edit.IdempotencyKey, edit.EditedKey = chat.Edit, "7:2:1", "7:2"
		w.offer(edit)
		late := w.message("7", "frist")
		late.Kind, late.IdempotencyKey, late.EditedKey = chat.Edit, "7:1:1", "7:1"
		w.offer(late)
		close(hold)
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"one", "re: second"}, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
		if got := w.outcome("7:1:1"); got != "silent(edit_too_late)" {
			t.Errorf("the late edit ended %s", got)
		}
	})
}

func TestPiecesOfOneTextAreOneInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Read."))
		w.start()
		defer w.stop()
		long := w.message("7", strings.Repeat("a", 4000))
		long.Part = &chat.Part{Group: "text", Wait: time.Second}
		w.offer(long)
		w.settle(400 * time.Millisecond)
		rest := w.message("7", "the end")
		rest.Part = &chat.Part{Group: "text"}
		w.offer(rest)
		w.settle(time.Minute)
		reqs := w.model.Requests()
		if len(reqs) != 1 || reqs[0].Newest() != strings.Repeat("a", 4000)+"\nthe end" {
			t.Errorf("%d requests, the last with %d letters", len(reqs), len(reqs[len(reqs)-1].Newest()))
		}
		if got := w.room.visible("7"); len(got) != 1 {
			t.Errorf("answers: %q", got)
		}
	})
}

// overtaken has another message accepted before the first one is known to be.
type overtaken struct {
	gateway.Store
	by func()
}

func (s *overtaken) Accept(ctx context.Context, entries []inbox.Entry) ([]inbox.Acceptance, error) {
	taken, err := s.Store.Accept(ctx, entries)
	if by := s.by; by != nil {
		s.by = nil
		by()
	}
	return taken, err
}

func TestAMessageThatOvertakesAnotherIsAnsweredBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("first"), llmtest.Say("second"))
		w.set = func(o *gateway.Options) {
			o.Mode = inbox.Queue
			o.Store = &overtaken{Store: o.Store, by: func() { w.say("7", "two"); synctest.Wait() }}
		}
		w.start()
		defer w.stop()
		w.say("7", "one")
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"first", "second"}, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}
