package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

func attach(t *testing.T, c *admin.Client, has ...string) *admin.Chat {
	t.Helper()
	ch, err := c.Attach(t.Context(), "", has...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
	})
	return ch
}

func next(t *testing.T, ch *admin.Chat) admin.Down {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := ch.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d.Event != nil && d.Event.Seq > 0 {
		if err := ch.Seen(d.Event.Seq); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

var here = console.Address(console.Default)

func TestATerminalSpeaksHearsAndLearnsTheOutcome(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		hello := ch.Hello()
		if hello.Version != "1.2.3" || hello.Model != "demo" || hello.Conversation != "local" || len(hello.Commands) < 5 {
			t.Errorf("got %+v", hello)
		}
		if err := ch.Say(t.Context(), "l1", "hello <sk-very-secret> 日本"); err != nil {
			t.Fatal(err)
		}
		if got := r.store.chains[0].Entry.Inbound.Text; got != "hello <sk-very-secret> 日本" {
			t.Errorf("accepted %q", got)
		}
		receipt := make(chan error, 1)
		go func() {
			_, err := r.console.Send(context.Background(), chat.Outbound{ID: "o9", To: here, Text: chat.PlainText("it is sk-very-secret")})
			receipt <- err
		}()
		if d := next(t, ch); d.Event == nil || d.Event.ID != "o9" || d.Event.Text.Text != "it is <secret>" {
			t.Errorf("got %+v", d.Event)
		}
		if err := <-receipt; err != nil {
			t.Errorf("a message that was shown has no receipt: %v", err)
		}
		r.store.end(inbox.Outcome{Result: inbox.Replied},
			outbox.Row{ID: 7, Role: outbox.Notice, State: outbox.Sent, Receipt: &chat.Receipt{ID: "o7"}, Msg: chat.Outbound{Text: chat.PlainText("a notice")}},
			outbox.Row{ID: 8, Role: outbox.Preview, State: outbox.Sent, Receipt: &chat.Receipt{ID: "o8"}},
			outbox.Row{ID: 9, Role: outbox.Reply, State: outbox.Sent, Receipt: &chat.Receipt{ID: "o9"}, Msg: chat.Outbound{Text: chat.PlainText("answer")}})
		o := next(t, ch).Outcome
		if o == nil || o.ID != "l1" || o.Result != inbox.Replied || len(o.Text) != 1 || o.Text[0].Text != "answer" ||
			strings.Join(o.Messages, " ") != "o8 o9" || o.Trace.Session != "s1" || len(o.Trace.Calls) != 1 {
			t.Errorf("got %+v", o)
		}
	})
}

func TestAnOutcomeWaitsForItsMessagesButNotForEver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		t.Parallel()
		ch := attach(t, c)
		if err := ch.Say(t.Context(), "l1", "x"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.store.end(inbox.Outcome{Result: inbox.Replied}, outbox.Row{ID: 8, Role: outbox.Reply, State: outbox.NotSent})
		if d := next(t, ch); d.Outcome == nil {
			t.Errorf("got %+v", d)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("the outcome came after %v, ahead of a message that was still on its way", took)
		}
	})
}

func TestALineThatIsRefusedSaysWhy(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		wantError(t, ch.Say(t.Context(), "l1", "  "), http.StatusBadRequest, "empty")
		r.store.mu.Lock()
		r.store.err = errors.New("the disk is full")
		r.store.mu.Unlock()
		wantError(t, ch.Say(t.Context(), "l2", "hello"), http.StatusBadRequest, "the disk is full")
	})
}

// A line of which it is not known whether it was accepted is not refused: the terminal is
// detached, and sends it again under the same ID.
func TestUnknownOutcomeDetaches(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		r.store.mu.Lock()
		r.store.err = fmt.Errorf("accept: %w", chat.ErrOutcomeUnknown)
		r.store.mu.Unlock()
		var refused *admin.Error
		if err := ch.Say(t.Context(), "l1", "hello"); err == nil || errors.As(err, &refused) {
			t.Errorf("got %v, want a broken connection", err)
		}
	})
}

func TestABadConversationIsRefused(t *testing.T) {
	each(t, func(t *testing.T, _ *rig, c *admin.Client) {
		_, err := c.Attach(t.Context(), "a b")
		wantError(t, err, http.StatusBadRequest, "letters")
	})
}

func TestATerminalThatComesBackHasWhatItHad(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		attach(t, c, "o1", "o2")
		if _, ok, err := r.console.Find(t.Context(), chat.Outbound{ID: "o2", To: here}); !ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
	})
}

func TestAHandlerThatClosesSaysGoodbye(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		if err := r.handler.Close(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := ch.Next(t.Context())
		if !errors.Is(err, admin.ErrHungUp) || !strings.Contains(err.Error(), "the daemon stops") {
			t.Errorf("got %v", err)
		}
		if err := ch.Say(t.Context(), "l1", "x"); !errors.Is(err, admin.ErrHungUp) {
			t.Errorf("got %v", err)
		}
		if n := r.console.Attached(); n != 0 {
			t.Errorf("%d terminals are attached", n)
		}
		_, err = c.Attach(t.Context(), "")
		wantError(t, err, http.StatusServiceUnavailable, "stops")
	})
}

// The turn of a line may end while the daemon stops. Its outcome comes before the goodbye:
// the terminal has no other way to know that what it has shown is the answer.
func TestOutcomeComesBeforeGoodbye(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		if err := ch.Say(t.Context(), "l1", "hello"); err != nil {
			t.Fatal(err)
		}
		r.store.end(inbox.Outcome{Result: inbox.Replied},
			outbox.Row{ID: 9, Role: outbox.Reply, State: outbox.Sent, Receipt: &chat.Receipt{ID: "o9"}, Msg: chat.Outbound{Text: chat.PlainText("answer")}})
		if err := r.handler.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if o := next(t, ch).Outcome; o == nil || o.ID != "l1" || len(o.Text) != 1 || o.Text[0].Text != "answer" {
			t.Errorf("got %+v", o)
		}
		if _, err := ch.Next(t.Context()); !errors.Is(err, admin.ErrHungUp) {
			t.Errorf("got %v, want one outcome and the goodbye", err)
		}
	})
}

func TestALeavingTerminalIsDetached(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		ch := attach(t, c)
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
		if err := r.handler.Close(t.Context()); err != nil { // waits for the terminal's end
			t.Error(err)
		}
		if n := r.console.Attached(); n != 0 {
			t.Errorf("%d terminals are attached", n)
		}
	})
}
