package turn

import (
	"context"
	"fmt"
	"sync"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A sessionLock lets one turn at a time have a session. Lanes do that already, but for
// a chat that moves: a turn that runs stays in the old lane, while the new one
// leads to the same session.
type sessionLock struct {
	mu   sync.Mutex // guards what follows
	busy map[session.ID]chan struct{}
}

// acquire gives the session to the caller until leave, or returns what is closed
// when it is free.
func (s *sessionLock) acquire(id session.ID) (busy <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch, ok := s.busy[id]; ok {
		return ch
	}
	s.busy[id] = make(chan struct{})
	return nil
}

func (s *sessionLock) release(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy[id])
	delete(s.busy, id)
}

// lockSession is load, once no other turn has the session. The caller must leave it.
func (r *Runner) lockSession(ctx context.Context, e inbox.Entry, resumed bool) (*sessionState, error) {
	for {
		s, err := r.load(ctx, e, resumed)
		if err != nil {
			return nil, err
		}
		if busy := r.locks.acquire(s.record.ID); busy != nil {
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if s.created != nil {
			return s, nil
		}
		now, _, err := r.opts.Store.Session(ctx, e.Session)
		if err == nil && now.ID == s.record.ID && unchanged(now, s.record) {
			s.record = now
			return s, nil
		}
		r.locks.release(s.record.ID) // another turn was quicker
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", e.Session, err)
		}
	}
}

// unchanged reports whether no commit came between two readings of a session:
// the length alone does not tell, because a compaction may leave it as it was.
func unchanged(a, b session.Record) bool {
	return a.Messages == b.Messages && a.Start == b.Start && a.Revision == b.Revision && a.Calls == b.Calls && a.Turns == b.Turns
}
