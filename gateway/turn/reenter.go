package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"hermesd/gateway/session"
)

// enter returns the conversation of the turn, once no other turn has it. A turn
// that goes on after a crash goes on in the session in which it began, whatever
// the conversation has been pointed to meanwhile.
func (t *turn) enter(ctx context.Context) (*sessionState, error) {
	if len(t.claim.Steps) == 0 {
		return t.runner.lockSession(ctx, t.first(), false)
	}
	var first step
	if err := json.Unmarshal(t.claim.Steps[0], &first); err != nil {
		return nil, fmt.Errorf("step 0: %w", err)
	}
	if first.Session != "" {
		if s, err := t.runner.reenter(ctx, first.Session); s != nil || err != nil {
			return s, err
		}
	}
	return t.runner.lockSession(ctx, t.first(), true)
}

// reenter returns the conversation of a stored session, once no other turn has
// it; nil if it is not stored. The caller must leave it.
func (r *Runner) reenter(ctx context.Context, id session.ID) (*sessionState, error) {
	for busy := r.locks.acquire(id); busy != nil; busy = r.locks.acquire(id) {
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	rec, ok, err := r.opts.Store.SessionByID(ctx, id)
	if err == nil && ok {
		var s *sessionState
		if s, err = r.stored(ctx, rec); err == nil {
			return s, nil
		}
	}
	r.locks.release(id)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return nil, nil
}

// unkept is what the context engine keeps, if it is not what the store or a
// step of the turn has.
func (t *turn) unkept() json.RawMessage {
	e := t.session.engine
	if e == nil || t.runner.compactions.of(t.session.record.ID) != nil { // a pass that is under way has the engine
		return nil
	}
	state := e.State()
	if state == nil || string(state) == string(t.session.savedEngineState) || string(state) == string(t.noted) {
		return nil
	}
	return state
}
