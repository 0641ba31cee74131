package turn

import (
	"context"
	"fmt"
	"sync"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A sessionLock allows one turn at a time per session. Lanes already guarantee this,
// except after a chat migration, when the old and the new lane lead to the same
// session.
type sessionLock struct {
	mu   sync.Mutex // guards what follows
	busy map[session.ID]chan struct{}
}

// acquire locks the session and returns nil, or returns a channel that is closed when
// the holder releases the lock.
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

// lockSession is like loadSession, but returns a locked session, once no other turn
// holds it. The caller must release the lock.
func (r *Runner) lockSession(ctx context.Context, e inbox.Entry, resumed bool) (*sessionState, error) {
	for {
		s, err := r.loadSession(ctx, e, resumed)
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
		current, _, err := r.opts.Store.Session(ctx, e.Session)
		if err == nil && current.ID == s.record.ID && isUnchanged(current, s.record) {
			s.record = current
			return s, nil
		}
		r.locks.release(s.record.ID) // another turn has committed in between
		if err != nil {
			return nil, fmt.Errorf("load session %s: %w", e.Session, err)
		}
	}
}

// isUnchanged reports whether there was no commit between two reads of a session. The
// length alone does not show that, because a compaction may not change it.
func isUnchanged(a, b session.Record) bool {
	return a.Messages == b.Messages && a.Start == b.Start && a.Revision == b.Revision && a.Calls == b.Calls && a.Turns == b.Turns
}
