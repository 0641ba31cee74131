package turn

import (
	"context"
	"slices"
	"sync"

	"hermesd/gateway/inbox"
)

// laneRuns holds the run of each lane, so that it can be interrupted. An interruption
// names the entry that caused it: it must not end the run of a later entry, which the
// lane may have started in between, nor the run that has taken that entry itself.
type laneRuns struct {
	mu     sync.Mutex // guards what follows
	byLane map[inbox.Lane]*laneRun
	late   map[inbox.Lane]lateStop
}

// A lateStop is the stop of entries that have no run: one was about to release them, or
// takes their claim soon.
type lateStop struct {
	interruption
	entries int
}

type laneRun struct {
	cancel   context.CancelCauseFunc
	ids      []inbox.ID     // of the claimed entries; nil until they are known
	early    []interruption // received before the entries were known
	stop     *interruption  // the stop of this run
	released bool           // the entries wait again, or will soon
}

func newLaneRuns() laneRuns {
	return laneRuns{byLane: make(map[inbox.Lane]*laneRun), late: make(map[inbox.Lane]lateStop)}
}

// An interruption is the reason to cancel the run of entries older than by.
type interruption struct {
	by    inbox.ID
	cause error
	stop  bool // has precedence
}

// begin registers a run of lane l, which ends with end. Its entries are not known yet;
// it may claim at most max, 0 means no limit.
func (s *laneRuns) begin(ctx context.Context, l inbox.Lane) (run context.Context, max int, end func()) {
	run, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &laneRun{cancel: cancel}
	if stop, ok := s.late[l]; ok { // it applies to the entries of the former run, and to no others
		delete(s.late, l)
		r.early, max = append(r.early, stop.interruption), stop.entries
	}
	s.byLane[l] = r
	return run, max, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.released && r.stop != nil {
			s.late[l] = lateStop{interruption: *r.stop, entries: len(r.ids)}
		}
		delete(s.byLane, l)
		cancel(nil)
	}
}

// add adds entries to those of the run of lane l. It may be called from any goroutine.
func (s *laneRuns) add(l inbox.Lane, entries ...inbox.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byLane[l]
	if !ok {
		return
	}
	for _, e := range entries {
		r.ids = append(r.ids, e.ID)
	}
	for _, i := range r.early {
		r.interrupt(i)
	}
	r.early = nil
}

// interrupt cancels the run of lane l with i.cause if it has an entry older than i.by,
// and reports whether a run may have been canceled.
func (s *laneRuns) interrupt(l inbox.Lane, i interruption) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byLane[l]
	if ok && r.ids == nil {
		r.early = append(r.early, i)
		return true
	}
	return ok && r.interrupt(i)
}

func (r *laneRun) interrupt(i interruption) bool {
	if slices.Min(r.ids) > i.by || slices.Contains(r.ids, i.by) {
		return false
	}
	if i.stop {
		r.stop = &i
	}
	r.cancel(i.cause)
	return true
}

// stopCause returns the cause with which the run of lane l was stopped, nil if it was
// not. If not and release is set, the run gives its entries back, and a stop that comes
// later applies to the next run.
func (s *laneRuns) stopCause(l inbox.Lane, release bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byLane[l]
	if ok && r.stop != nil {
		return r.stop.cause
	}
	if ok {
		r.released = release
	}
	return nil
}

// stopNext stops the next run of lane l, which has that many entries.
func (s *laneRuns) stopNext(l inbox.Lane, i interruption, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late[l] = lateStop{interruption: i, entries: entries}
}

// addEntries adds entries that have joined the turn to its claim.
func (t *turn) addEntries(more []inbox.Entry) {
	t.claim.Entries = append(t.claim.Entries, more...)
	t.runner.runs.add(t.claim.Lane, more...)
}

// stop cancels the run of lane l because of a command, unless it is the run of later
// entries, and reports whether there may have been one. An offered claim counts as a
// run.
func (r *Runner) stop(l inbox.Lane, command inbox.ID, name string) bool {
	i := interruption{by: command, cause: StoppedError{Person: "/" + name}, stop: true}
	c, offered := r.parts.Agent.Active.OfferedClaim(l)
	if offered = offered && c.Entries[0].ID < command; offered {
		r.runs.stopNext(l, i, len(c.Entries))
	}
	return r.runs.interrupt(l, i) || offered // it may have been taken in between
}

// Supersede cancels the run of lane l because of a newer entry, unless the run has
// that entry or was started by a later one. It may be called from any goroutine.
func (r *Runner) Supersede(l inbox.Lane, newer inbox.ID) {
	r.runs.interrupt(l, interruption{by: newer, cause: SupersededError{Entry: newer}})
}
