// Package lane runs a function for keys that have work, at most once at a time per
// key.
//
// A Set has one lane per key. A lane holds no work itself: the work is in a store, and
// Wake only reports that there is some. Therefore nothing is lost when the process
// dies, and ten calls of Wake for a busy lane cause one more run. A lane exists only
// while it has work, and a goroutine only while a lane runs.
//
// If more lanes have work than may run concurrently they take turns: a lane that was
// woken while it ran goes to the end of the queue.
package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed is the cancellation cause of functions that run during Close.
var ErrClosed = errors.New("lane: closed")

// A Func does the pending work of key. It is called again if Wake was called since its
// last start.
type Func[K comparable] func(ctx context.Context, key K)

// A Set is a set of lanes, one per key. Its methods may be called from any goroutine,
// including from the running Func.
type Set[K comparable] struct {
	max int

	mu      sync.Mutex // guards what follows
	run     Func[K]    // nil before Start, then constant
	lanes   map[K]*state[K]
	ready   []*state[K] // lanes that wait for their run, in order
	after   map[K][]K   // keys to be woken when a lane has no more work
	running int         // goroutines
	closed  bool
	wg      sync.WaitGroup // one per goroutine
}

type state[K comparable] struct {
	key    K
	dirty  bool                    // woken since run last started
	cancel context.CancelCauseFunc // nil unless the function runs
}

// New returns a Set of at most max lanes that run concurrently. No lane runs before Start.
func New[K comparable](max int) *Set[K] {
	return &Set[K]{max: max, lanes: make(map[K]*state[K]), after: make(map[K][]K)}
}

// Start sets the function of the lanes, which may use what was built with the Set, and
// runs the lanes that have been woken. It must be called once.
func (s *Set[K]) Start(run Func[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = run
	for range min(len(s.ready), s.max) {
		s.startWorker()
	}
}

// Wake reports that there is work for key. It never blocks, and does nothing after
// RefuseWakes, Stop or Close.
func (s *Set[K]) Wake(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(key)
}

// WakeAfter wakes key the next time that the lane of other has no more work.
func (s *Set[K]) WakeAfter(key, other K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.after[other], key) {
		s.after[other] = append(s.after[other], key)
	}
}

// wake is Wake with s.mu held.
func (s *Set[K]) wake(key K) {
	if s.closed {
		return
	}
	if l, ok := s.lanes[key]; ok {
		l.dirty = l.cancel != nil
		return
	}
	l := &state[K]{key: key}
	s.lanes[key] = l
	s.ready = append(s.ready, l)
	if s.run != nil && s.running < s.max {
		s.startWorker()
	}
}

// startWorker starts a goroutine that runs lanes, with s.mu held.
func (s *Set[K]) startWorker() {
	s.running++
	s.wg.Go(s.work)
}

// Running returns the number of running functions, and of lanes that wait for their
// run.
func (s *Set[K]) Running() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) - len(s.ready), len(s.ready)
}

// RefuseWakes makes Wake do nothing from now on. Lanes that wait for their run still
// get it.
func (s *Set[K]) RefuseWakes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Stop is like RefuseWakes, but also removes the lanes that wait for their run.
// Running functions continue.
func (s *Set[K]) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.ready {
		delete(s.lanes, l.key)
	}
	s.ready = nil
	for _, l := range s.lanes {
		l.dirty = false
	}
}

// Wait waits for the end of all runs. If ctx ends first it returns the cause.
func (s *Set[K]) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }() // ends with the last run
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close stops the set, cancels all running functions with ErrClosed and waits for
// them. If ctx ends first it returns the cause.
func (s *Set[K]) Close(ctx context.Context) error {
	s.Stop()
	s.mu.Lock()
	for _, l := range s.lanes {
		if l.cancel != nil {
			l.cancel(ErrClosed)
		}
	}
	s.mu.Unlock()
	return s.Wait(ctx)
}

// work runs ready lanes one after another until there are none.
func (s *Set[K]) work() {
	for {
		l, ctx, cancel := s.next()
		if l == nil {
			return
		}
		s.run(ctx, l.key)
		cancel(nil)
		s.finish(l)
	}
}

func (s *Set[K]) next() (*state[K], context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		s.running--
		return nil, nil, nil
	}
	l := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	l.dirty = false
	ctx, cancel := context.WithCancelCause(context.Background())
	l.cancel = cancel
	return l, ctx, cancel
}

// finish removes l and wakes what waits for that, or appends l to the queue if it was
// woken during its run.
func (s *Set[K]) finish(l *state[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.cancel = nil
	if l.dirty {
		s.ready = append(s.ready, l)
		return
	}
	delete(s.lanes, l.key)
	after := s.after[l.key]
	delete(s.after, l.key)
	for _, key := range after {
		s.wake(key)
	}
}

// HasCapacity reports whether a lane that is woken now would run immediately.
func (s *Set[K]) HasCapacity() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil && !s.closed && s.running < s.max && len(s.ready) == 0
}

// Active reports whether the function is running for key.
func (s *Set[K]) Active(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lanes[key]
	return ok && l.cancel != nil
}
