package active

import (
	"context"
	"slices"
	"sync"

	"hermesd/gateway/inbox"
)

// A SupersededError is the cancellation cause of a run that a newer message
// interrupts.
type SupersededError struct{ Entry inbox.ID }

func (n SupersededError) Error() string { return "interrupted by " + n.Entry.String() }

// A StoppedError is the cancellation cause of a run that a user stops.
type StoppedError struct{ Person string }

func (s StoppedError) Error() string { return "stopped by " + s.Person }

// Runs holds the run of each lane, so that it can be interrupted. An interruption
// names the entry that caused it: it must not end the run of a later entry, which the
// lane may have started in between, nor the run that has taken that entry itself. The
// methods may be called from any goroutine.
type Runs struct {
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

// NewRuns returns an empty Runs.
func NewRuns() *Runs {
	return &Runs{byLane: make(map[inbox.Lane]*laneRun), late: make(map[inbox.Lane]lateStop)}
}

// An interruption is the reason to cancel the run of entries older than by.
type interruption struct {
	by    inbox.ID
	cause error
	stop  bool // has precedence
}

// Begin registers a run of lane l, which ends with end. Its entries are not known yet;
// it may claim at most max, 0 means no limit.
func (s *Runs) Begin(ctx context.Context, l inbox.Lane) (run context.Context, max int, end func()) {
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

// Add adds entries to those of the run of lane l.
func (s *Runs) Add(l inbox.Lane, entries ...inbox.Entry) {
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

// Supersede cancels the run of lane l because of a newer entry, unless the run has that
// entry or was started by a later one.
func (s *Runs) Supersede(l inbox.Lane, newer inbox.ID) {
	s.interrupt(l, interruption{by: newer, cause: SupersededError{Entry: newer}})
}

// Stop cancels the run of lane l because of the command with the ID by, unless it is the
// run of later entries, and reports whether a run may have been canceled. StopNext does
// so with the next run of the lane, which has that many entries.
func (s *Runs) Stop(l inbox.Lane, by inbox.ID, person string) bool {
	return s.interrupt(l, stopOf(by, person))
}

// StopNext is described at Stop.
func (s *Runs) StopNext(l inbox.Lane, by inbox.ID, person string, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late[l] = lateStop{interruption: stopOf(by, person), entries: entries}
}

func stopOf(by inbox.ID, person string) interruption {
	return interruption{by: by, cause: StoppedError{Person: person}, stop: true}
}

// interrupt cancels the run of lane l with i.cause if it has an entry older than i.by,
// and reports whether a run may have been canceled.
func (s *Runs) interrupt(l inbox.Lane, i interruption) bool {
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

// StopCause returns the cause with which the run of lane l was stopped, nil if it was
// not. If not and release is set, the run gives its entries back, and a stop that comes
// later applies to the next run.
func (s *Runs) StopCause(l inbox.Lane, release bool) error {
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
