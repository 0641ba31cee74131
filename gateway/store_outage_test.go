package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

var errFull = errors.New("no space left on device")

// A fullStore takes no writes of the road while it is full.
type fullStore struct {
	gateway.Store
	full atomic.Bool
}

func (s *fullStore) err() error {
	if s.full.Load() {
		return errFull
	}
	return nil
}

func (s *fullStore) Accept(ctx context.Context, e []inbox.Entry) ([]inbox.Acceptance, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Accept(ctx, e)
}

func (s *fullStore) Claim(ctx context.Context, l inbox.Lane, most int) (inbox.Claim, error) {
	if err := s.err(); err != nil {
		return inbox.Claim{}, err
	}
	return s.Store.Claim(ctx, l, most)
}

func (s *fullStore) Release(ctx context.Context, c inbox.Claim) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Release(ctx, c)
}

func (s *fullStore) RecordStep(ctx context.Context, c inbox.Claim, o *session.Creation, st inbox.Step) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.RecordStep(ctx, c, o, st)
}

func (s *fullStore) CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.CommitTurn(ctx, c, m)
}

func (s *fullStore) Enqueue(ctx context.Context, rows []outbox.Row) ([]outbox.Row, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Enqueue(ctx, rows)
}

func (s *fullStore) Next(ctx context.Context, to chat.Address) (outbox.Row, time.Duration, bool, error) {
	if err := s.err(); err != nil {
		return outbox.Row{}, 0, false, err
	}
	return s.Store.Next(ctx, to)
}

func (s *fullStore) Settle(ctx context.Context, t outbox.Settlement) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Settle(ctx, t)
}

func (s *fullStore) SetValue(ctx context.Context, key string, v []byte) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.SetValue(ctx, key, v)
}

// filling is a world whose store can be full.
func filling(t *testing.T, answers ...llmtest.Answer) (*harness, *fullStore) {
	w, s := newHarness(t, answers...), &fullStore{}
	w.set = func(o *gateway.Options) { s.Store, o.Store, o.Log = o.Store, s, nil }
	return w, s
}

// insist offers an event until it is taken, as platforms do.
func (w *harness) insist(in chat.Inbound) {
	go func() {
		for w.gw.Accept(w.t.Context(), []chat.Inbound{in}) != nil {
			time.Sleep(30 * time.Second)
		}
	}()
}

func TestWhoCannotBeAnsweredForAFullDiskIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := filling(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.start()
		defer w.stop()
		s.full.Store(true)
		w.insist(w.message("7", "one"))
		w.settle(time.Second)
		w.insist(w.message("7", "two"))
		w.insist(w.message("8", "three"))
		w.insist(w.message("666", "a stranger"))
		w.settle(3 * time.Hour)
		for id, want := range map[string]int{"7": 1, "8": 1, "666": 0} {
			if got := w.room.visible(id); len(got) != want || want > 0 && !strings.Contains(got[0], "I cannot store") {
				t.Errorf("%s reads %q", id, got)
			}
		}
		s.full.Store(false)
		w.settle(time.Minute)
		if got := w.room.visible("7"); len(got) < 2 || !strings.Contains(strings.Join(got, " "), "one") || !strings.Contains(strings.Join(got, " "), "two") {
			t.Errorf("7 reads %q", got)
		}
		if got := w.room.visible("8"); len(got) != 2 || got[1] != "echo: three" {
			t.Errorf("8 reads %q", got)
		}
		s.full.Store(true)
		w.insist(w.message("8", "four"))
		w.settle(time.Minute)
		if got := w.room.visible("8"); len(got) != 3 || !strings.Contains(got[2], "I cannot store") {
			t.Errorf("the next outage is not told: %q", got)
		}
		s.full.Store(false)
		w.settle(time.Minute)
	})
}

func TestWhoseMessageAnAdapterGaveUpIsToldOfNoDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := filling(t)
		w.start()
		defer w.stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.gw.Accept(ctx, []chat.Inbound{w.message("7", "hello")}); err == nil {
			t.Error("it was taken")
		}
		w.settle(time.Minute)
		if got := w.room.visible("7"); len(got) != 0 {
			t.Errorf("it says %q", got)
		}
	})
}

// A filler is a tool that leaves no space on the disk.
type filler struct {
	s    *fullStore
	runs int
}

func (*filler) Spec() tool.Spec {
	return tool.Spec{Tool: llm.Tool{Name: "fill", Schema: json.RawMessage(`{"type":"object"}`)}, Effect: tool.AtMostOnce}
}

func (f *filler) Run(context.Context, tool.Call) (string, error) {
	f.runs++
	f.s.full.Store(true)
	return "full", nil
}

// The turn is under way when the disk becomes full, and has more to do than its
// time without progress allows.
func TestATurnOutlivesAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := filling(t, llmtest.Use("fill", `{}`), llmtest.Say("It is done."))
		tl := &filler{s: s}
		w.tools = append(w.tools, tl)
		w.start()
		defer w.stop()
		w.say("7", "count")
		w.settle(2 * time.Hour)
		if got := w.room.visible("7"); len(got) != 0 {
			t.Errorf("on a full disk it says %q", got)
		}
		s.full.Store(false)
		w.settle(time.Minute)
		if got := w.room.visible("7"); len(got) != 1 || got[0] != "It is done." || tl.runs != 1 {
			t.Errorf("after %d runs it says %q", tl.runs, got)
		}
		if lanes, rows := w.open(); len(lanes)+len(rows) > 0 {
			t.Errorf("left: %v, %v", lanes, rows)
		}
	})
}

// The claim of a turn that a newer message interrupts is given back, however long
// that takes: else both would wait for the next message.
func TestAnInterruptedTurnIsGivenBackOnceTheDiskHasSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := filling(t, llmtest.Answer{Text: "never", Wait: make(chan struct{})}, llmtest.Say("Both."))
		w.start()
		defer w.stop()
		w.say("7", "first")
		w.settle(time.Second)
		w.say("7", "second") // on disk; nothing else is any more
		s.full.Store(true)
		w.settle(time.Minute)
		s.full.Store(false)
		w.settle(20 * time.Second)
		if got := w.room.visible("7"); fmt.Sprint(got) != "[Both.]" {
			t.Errorf("it says %q", got)
		}
	})
}
