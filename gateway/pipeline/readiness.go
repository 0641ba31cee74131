package pipeline

import (
	"hermesd/gateway"
	"hermesd/gateway/active"
	"hermesd/gateway/control"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/session"
)

// A readiness decides whether the next turn of a lane may start. It implements turn.Lanes.
type readiness struct {
	store      gateway.Store
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
