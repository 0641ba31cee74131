package bolt

import (
	"context"
	"errors"
	"strings"
	"syscall"
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
	if s.opts.OnNoSpace != nil && isNoSpace(err) {
		s.opts.OnNoSpace()
	}
	for _, o := range ops {
		s.probeSize = max(s.probeSize, min(o.size, maxProbeSize))
	}
	if s.probeScheduled.CompareAndSwap(false, true) {
		s.probeTimer = time.AfterFunc(probeDelay, s.probeWrite)
	}
}

// isNoSpace reports whether err says that the disk or a quota is full. bbolt formats
// some errors of the system into its own.
func isNoSpace(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return strings.Contains(err.Error(), "not enough space on the disk") // Windows
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
