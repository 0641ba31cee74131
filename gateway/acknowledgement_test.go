package gateway_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// newBusyHarness returns a started harness whose conversation with 7 has a turn that runs
// until release is closed, and whose messages wait and are acknowledged.
func newBusyHarness(t *testing.T) (w *harness, s *failingStore, release chan struct{}) {
	w, s, release = newHarness(t), &failingStore{}, make(chan struct{})
	w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Answer{Text: "Done.", Wait: release} }
	w.configure = func(o *gatewaytest.Options) {
		s.Store, o.Store, o.Log = o.Store, s, nil
		o.Mode, o.Acknowledge = inbox.Queue, true
	}
	w.start()
	w.sendText("7", "work")
	w.advance(time.Second)
	return w, s, release
}

// acknowledgements returns the number of messages that say that a message is next.
func (w *harness) acknowledgements() (n int) {
	for _, text := range w.adapter.visible("7") {
		if strings.Contains(text, "your message is next") {
			n++
		}
	}
	return n
}

// An acknowledgement is stored with its message: in the same write and once, at most one
// in half a minute.
func TestAcknowledgementIsStoredWithItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, release := newBusyHarness(t)
		defer w.stop()
		defer close(release)
		in := w.newMessage("7", "and this")
		before := w.store.Stats().Commits
		w.accept(in)
		w.advance(time.Second)
		if n := w.store.Stats().Commits - before; n != 2 {
			t.Errorf("%d commits for a message with its acknowledgement, and for the receipt of that", n)
		}
		w.accept(in) // the platform delivers it again
		w.accept(w.newMessage("7", "and that"))
		w.advance(time.Second)
		if n := w.acknowledgements(); n != 1 {
			t.Errorf("%d acknowledgements: %q", n, w.adapter.visible("7"))
		}
		w.advance(time.Minute)
		w.accept(in)
		w.advance(time.Second)
		if n := w.acknowledgements(); n != 1 {
			t.Errorf("%d acknowledgements after a duplicate: %q", n, w.adapter.visible("7"))
		}
		w.accept(w.newMessage("7", "and another one"))
		w.advance(time.Second)
		if n := w.acknowledgements(); n != 2 {
			t.Errorf("%d acknowledgements after a minute: %q", n, w.adapter.visible("7"))
		}
	})
}

// A refused write acknowledges nothing, and the message is acknowledged once it is stored.
func TestAcknowledgementRefusedWriteIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, release := newBusyHarness(t)
		defer w.stop()
		defer close(release)
		in := w.newMessage("7", "and this")
		s.accept = errors.New("no space left on device")
		rows, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err == nil {
			t.Fatal("accepted")
		}
		w.advance(time.Second)
		later, _, err := w.store.Outbox(t.Context(), outbox.Query{Sent: true})
		if err != nil || len(later) != len(rows) || w.acknowledgements() != 0 {
			t.Errorf("%d rows, %d before, %v; visible %q", len(later), len(rows), err, w.adapter.visible("7"))
		}
		if told := w.adapter.visible("7"); !strings.Contains(strings.Join(told, "\n"), "I cannot store") {
			t.Errorf("the sender reads %q", told)
		}
		s.accept = nil
		w.accept(in)
		w.advance(time.Second)
		if n := w.acknowledgements(); n != 1 {
			t.Errorf("%d acknowledgements: %q", n, w.adapter.visible("7"))
		}
	})
}

// A message that is refused because too many wait is not acknowledged.
func TestAcknowledgementNotForRefusedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, release := newBusyHarness(t)
		defer w.stop()
		defer close(release)
		var batch []chat.Inbound
		for range 100 {
			batch = append(batch, w.newMessage("7", "more"))
		}
		if err := w.gw.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		w.accept(w.newMessage("7", "one too many"))
		w.advance(time.Second)
		seen := w.adapter.visible("7")
		if n := w.acknowledgements(); n != 1 || !strings.Contains(seen[len(seen)-1], "100 messages already wait") {
			t.Errorf("%d acknowledgements, then %q", n, seen[len(seen)-1])
		}
	})
}

// The process dies before or after the write that accepts a message: the acknowledgement is
// stored with the message, or neither is.
func TestAcknowledgementSurvivesCrash(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, s, release := newBusyHarness(t)
			s.Store = &lastAcceptStore{s.Store, stored}
			in := w.newMessage("7", "and this")
			if err := w.gw.Accept(t.Context(), []chat.Inbound{in}); err == nil {
				t.Fatal("accepted")
			}
			w.kill()
			w.configure = func(o *gatewaytest.Options) { o.Mode, o.Acknowledge = inbox.Queue, true }
			w.start()
			defer w.stop()
			w.advance(time.Second)
			if n := w.acknowledgements(); (n == 1) != stored {
				t.Errorf("stored %v: %d acknowledgements after the restart", stored, n)
			}
			w.accept(in) // the platform delivers it again
			w.advance(time.Second)
			if n := w.acknowledgements(); n != 1 {
				t.Errorf("stored %v: %d acknowledgements, visible %q", stored, n, w.adapter.visible("7"))
			}
			close(release)
			w.advance(time.Minute)
		})
	}
}
