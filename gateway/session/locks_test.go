package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"hermesd/gateway/session"
)

func TestOneHolderPerSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l session.Locks
		if err := l.Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if busy := l.TryAcquire("b"); busy != nil {
			t.Error("another session is locked too")
		}
		holders, done := 0, make(chan struct{})
		for range 3 {
			go func() {
				if err := l.Acquire(t.Context(), "a"); err != nil {
					t.Error(err)
				}
				if holders++; holders != 1 { // the race detector sees a second holder too
					t.Errorf("%d holders", holders)
				}
				holders--
				l.Release("a")
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		if err := l.Acquire(ctx, "a"); !errors.Is(err, stop) {
			t.Errorf("acquired a lock that is held: %v", err)
		}
		l.Release("a")
		for range 3 {
			<-done
		}
	})
}
