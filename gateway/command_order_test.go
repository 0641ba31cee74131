package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Messages that arrive in the same batch after a command are processed after it.
func TestCommandAppliesToLaterMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."))
		w.start()
		defer w.stop()
		w.talk("a")
		batch := []chat.Inbound{w.newMessage("7", "/new"), w.newMessage("7", "b")} // of one poll
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		recs, err := w.store.Sessions(t.Context(), session.Query{})
		if err != nil || len(recs) != 2 {
			t.Fatalf("%d sessions, %v", len(recs), err)
		}
		if r := w.model.Requests(); len(r) != 2 || len(r[1].Messages) != 1 {
			t.Errorf("the second message was answered in the old conversation")
		}
	})
}

func TestStopCancelsOnlyEarlierMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Never mind then."))
		w.start()
		defer w.stop()
		batch := []chat.Inbound{w.newMessage("7", "do it"), w.newMessage("7", "/stop"), w.newMessage("7", "do this instead")}
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if d := cmp.Diff([]string{"cancelled(/stop)", "replied"}, []string{w.outcome("7:1"), w.outcome("7:3")}); d != "" {
			t.Errorf("%s\n%s", d, strings.Join(w.adapter.visible("7"), "\n"))
		}
	})
}

// A command that stops a turn also cancels the only message before it in the batch, which
// is claimed already and waits for the command.
func TestStopCancelsClaimedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hello."))
		w.start()
		defer w.stop()
		if err := w.gw.Accept(t.Context(), []chat.Inbound{w.newMessage("7", "do it"), w.newMessage("7", "/stop")}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if got := w.outcome("7:1"); got != "cancelled(/stop)" {
			t.Errorf("%s\n%s", got, strings.Join(w.adapter.visible("7"), "\n"))
		}
		if got := w.talk("hello"); got != "Hello." {
			t.Errorf("then %q", got)
		}
		if got := strings.Join(w.adapter.visible("7"), "\n"); !strings.Contains(got, "The running turn is stopped") {
			t.Error(got)
		}
	})
}

// A slowStore delays the first claim of a turn, before or after it is stored, or all
// releases, until resume is closed.
type slowStore struct {
	store.Store
	delay  string // claim, claimed or release
	resume chan struct{}
	once   sync.Once
}

func (s *slowStore) Accept(ctx context.Context, admissions []store.Admission) ([]store.Acceptance, error) {
	for i := range admissions {
		admissions[i].Claim = false
	}
	return s.Store.Accept(ctx, admissions)
}

func (s *slowStore) Claim(ctx context.Context, l inbox.Lane, max int) (store.Claim, error) {
	delay := ""
	if !l.Immediate() {
		s.once.Do(func() { delay = s.delay })
	}
	if delay == "claim" {
		<-s.resume
	}
	c, err := s.Store.Claim(ctx, l, max)
	if delay == "claimed" {
		<-s.resume
	}
	return c, err
}

func (s *slowStore) Release(ctx context.Context, c store.Claim) error {
	if s.delay == "release" {
		<-s.resume
	}
	return s.Store.Release(ctx, c)
}

// A command that stops a turn cancels that of an earlier message, and no other, also
// while the lane claims its entries, or gives them back because of the next message.
func TestStopWhileStoreIsSlow(t *testing.T) {
	for _, delay := range []string{"claim", "claimed", "release"} {
		t.Run(delay, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer, wait := llmtest.Say("Never mind then."), make(chan struct{})
				answer.Wait = wait
				w := newHarness(t, answer)
				if delay == "release" {
					w.model.Then(answer)
				}
				s := &slowStore{delay: delay, resume: make(chan struct{})}
				w.configure = func(o *gatewaytest.Options) { s.Store, o.Store = o.Store, s }
				w.start()
				defer w.stop()
				w.sendText("7", "do it")
				synctest.Wait()
				if err := w.gw.Accept(t.Context(), []chat.Inbound{w.newMessage("7", "/stop"), w.newMessage("7", "do this instead")}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				close(s.resume)
				synctest.Wait()
				close(wait)
				w.advance(time.Minute)
				if d := cmp.Diff([]string{"cancelled(/stop)", "replied"}, []string{w.outcome("7:1"), w.outcome("7:3")}); d != "" {
					t.Errorf("%s\n%s", d, strings.Join(w.adapter.visible("7"), "\n"))
				}
			})
		})
	}
}

// A message whose turn starts before Accept returns does not interrupt that turn.
func TestMessageDoesNotInterruptItsOwnTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := make(chan struct{}), make(chan struct{})
		first, last := llmtest.Say("One."), llmtest.Say("Two.")
		first.Wait, last.Wait = one, two
		w := newHarness(t, first, llmtest.Use("lookup", `{}`), last)
		w.tools = []tool.Tool{lookupTool{}}
		s := &overtakenStore{}
		w.configure = func(o *gatewaytest.Options) { s.Store, o.Store = o.Store, s }
		w.start()
		defer w.stop()
		w.sendText("7", "one")
		synctest.Wait()
		s.by = func() { close(one); synctest.Wait() } // the second turn starts, and runs its tool
		w.sendText("7", "two")
		close(two)
		w.advance(time.Minute)
		if d := cmp.Diff([]string{"One.", "Two."}, w.adapter.visible("7")); d != "" {
			t.Error(d)
		}
	})
}
