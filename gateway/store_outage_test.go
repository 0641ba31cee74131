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
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

var errFull = errors.New("no space left on device")

// A fullStore fails all writes of the pipeline while it is full.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) err() error {
	if s.full.Load() {
		return errFull
	}
	return nil
}

func (s *fullStore) Accept(ctx context.Context, e []store.Admission) ([]store.Acceptance, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Accept(ctx, e)
}

func (s *fullStore) Claim(ctx context.Context, l inbox.Lane, most int) (store.Claim, error) {
	if err := s.err(); err != nil {
		return store.Claim{}, err
	}
	return s.Store.Claim(ctx, l, most)
}

func (s *fullStore) Release(ctx context.Context, c store.Claim) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Release(ctx, c)
}

func (s *fullStore) RecordStep(ctx context.Context, c store.Claim, st store.Step) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.RecordStep(ctx, c, st)
}

func (s *fullStore) CommitTurn(ctx context.Context, c store.Claim, m store.Turn) ([]outbox.Row, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.CommitTurn(ctx, c, m)
}

func (s *fullStore) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) ([]outbox.Row, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.FinishTurn(ctx, c, m)
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

func (s *fullStore) EditValue(ctx context.Context, key string, change func([]byte) ([]byte, error)) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.EditValue(ctx, key, change)
}

// newFullDiskHarness returns a harness with a store that can be full.
func newFullDiskHarness(t *testing.T, answers ...llmtest.Answer) (*harness, *fullStore) {
	w, s := newHarness(t, answers...), &fullStore{}
	w.configure = func(o *gatewaytest.Options) { s.Store, o.Store, o.Log = o.Store, s, nil }
	return w, s
}

// acceptUntilStored offers an event until it is accepted, as platforms do.
func (w *harness) acceptUntilStored(in chat.Inbound) {
	go func() {
		for w.gw.Accept(w.t.Context(), []chat.Inbound{in}) != nil {
			time.Sleep(30 * time.Second)
		}
	}()
}

func TestStoreOutageNotifiesEachChatOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFullDiskHarness(t)
		w.model.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("echo: " + r.Newest()) }
		w.start()
		defer w.stop()
		s.full.Store(true)
		w.acceptUntilStored(w.newMessage("7", "one"))
		w.advance(time.Second)
		w.acceptUntilStored(w.newMessage("7", "two"))
		w.acceptUntilStored(w.newMessage("8", "three"))
		w.acceptUntilStored(w.newMessage("666", "a stranger"))
		w.advance(3 * time.Hour)
		for id, want := range map[string]int{"7": 1, "8": 1, "666": 0} {
			if got := w.adapter.visible(id); len(got) != want || want > 0 && !strings.Contains(got[0], "I cannot store") {
				t.Errorf("%s reads %q", id, got)
			}
		}
		s.full.Store(false)
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) < 2 || !strings.Contains(strings.Join(got, " "), "one") || !strings.Contains(strings.Join(got, " "), "two") {
			t.Errorf("7 reads %q", got)
		}
		if got := w.adapter.visible("8"); len(got) != 2 || got[1] != "echo: three" {
			t.Errorf("8 reads %q", got)
		}
		s.full.Store(true)
		w.acceptUntilStored(w.newMessage("8", "four"))
		w.advance(time.Minute)
		if got := w.adapter.visible("8"); len(got) != 3 || !strings.Contains(got[2], "I cannot store") {
			t.Errorf("the next outage is not reported: %q", got)
		}
		s.full.Store(false)
		w.advance(time.Minute)
	})
}

func TestStoreOutageNotReportedOnCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newFullDiskHarness(t)
		w.start()
		defer w.stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.gw.Accept(ctx, []chat.Inbound{w.newMessage("7", "hello")}); err == nil {
			t.Error("the event was accepted")
		}
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 0 {
			t.Errorf("it says %q", got)
		}
	})
}

// A diskFillingTool makes the store full.
type diskFillingTool struct {
	s    *fullStore
	runs int
}

func (*diskFillingTool) Spec() tool.Spec {
	return tool.Spec{Tool: llm.Tool{Name: "fill", Schema: json.RawMessage(`{"type":"object"}`)}, Effect: tool.AtMostOnce}
}

func (f *diskFillingTool) Run(context.Context, tool.Call) (string, error) {
	f.runs++
	f.s.full.Store(true)
	return "full", nil
}

// The disk becomes full during the turn and stays full for longer than the turn timeout.
func TestStoreOutageTurnSurvivesFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFullDiskHarness(t, llmtest.Use("fill", `{}`), llmtest.Say("It is done."))
		tl := &diskFillingTool{s: s}
		w.tools = append(w.tools, tl)
		w.start()
		defer w.stop()
		w.sendText("7", "count")
		w.advance(2 * time.Hour)
		if got := w.adapter.visible("7"); len(got) != 0 {
			t.Errorf("on a full disk it says %q", got)
		}
		s.full.Store(false)
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 1 || got[0] != "It is done." || tl.runs != 1 {
			t.Errorf("after %d runs it says %q", tl.runs, got)
		}
		if lanes, rows := w.unfinished(); len(lanes)+len(rows) > 0 {
			t.Errorf("left: %v, %v", lanes, rows)
		}
	})
}

// The claim of an interrupted turn is released, however long that takes: otherwise both
// messages would wait for the next one.
func TestStoreOutageReleasesInterruptedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newFullDiskHarness(t, llmtest.Answer{Text: "never", Wait: make(chan struct{})}, llmtest.Say("Both."))
		w.start()
		defer w.stop()
		w.sendText("7", "first")
		w.advance(time.Second)
		w.sendText("7", "second") // stored; later writes fail
		s.full.Store(true)
		w.advance(time.Minute)
		s.full.Store(false)
		w.advance(20 * time.Second)
		if got := w.adapter.visible("7"); fmt.Sprint(got) != "[Both.]" {
			t.Errorf("it says %q", got)
		}
	})
}
