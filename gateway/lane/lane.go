// Package lane runs at most one function per key at a time.
//
// A lane carries no work of its own: the work lies in a store, and Wake only
// says that there is some. Nothing is lost, therefore, when the process dies,
// and ten wakes of a busy lane cost one more run. A lane exists only while it
// has work, and a goroutine only while a lane runs.
//
// Where more lanes have work than may run at once they take turns: a lane that
// was woken while it ran goes to the end of the line.
package lane

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the cause with which Close cancels running functions.
var ErrClosed = errors.New("lane: closed")

// A Func does the work that waits for key. It is called again for as long as
// someone has called Wake since it last began.
type Func[K comparable] func(ctx context.Context, key K)

// A Set is a set of lanes, one per key. Its methods may be called from any
// goroutine, also from the function that runs.
type Set[K comparable] struct {
	run Func[K]
	max int

	mu      sync.Mutex // guards what follows
	lanes   map[K]*state[K]
	ready   []*state[K] // lanes that wait for their run, in order
	running int         // goroutines
	closed  bool
	wg      sync.WaitGroup // one per goroutine
}

type state[K comparable] struct {
	key    K
	dirty  bool                    // woken since run last began
	cancel context.CancelCauseFunc // nil unless the function runs
}

// New returns a Set that calls run, for at most max keys at once.
func New[K comparable](max int, run Func[K]) *Set[K] {
	return &Set[K]{run: run, max: max, lanes: make(map[K]*state[K])}
}

// Wake says that there is work for key. It never blocks.
func (s *Set[K]) Wake(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if s.running < s.max {
		s.running++
		s.wg.Go(s.work)
	}
}

// Interrupt cancels the function running for key with cause, and reports
// whether one was running. A lane that only waits for its run is left alone.
func (s *Set[K]) Interrupt(key K, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lanes[key]
	if !ok || l.cancel == nil {
		return false
	}
	l.cancel(cause)
	return true
}

// Running returns the number of functions that run and of lanes that wait for
// their run.
func (s *Set[K]) Running() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) - len(s.ready), len(s.ready)
}

// RefuseWakes refuses further wakes. Lanes that wait for their run still get it.
func (s *Set[K]) RefuseWakes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Stop is Seal, and forgets the lanes that wait for their run. Functions that
// run are left running.
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

// Wait waits for the functions that run, or for ctx.
func (s *Set[K]) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }() // ends with the last function; nobody else waits for it
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close stops the set, cancels every running function with ErrClosed and waits
// for them, or for ctx.
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

// work runs ready lanes one after the other until none is left.
func (s *Set[K]) work() {
	for {
		l, ctx, cancel := s.next()
		if l == nil {
			return
		}
		s.run(ctx, l.key)
		cancel(nil)
		s.rest(l)
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

// rest retires l, or puts it at the end of the line if it was woken meanwhile.
func (s *Set[K]) rest(l *state[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.cancel = nil
	if l.dirty {
		s.ready = append(s.ready, l)
		return
	}
	delete(s.lanes, l.key)
}

// HasCapacity reports whether a lane that is woken now runs at once.
func (s *Set[K]) HasCapacity() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.running < s.max && len(s.ready) == 0
}

// Active reports whether the function runs for key.
func (s *Set[K]) Active(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lanes[key]
	return ok && l.cancel != nil
}
