// Package backoff implements exponential pauses with jitter between attempts.
package backoff

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// First is the default pause of a Backoff after the first failure; Max is the
// longest pause of any Backoff.
const (
	First = time.Second
	Max   = time.Minute
)

// A Backoff counts consecutive failures: each pause is twice the previous one,
// with 20 % jitter in both directions so that many daemons do not reconnect at
// the same time. The zero value has counted no failure.
type Backoff struct {
	// First is the first pause; 0 means the constant First.
	First time.Duration

	d time.Duration
}

// Next counts one more failure and returns the pause after it.
func (b *Backoff) Next() time.Duration {
	b.d = min(max(2*b.d, cmp.Or(b.First, First)), Max)
	return min(b.d*4/5+rand.N(b.d*2/5+1), Max)
}

// Reset sets the number of failures to zero.
func (b *Backoff) Reset() { b.d = 0 }

// Sleep waits for d. It returns early with the context's error when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller canceled
	case <-t.C:
		return nil
	}
}
