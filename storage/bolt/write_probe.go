package bolt

import (
	"context"
	"time"
)

const (
	// recoverEvery is how long after a failed write another one is tried.
	recoverEvery = time.Second
	// recoverMost bounds how much that one writes.
	recoverMost = 1 << 20
)

// keyRecover is where it writes.
const keyRecover = "recover"

// noteFailure is note for ops that were not written. The failure stands in Stats
// until as much as that is written. If nobody else writes, the store tries by
// itself: whoever waits for it to be well again need not wait for a message.
func (s *Store) noteFailure(err error, ops ...*op) {
	s.note(err)
	for _, o := range ops {
		s.unwritten = max(s.unwritten, min(o.size, recoverMost))
	}
	if s.recovering.CompareAndSwap(false, true) {
		s.attempt = time.AfterFunc(recoverEvery, s.recover)
	}
}

// recover writes as much as could not be written, and takes it away again.
func (s *Store) recover() {
	s.recovering.Store(false) // a failure sets it again
	ctx := context.Background()
	err := s.do(ctx, "recover", recoverMost, func(b *batch) error {
		return b.put(bValues, []byte(keyRecover), make([]byte, s.unwritten))
	})
	if err != nil {
		return // Stats say why
	}
	_ = s.do(ctx, "recover", 0, func(b *batch) error {
		s.unwritten = 0
		return b.delete(bValues, []byte(keyRecover))
	})
}
