package llm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Entry records one request and its outcome.
type Entry struct {
	Request
	At      time.Time
	Fault   Kind // "": none
	Done    bool // the answer has ended
	Ended   time.Time
	Status  int // HTTP status of the answer; 0: none was sent
	Written int // bytes of the answer
	Usage   Usage
}

type recorder struct {
	noBodies bool

	mu      sync.Mutex // guards the fields below
	entries []Entry
	arrived chan struct{} // closed and replaced at each change
}

func (l *recorder) add(r Request, f *Fault) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := Entry{Request: r, At: time.Now()}
	if f != nil {
		e.Fault = f.Kind
	}
	e.N = len(l.entries) + 1
	if l.noBodies {
		e.Body, e.Messages, e.Tools, e.Header, e.System = nil, nil, nil, nil, ""
	}
	e.toolKeep, e.system, e.units, e.steps, e.bounds = nil, nil, nil, nil, nil
	l.entries = append(l.entries, e)
	l.changed()
	return e.N
}

func (l *recorder) finish(n, status, written int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.entries[n-1]
	e.Done, e.Ended, e.Status, e.Written = true, time.Now(), status, written
	l.changed()
}

func (l *recorder) used(n int, u Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[n-1].Usage = u
}

func (l *recorder) changed() {
	close(l.arrived)
	l.arrived = make(chan struct{})
}

func (l *recorder) all() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *recorder) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func (l *recorder) await(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		have, next := len(l.entries), l.arrived
		l.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("await request %d, have %d: %w", n, have, context.Cause(ctx))
		}
	}
}
