package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		b     backoff.Backoff
		first time.Duration
	}{{backoff.Backoff{}, backoff.First}, {backoff.Backoff{First: 250 * time.Millisecond}, 250 * time.Millisecond}} {
		b, want, sum := c.b, c.first, time.Duration(0)
		for range 20 {
			d := b.Next()
			if d < want*4/5 || d > min(want*6/5+1, backoff.Max) {
				t.Errorf("%v, want about %v", d, want)
			}
			want, sum = min(2*want, backoff.Max), sum+d
		}
		b.Reset()
		if d := b.Next(); d > c.first*6/5+1 || sum < 10*time.Minute {
			t.Errorf("after a success %v", d)
		}
	}
}

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := backoff.Sleep(t.Context(), time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := backoff.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Hour {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
