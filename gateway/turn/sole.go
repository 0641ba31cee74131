package turn

import (
	"context"
	"fmt"
	"sync"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A sole lets one turn at a time have a session. Lanes do that already, but for
// a chat that moves: a turn that runs stays in the old lane, while the new one
// leads to the same session.
type sole struct {
	mu   sync.Mutex // guards what follows
	busy map[session.ID]chan struct{}
}

// enter gives the session to the caller until leave, or returns what is closed
// when it is free.
func (s *sole) enter(id session.ID) (busy <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch, ok := s.busy[id]; ok {
		return ch
	}
	s.busy[id] = make(chan struct{})
	return nil
}

func (s *sole) leave(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy[id])
	delete(s.busy, id)
}

// use is load, once no other turn has the session. The caller must leave it.
func (r *Runner) use(ctx context.Context, e inbox.Entry, resumed bool) (*conversation, error) {
	for {
		s, err := r.load(ctx, e, resumed)
		if err != nil {
			return nil, err
		}
		if busy := r.sole.enter(s.rec.ID); busy != nil {
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if s.open != nil {
			return s, nil
		}
		now, _, err := r.o.Store.Session(ctx, e.Session)
		if err == nil && now.ID == s.rec.ID && unchanged(now, s.rec) {
			s.rec = now
			return s, nil
		}
		r.sole.leave(s.rec.ID) // another turn was quicker
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
