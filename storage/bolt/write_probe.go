package bolt

import (
	"context"
	"time"
)

const (
	// probeDelay is the time between a failed write and the write probe.
	probeDelay = time.Second
	// maxProbeSize is the maximum number of bytes of a write probe.
	maxProbeSize = 1 << 20
)

// keyWriteProbe is the key in bucket values that the write probe uses.
const keyWriteProbe = "recover"

// recordFailure is recordError for operations that were not written. Stats
// returns the error until the same amount has been written. If there is no
// other write, the store writes a probe by itself, so that clients that wait
// for its recovery need not wait for a message.
func (s *Store) recordFailure(err error, ops ...*op) {
	s.recordError(err)
	for _, o := range ops {
		s.probeSize = max(s.probeSize, min(o.size, maxProbeSize))
	}
	if s.probeScheduled.CompareAndSwap(false, true) {
		s.probeTimer = time.AfterFunc(probeDelay, s.probeWrite)
	}
}

// probeWrite writes as much as could not be written, and deletes it again.
func (s *Store) probeWrite() {
	s.probeScheduled.Store(false) // a failure schedules the next probe
	ctx := context.Background()
	err := s.do(ctx, "probe write", maxProbeSize, func(b *batch) error {
		return b.put(bValues, []byte(keyWriteProbe), make([]byte, s.probeSize))
	})
	if err != nil {
		return // Stats returns the error
	}
	_ = s.do(ctx, "probe write", 0, func(b *batch) error {
		s.probeSize = 0
		return b.delete(bValues, []byte(keyWriteProbe))
	})
}
