package outbox

import "time"

// The bounds between which Backoff doubles.
const (
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// Backoff returns how long to wait after the given number of failed attempts when
// the platform does not name a time: a second, doubled with each attempt up to
// five minutes. The second half of it is jitter; rnd is in [0, 1).
func Backoff(attempts int, rnd float64) time.Duration {
	d := minBackoff
	for i := 1; i < attempts && d < maxBackoff; i++ {
		d *= 2
	}
	d = min(d, maxBackoff)
	return d/2 + time.Duration(rnd*float64(d/2))
}

// Backoff returns how long r waits after its latest attempt. The jitter is derived
// from the row, so that a decision depends only on the row.
func (r Row) Backoff() time.Duration {
	x := uint64(r.ID)<<16 + uint64(r.Attempts) + 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return Backoff(r.Attempts, float64(x>>11)/(1<<53))
}
