package turn

import (
	"context"
	"fmt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// lockSession is like loadSession, but returns a locked session, once no other turn
// holds it. The caller must release the lock.
func (r *Runner) lockSession(ctx context.Context, e inbox.Entry, resumed bool) (*sessionState, error) {
	for {
		s, err := r.loadSession(ctx, e, resumed)
		if err != nil {
			return nil, err
		}
		if busy := r.locks.TryAcquire(s.record.ID); busy != nil {
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
		r.locks.Release(s.record.ID) // another turn has committed in between
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
