package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"hermesd/gateway/session"
)

// acquireSession returns the locked session of the turn, once no other turn holds it.
// A resumed turn continues in the session in which it started, even if another one is
// the current session of the conversation now.
func (t *turn) acquireSession(ctx context.Context) (*sessionState, error) {
	if len(t.claim.Steps) == 0 {
		return t.runner.lockSession(ctx, t.first(), false)
	}
	var first step
	if err := json.Unmarshal(t.claim.Steps[0], &first); err != nil {
		return nil, fmt.Errorf("decode step 0: %w", err)
	}
	if first.Session != "" {
		if s, err := t.runner.lockStoredSession(ctx, first.Session); s != nil || err != nil {
			return s, err
		}
	}
	return t.runner.lockSession(ctx, t.first(), true)
}

// lockStoredSession returns a stored session, once no other turn holds it; nil if it is
// not stored. The caller must release the lock.
func (r *Runner) lockStoredSession(ctx context.Context, id session.ID) (*sessionState, error) {
	if err := r.locks.Acquire(ctx, id); err != nil {
		return nil, err
	}
	rec, ok, err := r.opts.Store.SessionByID(ctx, id)
	if err == nil && ok {
		var s *sessionState
		if s, err = r.loadStoredSession(ctx, rec); err == nil {
			return s, nil
		}
	}
	r.locks.Release(id)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", id, err)
	}
	return nil, nil
}

// changedEngineState returns the state of the context engine if neither the store nor
// a recorded step has it, else nil.
func (t *turn) changedEngineState() json.RawMessage {
	e := t.session.engine
	if e == nil || t.runner.passes.Get(t.session.record.ID) != nil { // a running compaction uses the engine
		return nil
	}
	state := e.State()
	if state == nil || string(state) == string(t.session.savedEngineState) || string(state) == string(t.recordedEngineState) {
		return nil
	}
	return state
}
