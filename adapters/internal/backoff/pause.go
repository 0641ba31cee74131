// Package backoff says how long to wait between attempts, and waits.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// First is what a Backoff waits after the first failure if it is not told, and
// Most what any Backoff waits at the most.
const (
	First = time.Second
	Max   = time.Minute
)

// A Backoff counts failures in a row: each pause is twice the one before, with a
// fifth of jitter either way so that many daemons do not come back together.
// The zero Backoff has not failed yet.
type Backoff struct {
	// First is the first pause; 0: the constant.
	First time.Duration

	d time.Duration
}

// Next counts one more failure and returns how long to wait after it.
func (b *Backoff) Next() time.Duration {
	first := b.First
	if first <= 0 {
		first = First
	}
	b.d = min(max(2*b.d, first), Max)
	return min(b.d*4/5+rand.N(b.d*2/5+1), Max)
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.d = 0 }

// Sleep returns after d, or at once with the context's error when it ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the end that was asked for
	case <-t.C:
		return nil
	}
}
