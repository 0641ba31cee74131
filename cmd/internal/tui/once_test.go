package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/inbox"
)

func options(f *fakeDaemon, in string) (Options, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	return Options{Attach: f.attach, In: strings.NewReader(in), Out: &out, Errs: &errs}, &out, &errs
}

func TestOncePrintsOnlyTheAnswer(t *testing.T) {
	f := newFake()
	f.reply = replyAll
	o, out, errs := options(f, "")
	if err := Once(t.Context(), o, "hi"); err != nil {
		t.Fatal(err)
	}
	if out.String() != "you said *hi*\n" || errs.String() != "" {
		t.Errorf("got %q and %q", out, errs)
	}
}

func TestOncePrintsOtherMessagesToErrs(t *testing.T) {
	f := newFake()
	f.reply = func(c *fakeChat, ln line) {
		c.down <- event(console.Message, "o1", "an answer from yesterday")
		c.down <- event(console.Message, "o2", "a preview")
		c.down <- event(console.Delete, "o2", "")
		c.down <- event(console.Message, "o3", "fresh")
		c.down <- outcome(ln.id, inbox.Replied, "fresh", "o2", "o3")
	}
	o, out, errs := options(f, "")
	if err := Once(t.Context(), o, "hi"); err != nil {
		t.Fatal(err)
	}
	if out.String() != "fresh\n" || errs.String() != "an answer from yesterday\n" {
		t.Errorf("got %q and %q", out, errs)
	}
}

func TestOnceReportsFailure(t *testing.T) {
	for _, tc := range []struct {
		name string
		down func(id string) admin.Down
		want string
	}{
		{"with a sentence", func(id string) admin.Down { return outcome(id, inbox.Failed, "⚠️ no luck", "o1") }, "⚠️ no luck\n"},
		{"without one", func(id string) admin.Down {
			return admin.Down{Outcome: &admin.Outcome{ID: id, Result: inbox.Cancelled, Reason: "/stop"}}
		}, "cancelled: /stop\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake()
			f.reply = func(c *fakeChat, ln line) { c.down <- tc.down(ln.id) }
			o, out, errs := options(f, "")
			if err := Once(t.Context(), o, "hi"); !errors.Is(err, ErrUnanswered) {
				t.Errorf("got %v", err)
			}
			if out.String() != "" || errs.String() != tc.want {
				t.Errorf("got %q and %q", out, errs)
			}
		})
	}
}

func TestOnceReportsRejectedLine(t *testing.T) {
	f := newFake()
	f.onSay = func(line) error { return &admin.Error{Code: 400, Text: "the disk is full"} }
	o, _, _ := options(f, "")
	if err := Once(t.Context(), o, "hi"); err == nil || err.Error() != "the disk is full" {
		t.Errorf("got %v", err)
	}
	f.refuse = errors.New("no such conversation")
	if err := Once(t.Context(), o, "hi"); !errors.Is(err, f.refuse) {
		t.Errorf("got %v", err)
	}
}

func TestOnceSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.reply = func(c *fakeChat, ln line) {
			if len(f.lines()) == 1 { // accepted before the crash
				c.down <- event(console.Message, "o1", "half of it")
				go func() { time.Sleep(time.Second); c.hangUp() }()
				return
			}
			c.down <- outcome(ln.id, inbox.Replied, "whole", "o1")
		}
		o, out, _ := options(f, "")
		if err := Once(t.Context(), o, "hi"); err != nil {
			t.Fatal(err)
		}
		if out.String() != "whole\n" {
			t.Errorf("got %q", out)
		}
		said := f.lines()
		if len(said) != 2 || said[0] != said[1] {
			t.Errorf("said %+v: want the same line under the same id", said)
		}
		if diff := cmp.Diff([][]string{nil, {"o1"}}, f.has); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOnceTimesOutWithoutDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.reply = func(c *fakeChat, _ line) {
			f.mu.Lock()
			f.refuse = admin.ErrNoDaemon
			f.mu.Unlock()
			c.down <- event(console.Message, "o1", "shown and acknowledged")
			go func() { time.Sleep(time.Second); c.hangUp() }()
		}
		o, _, errs := options(f, "")
		err := Once(t.Context(), o, "hi")
		if errs.String() != "shown and acknowledged\n" {
			t.Errorf("got %q: the daemon sends an acknowledged message to no other terminal", errs)
		}
		if id := f.lines()[0].id; err == nil || !strings.Contains(err.Error(), "hermesd why "+id) {
			t.Errorf("got %v, want to be told where to look", err)
		}
	})
}

func TestLinesAreAskedInOrder(t *testing.T) {
	f := newFake()
	f.reply = replyAll
	o, out, _ := options(f, "one\n\n  \ntwo\xff\nthree")
	if err := Lines(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := "you said *one*\n\nyou said *two\uFFFD*\n\nyou said *three*\n\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLinesContinueAfterFailure(t *testing.T) {
	f := newFake()
	f.reply = func(c *fakeChat, ln line) {
		if ln.text == "bad" {
			c.down <- outcome(ln.id, inbox.Failed, "no")
			return
		}
		replyAll(c, ln)
	}
	o, out, errs := options(f, "bad\ngood\n")
	if err := Lines(t.Context(), o); !errors.Is(err, ErrUnanswered) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "good") || errs.String() != "no\n" {
		t.Errorf("got %q and %q", out, errs)
	}
}

func TestLinesEndWithTheirContext(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.reply = func(*fakeChat, line) { cancel() }
	o, _, _ := options(f, "never answered\n")
	if err := Lines(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLinkRetriesWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		l, err := openLink(ctx, f.attach)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := (<-l.out).(connected); !ok {
			t.Error("the link does not say that it stands")
		}
		f.mu.Lock()
		f.refuse = errors.New("down")
		c := f.chats[0]
		f.mu.Unlock()
		c.hangUp()
		began, tries := time.Now(), 0
		for time.Since(began) < time.Minute {
			if _, ok := (<-l.out).(disconnected); !ok {
				t.Error("the link does not say that it is broken")
			}
			tries++
		}
		if tries < 10 || tries > 25 {
			t.Errorf("%d tries in a minute", tries)
		}
		f.mu.Lock()
		f.refuse = nil
		f.mu.Unlock()
		for {
			if _, ok := (<-l.out).(connected); ok {
				break
			}
		}
		said := make(chan error, 1)
		go func() { said <- l.send(ctx, line{"l1", "x"}) }()
		if err := <-said; err != nil {
			t.Error(err)
		}
		cancel()
		l.wait()
	})
}

func TestLinkAcknowledgesInOrder(t *testing.T) {
	f := newFake()
	f.reply = func(c *fakeChat, ln line) {
		for i := range 30 {
			d := event(console.Message, fmt.Sprint("o", i), "x")
			d.Event.Seq = uint64(i + 1)
			c.down <- d
		}
		c.down <- outcome(ln.id, inbox.Replied, "done")
	}
	o, _, _ := options(f, "")
	if err := Once(t.Context(), o, "hi"); err != nil {
		t.Fatal(err)
	}
	for i, s := range f.seen {
		if s != uint64(i+1) {
			t.Fatalf("seen %v", f.seen)
		}
	}
	if len(f.seen) != 30 {
		t.Errorf("%d of 30 seen", len(f.seen))
	}
}
