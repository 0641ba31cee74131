package turn

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/inbox"
)

// writeUntilStored calls write until it succeeds, because for example a full disk
// must not cost the result of a turn. It ends with an error when ctx or the daemon
// ends, and for inbox.ErrStale and inbox.ErrConflict. It logs each failure with
// message, and calls touch before each wait.
func (t *turn) writeUntilStored(ctx context.Context, message string, touch func(), write func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || errors.Is(err, inbox.ErrStale) || errors.Is(err, inbox.ErrConflict) {
			return err
		}
		t.log.Error(message, zap.Error(err))
		touch()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-t.runner.closing:
			return err
		}
	}
}
