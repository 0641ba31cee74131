package session

import (
	"context"
	"sync"
)

// Locks allow one turn at a time per session. Lanes already guarantee this, except after
// a chat migration, when the old and the new lane lead to the same session. The zero
// Locks is ready for use. Its methods may be called from any goroutine.
type Locks struct {
	mu       sync.Mutex // guards what follows
	busy     map[ID]chan struct{}
	released uint64 // number of calls of Release
}

// TryAcquire locks the session and returns nil, or returns a channel that is closed when
// the holder releases the lock.
func (l *Locks) TryAcquire(id ID) (busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ch, ok := l.busy[id]; ok {
		return ch
	}
	if l.busy == nil {
		l.busy = make(map[ID]chan struct{})
	}
	l.busy[id] = make(chan struct{})
	return nil
}

// Acquire locks the session once no other turn holds it. If ctx ends first it returns the
// cause.
func (l *Locks) Acquire(ctx context.Context, id ID) error {
	for {
		busy := l.TryAcquire(id)
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release releases the lock of the session, which the caller must hold.
func (l *Locks) Release(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy[id])
	delete(l.busy, id)
	l.released++
}

// Releases returns how often sessions were released. Only the holder of a session commits
// turns of it. If the number is the same before a record is read and after its session is
// locked, there was no such commit in between.
func (l *Locks) Releases() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}
