package turn

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/inbox"
)

// commitUntilStored writes until the store takes it. A disk that is full is no reason to
// give up what a turn has done; it ends when ctx does, when the daemon stops, and
// where the store refuses for good. While it waits it calls waits.
func (t *turn) commitUntilStored(ctx context.Context, what string, waits func(), write func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || errors.Is(err, inbox.ErrStale) || errors.Is(err, inbox.ErrConflict) {
			return err
		}
		t.log.Error(what, zap.Error(err))
		waits()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-t.runner.closing:
			return err
		}
	}
}
