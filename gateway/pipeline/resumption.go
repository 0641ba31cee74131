package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/active"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A resumption resumes the turns that were running when earlier processes died, so that
// a turn that crashes the process is found: first all turns that were running at one
// crash, then one by one those that were running at more (suspects). Lanes without such
// a turn are not affected.
type resumption struct {
	store store.Store
	lanes *lane.Set[inbox.Lane]
	pause *control.Pause
	log   *zap.Logger

	mu      sync.Mutex // guards what follows
	waiting []inbox.Entry
	running map[inbox.Lane]inbox.ID // first entries of resumed turns that have not ended
	timer   *time.Timer             // ends the wait for running; nil if there were no suspects
}

// maxSoloTime is how long the next suspect waits for turns that have been resumed.
const maxSoloTime = 2 * time.Minute

// load reads the interrupted turns from the store. It must be called before lanes run.
func (r *resumption) load(ctx context.Context) error {
	entries, err := r.store.Interrupted(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = make(map[inbox.Lane]inbox.ID)
	for _, e := range entries {
		switch {
		case r.pause.Excludes(e.Lane):
		case e.IsSuspect() && !e.IsGuilty():
			r.waiting = append(r.waiting, e)
		default:
			r.running[e.Lane] = e.ID
		}
	}
	if len(r.waiting) == 0 {
		r.running = nil
		return nil
	}
	r.log.Warn("turns that ran at several crashes are resumed one by one", zap.Int("turns", len(r.waiting)))
	// Messages wait for immediate commands before them. What has crashed most comes last.
	slices.SortStableFunc(r.waiting, func(a, b inbox.Entry) int {
		switch {
		case a.Lane.Immediate() == b.Lane.Immediate():
			return cmp.Compare(a.Crashes, b.Crashes)
		case a.Lane.Immediate():
			return -1
		}
		return 1
	})
	r.timer = time.AfterFunc(maxSoloTime, r.timeout)
	r.advanceLocked()
	return nil
}

// isHeld reports whether the next turn of a lane is a suspect that is not resumed yet.
func (r *resumption) isHeld(l inbox.Lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.waiting, func(e inbox.Entry) bool { return e.Lane == l })
}

// migrate calls move, which may move entries to other lanes, and follows them: what is
// held stays held.
func (r *resumption) migrate(ctx context.Context, move func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := move(); err != nil || len(r.waiting) == 0 {
		return err
	}
	entries, err := r.store.Interrupted(ctx)
	if err != nil {
		return fmt.Errorf("list interrupted turns: %w", err)
	}
	for _, e := range entries {
		if i := slices.IndexFunc(r.waiting, func(w inbox.Entry) bool { return w.ID == e.ID }); i >= 0 {
			r.waiting[i].Lane = e.Lane
		}
		for l, id := range r.running {
			if id == e.ID {
				delete(r.running, l)
				r.running[e.Lane] = id
			}
		}
	}
	return nil
}

// laneRan resumes the next suspect if the run of lane l has ended the last turn for
// which it waits.
func (r *resumption) laneRan(l inbox.Lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.running[l]
	if !ok {
		return
	}
	entries, err := r.store.Interrupted(context.Background())
	if err != nil { // the timer goes on
		r.log.Error("cannot list interrupted turns", zap.Error(err))
		return
	}
	if slices.ContainsFunc(entries, func(e inbox.Entry) bool { return e.Lane == l && e.ID == id }) {
		return // it did not start yet
	}
	delete(r.running, l)
	r.advanceLocked()
}

// advanceLocked resumes the next suspect if no resumed turn runs.
func (r *resumption) advanceLocked() {
	if len(r.running) > 0 || len(r.waiting) == 0 {
		return
	}
	r.resumeNextLocked()
	r.timer.Reset(maxSoloTime)
}

func (r *resumption) resumeNextLocked() {
	next := r.waiting[0]
	r.waiting = r.waiting[1:]
	r.running[next.Lane] = next.ID
	r.lanes.Wake(next.Lane)
}

// timeout resumes the next suspect although an earlier one runs, unless no turn may
// start.
func (r *resumption) timeout() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return
	}
	if !r.pause.Paused() {
		r.resumeNextLocked()
	}
	r.timer.Reset(maxSoloTime)
}

// stop resumes nothing from now on.
func (r *resumption) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
	if r.timer != nil {
		r.timer.Stop()
	}
}

// A readiness decides whether the next turn of a lane may start. It implements turn.Lanes.
type readiness struct {
	store      store.Store
	lanes      *lane.Set[inbox.Lane]
	active     *active.Turns
	pause      *control.Pause
	resumption *resumption
}

// Wake implements turn.Lanes.
func (r readiness) Wake(l inbox.Lane) { r.lanes.Wake(l) }

// MayRun is false for a turn that is not resumed yet after crashes, a message after a
// command that waits or runs, and a message during a pause.
func (r readiness) MayRun(l inbox.Lane) bool {
	return !r.resumption.isHeld(l) && !r.waitsForCommands(l) && (l.Immediate() || !r.pause.Blocks(l))
}

// waitsForCommands reports whether immediate commands wait or run for the session of
// lane l; l is then woken after them. Its next turn starts after them: a message after
// /new belongs to the new session.
func (r readiness) waitsForCommands(l inbox.Lane) bool {
	immediate := inbox.ImmediateLaneOf(session.Key(l))
	if immediate == l || l.Immediate() || !r.hasWork(immediate) {
		return false
	}
	r.lanes.WakeAfter(l, immediate)
	return r.hasWork(immediate) // else it may have ended before WakeAfter
}

// hasWork reports whether entries of an immediate lane wait or run.
func (r readiness) hasWork(immediate inbox.Lane) bool {
	_, offered := r.active.OfferedClaim(immediate)
	return offered || r.store.Waiting(immediate) > 0 || r.lanes.Active(immediate)
}
