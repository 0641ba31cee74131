package telegram

import (
	"context"
	"math/rand/v2"
	"time"
)

// What the platform carries, in its own units (UTF-16 units for text).
const (
	textLimit    = 4096
	captionLimit = 1024
	buttonData   = 64
	downLimit    = 20 << 20 // getFile on the public server
	upLimit      = 50 << 20
	photoLimit   = 10 << 20
	menuLimit    = 100
)

// How long things may take.
const (
	editInterval = time.Second
	callTimeout  = 30 * time.Second
	fileTimeout  = 5 * time.Minute
	askTimeout   = 10 * time.Second // getMe, getWebhookInfo
	pollMargin   = 5 * time.Second  // beyond the poll timeout, before a poll counts as black-holed
	holdPause    = time.Second      // between polls while groups wait for the bot's name
	webhookCheck = time.Minute
)

const (
	backoffFirst = time.Second
	backoffMost  = time.Minute
)

// A backoff counts failures in a row: 1 s doubling to 60 s, with a fifth of
// jitter either way so that many daemons do not come back together.
type backoff struct{ d time.Duration }

func (b *backoff) next() time.Duration {
	b.d = min(max(2*b.d, backoffFirst), backoffMost)
	return min(b.d*4/5+rand.N(b.d*2/5+1), backoffMost)
}

func (b *backoff) reset() { b.d = 0 }

// wait returns after d, or at once with the context's error when it ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
