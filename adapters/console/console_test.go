package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hermesd/adapters/console"
	"hermesd/gateway/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A sink takes what is said, or refuses it with err.
type sink struct {
	mu  sync.Mutex
	err error
	got []chat.Inbound
}

func (s *sink) Accept(_ context.Context, batch []chat.Inbound) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.got = append(s.got, batch...)
	}
	return s.err
}

func (s *sink) taken() []chat.Inbound {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// start runs a console until the test ends.
func start(t *testing.T, o console.Options) (*console.Adapter, *sink) {
	t.Helper()
	a, s := console.New(o), &sink{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a, s
}

func attach(t *testing.T, a *console.Adapter, has ...string) *console.Client {
	t.Helper()
	c, err := a.Attach(t.Context(), console.Default, has...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// next takes one event and shows it.
func next(t *testing.T, c *console.Client) console.Event {
	t.Helper()
	ev, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Seen(ev.Seq)
	return ev
}

var here = console.Address(console.Default)

func out(id, text string) chat.Outbound {
	return chat.Outbound{ID: id, To: here, Text: chat.PlainText(text)}
}

type sent struct {
	r   chat.Receipt
	err error
}

// send sends in the background.
func send(a *console.Adapter, m chat.Outbound) <-chan sent {
	ch := make(chan sent, 1)
	go func() { r, err := a.Send(context.Background(), m); ch <- sent{r, err} }()
	return ch
}

func outcome(t *testing.T, err error) chat.Outcome {
	t.Helper()
	var se *chat.SendError
	if !errors.As(err, &se) {
		t.Fatalf("got %v, want a SendError", err)
	}
	return se.Outcome
}

func TestWhatIsShownIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c := attach(t, a)
		res := send(a, out("o1", "hello"))
		synctest.Wait()
		select {
		case r := <-res:
			t.Fatalf("delivered before anybody saw it: %+v", r)
		default:
		}
		ev := next(t, c)
		if ev.Kind != console.Message || ev.ID != "o1" || ev.Text.Text != "hello" {
			t.Errorf("got %+v", ev)
		}
		if r := <-res; r.err != nil || r.r.ID != "o1" {
			t.Errorf("got %+v, want the receipt o1", r)
		}
	})
}

func TestWithNobodyAttachedASendIsRefusedAndTheNextAttachIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan chat.Address, 9)
		a, _ := start(t, console.Options{OnAttach: func(to chat.Address) { woken <- to }})
		_, err := a.Send(t.Context(), out("o1", "x"))
		var se *chat.SendError
		if !errors.As(err, &se) || se.Outcome != chat.Transient || se.RetryAfter != 0 || se.Reason != "no terminal is attached" {
			t.Fatalf("got %#v", err)
		}
		attach(t, a)
		if got := <-woken; got != here {
			t.Errorf("woken for %v, want %v", got, here)
		}
		time.Sleep(2 * time.Second) // fake time: the refusal may have reached the outbox after the attach
		synctest.Wait()
		if len(woken) != 1 {
			t.Fatalf("woken %d times, want once more after the refusal of this moment", len(woken))
		}
		<-woken
		attach(t, a)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(woken) != 1 {
			t.Errorf("woken %d times, want once for an attach that missed nothing", len(woken))
		}
	})
}

func TestAClientThatDoesNotDrainIsDetached(t *testing.T) {
	for _, tc := range []struct {
		name string
		take bool // the client is handed the message and never shows it
		want chat.Outcome
	}{
		{"never asked", false, chat.Transient},
		{"asked and did not show", true, chat.Uncertain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
				c := attach(t, a)
				began := time.Now()
				res := send(a, out("o1", "x"))
				if tc.take {
					if _, err := c.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				r := <-res
				if got := outcome(t, r.err); got != tc.want {
					t.Errorf("got outcome %v, want %v", got, tc.want)
				}
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("the send waited %v, want 5s", took)
				}
				if _, err := c.Next(t.Context()); !errors.Is(err, console.ErrSlow) {
					t.Errorf("got %v, want ErrSlow", err)
				}
				if n := a.Attached(); n != 0 {
					t.Errorf("%d clients are attached", n)
				}
			})
		})
	}
}

func TestASlowTerminalDoesNotHoldUpAQuickOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		slow, quick := attach(t, a), attach(t, a)
		began := time.Now()
		for i := range 300 {
			res := send(a, out(fmt.Sprint("o", i+1), "x"))
			next(t, quick)
			if r := <-res; r.err != nil {
				t.Fatal(i, r.err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v for the slow terminal", took)
		}
		if _, err := slow.Next(t.Context()); !errors.Is(err, console.ErrSlow) {
			t.Errorf("the slow terminal got %v, want to be detached", err)
		}
	})
}

func TestAClientThatLeavesSaysWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c := attach(t, a)
		res := send(a, out("o1", "x"))
		synctest.Wait()
		c.Close()
		if got := outcome(t, (<-res).err); got != chat.Transient {
			t.Errorf("not handed out: got %v, want refused", got)
		}
		c = attach(t, a)
		res = send(a, out("o2", "x"))
		if _, err := c.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := outcome(t, (<-res).err); got != chat.Uncertain {
			t.Errorf("handed out: got %v, want uncertain", got)
		}
		if _, _, err := a.Find(t.Context(), out("o2", "")); err == nil {
			t.Error("with nobody attached it cannot be known")
		}
		attach(t, a, "o2")
		if _, ok, err := a.Find(t.Context(), out("o2", "")); !ok || err != nil {
			t.Errorf("the client came back and has it: got %v, %v", ok, err)
		}
		if _, ok, err := a.Find(t.Context(), out("o1", "")); ok || err != nil {
			t.Errorf("nobody has o1: got %v, %v", ok, err)
		}
	})
}

func TestACancelledSendIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c := attach(t, a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Send(ctx, out("o1", "first")); outcome(t, err) != chat.Transient {
			t.Errorf("got %v, want refused", err)
		}
		res := send(a, out("o1", "again"))
		if ev := next(t, c); ev.Text.Text != "again" {
			t.Errorf("the client was shown %q", ev.Text.Text)
		}
		if r := <-res; r.err != nil {
			t.Error(r.err)
		}
	})
}

func TestEditsReachWhoHasTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		edit := func() error { return a.Edit(t.Context(), "o1", out("", "second")) }
		if err := edit(); outcome(t, err) != chat.Transient || errors.Is(err, chat.ErrGone) {
			t.Errorf("nobody attached: got %v, want to wait", err)
		}
		c := attach(t, a)
		if err := edit(); !errors.Is(err, chat.ErrGone) {
			t.Errorf("nobody has the message: got %v, want ErrGone", err)
		}
		res := send(a, out("o1", "first"))
		next(t, c)
		<-res
		late := attach(t, a)
		done := make(chan error, 1)
		go func() { done <- edit() }()
		for _, who := range []*console.Client{c, late} {
			if ev := next(t, who); ev.Kind != console.Edit || ev.ID != "o1" || ev.Text.Text != "second" {
				t.Errorf("got %+v", ev)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDeletingWhereNobodyIsAttachedSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		if err := a.Delete(t.Context(), here, "o1"); err != nil {
			t.Error(err)
		}
		c := attach(t, a)
		done := make(chan error, 1)
		go func() { done <- a.Delete(t.Context(), here, "o1") }()
		if ev := next(t, c); ev.Kind != console.Delete || ev.ID != "o1" {
			t.Errorf("got %+v", ev)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTypingIsShownOnceAndNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c := attach(t, a)
		for range 1000 {
			if err := a.Typing(t.Context(), here); err != nil {
				t.Fatal(err)
			}
		}
		if ev := next(t, c); ev.Kind != console.Typing {
			t.Errorf("got %+v", ev)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ev, err := c.Next(ctx); err == nil {
			t.Errorf("got another event: %+v", ev)
		}
	})
}

func TestALineIsAcceptedAndShownToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c, other := attach(t, a), attach(t, a)
		id, err := c.Say(t.Context(), "", "héllo")
		if err != nil {
			t.Fatal(err)
		}
		got := s.taken()
		want := []chat.Inbound{{
			IdempotencyKey: "line:" + id, ID: id, Kind: chat.Message, Address: here, Sender: chat.Person{ID: "local"},
			SentAt: time.Now(), Text: "héllo", ChatName: "terminal", Addressed: true,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if ev := next(t, other); ev.Kind != console.OtherTerminal || ev.Text.Text != "héllo" || ev.ID != id {
			t.Errorf("got %+v", ev)
		}
		if again, err := c.Say(t.Context(), id, "héllo"); err != nil || again != id || s.taken()[1].IdempotencyKey != got[0].IdempotencyKey {
			t.Errorf("a repeat must keep its key: %v, %v", again, err)
		}
	})
}

func TestALineThatCannotBeTakenIsRefusedInWords(t *testing.T) {
	a, s := start(t, console.Options{OnAttach: func(chat.Address) {}})
	c := attach(t, a)
	for name, line := range map[string][2]string{
		"empty": {"", " \n"}, "not UTF-8": {"", "a\xff"}, "too long": {"", strings.Repeat("x", 256<<10+1)},
		"odd id": {"a:b", "hello"}, "long id": {strings.Repeat("x", 65), "hello"},
	} {
		if _, err := c.Say(t.Context(), line[0], line[1]); !errors.Is(err, console.ErrLine) {
			t.Errorf("%s: got %v, want ErrLine", name, err)
		}
	}
	s.err = errors.New("disk full")
	if _, err := c.Say(t.Context(), "", "x"); !errors.Is(err, s.err) {
		t.Errorf("got %v, want the sink's error", err)
	}
	if got := s.taken(); len(got) != 0 {
		t.Errorf("taken: %+v", got)
	}
}

func TestAConversationNeedsAPlainName(t *testing.T) {
	a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
	for _, name := range []string{"a b", "a:b", "../x", strings.Repeat("x", 65), "ä"} {
		if _, err := a.Attach(t.Context(), name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestConversationsDoNotHearEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t, console.Options{OnAttach: func(chat.Address) {}})
		c, err := a.Attach(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := a.Send(t.Context(), out("o1", "x")); outcome(t, err) != chat.Transient {
			t.Errorf("got %v, want refused: only another conversation has a terminal", err)
		}
	})
}

func TestAStopDetachesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := console.New(console.Options{OnAttach: func(chat.Address) {}}), &sink{}
		early := attach(t, a)
		said := make(chan error, 1)
		go func() { _, err := early.Say(context.Background(), "", "before it runs"); said <- err }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx, s) }()
		if err := <-said; err != nil {
			t.Errorf("a line from before the start: %v", err)
		}
		res := send(a, out("o1", "x"))
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := outcome(t, (<-res).err); got != chat.Transient {
			t.Errorf("got %v, want refused", got)
		}
		if _, err := early.Next(t.Context()); !errors.Is(err, console.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
		if _, err := early.Say(t.Context(), "", "x"); !errors.Is(err, console.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
		if _, err := a.Attach(t.Context(), ""); !errors.Is(err, console.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
		if h := a.Health(); h.State != chat.Failed {
			t.Errorf("got %+v", h)
		}
	})
}
