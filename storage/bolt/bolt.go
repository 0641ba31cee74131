package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/inbox"
)

// Options are settings of a store. The zero value means the defaults.
type Options struct {
	// Lease is how long a claim holds after its last step; 5 min. A claim of
	// this process that was neither ended nor renewed for so long can be claimed
	// again.
	Lease time.Duration
	// MaxBatch is how many bytes one transaction takes together; 4 MiB.
	MaxBatch int
	// MaxBytes is the greatest size of the file; 0: no limit. Writes that need
	// more fail.
	MaxBytes int64
	// OnDamage is told of each damaged record that had to be set aside so that
	// a queue could go on. It is called by the writer and must not call the
	// store.
	OnDamage func(error)
	// OnCommit is told of each transaction that was written: how long it took, and
	// how many bytes of pages it has. It is called as OnDamage is, and must not wait.
	OnCommit func(took time.Duration, bytes int64)
}

// A Store is one open file. Its methods may be called from any goroutine.
type Store struct {
	o     Options
	path  string
	epoch uint64

	dbmu sync.RWMutex // held to replace db, and shared to read from it
	db   *bbolt.DB    // nil: closed, or could not be opened again; changed by the writer
	raw  *os.File     // the same file, to put a meta page back
	// stale says that db is open from before a commit that failed, and may only be
	// read.
	stale bool
	// broken, if set, says that bbolt cannot be used any more in this process.
	broken error

	mirror *mirror

	qmu      sync.Mutex // guards what follows
	gathered []*op
	closing  bool

	wake    chan struct{}
	written chan struct{} // closed when the writer has ended

	turns   uint64 // made by this process; the writer's
	commits atomic.Uint64
	writes  atomic.Uint64
	last    atomic.Pointer[string]
	// What follows is the writer's, but for recovering: see noteFailure.
	recovering atomic.Bool
	attempt    *time.Timer
	unwritten  int
	closed     sync.Once
	gone       error // what Close came to
}

// Open opens the store at path, and makes it if there is none. Claims of
// earlier processes expire: their entries can be claimed again, and rows that
// were being sent become uncertain.
//
// The error is a *storage.NewerError if a newer version wrote the file, and a
// *storage.DamageError if it cannot be read.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if o.Lease == 0 {
		o.Lease = 5 * time.Minute
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 4 << 20
	}
	s := &Store{o: o, path: path, mirror: newMirror(), wake: make(chan struct{}, 1), written: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.shut())
	}
	go s.write() // Close waits for it
	return s, nil
}

// Close writes what has gathered and closes the file. Claims that are not ended
// count as crashed when the store is opened again. It may be called more than
// once.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.qmu.Lock()
		s.closing = true
		s.qmu.Unlock()
		s.signal()
		<-s.written
		s.dbmu.Lock()
		defer s.dbmu.Unlock()
		if err := s.shut(); err != nil {
			s.gone = fmt.Errorf("close %s: %w", s.path, err)
		}
	})
	return s.gone
}

// shut closes the files. Nobody may be using them.
func (s *Store) shut() error {
	var errs []error
	if s.db != nil && s.broken == nil {
		errs = append(errs, guarded(s.db.Close))
	}
	s.db = nil
	if s.raw != nil {
		errs = append(errs, s.raw.Close())
		s.raw = nil
	}
	return errors.Join(errs...)
}

// view runs f in a transaction that reads.
func (s *Store) view(ctx context.Context, name string, f func(r reader) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	s.dbmu.RLock()
	defer s.dbmu.RUnlock()
	if s.db == nil {
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err := guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error { return f(reader{tx}) })
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Stats returns the store's figures. It does not wait for writes.
func (s *Store) Stats() inbox.Stats {
	st := inbox.Stats{Epoch: s.epoch, Commits: s.commits.Load(), Writes: s.writes.Load()}
	m := s.mirror
	m.mu.RLock()
	st.Accepted, st.Waiting, st.Claimed, st.Outbox, st.Dead = m.fresh, m.total, m.claimed, m.live, m.dead
	m.mu.RUnlock()
	if info, err := os.Stat(s.path); err == nil {
		st.Bytes = info.Size()
	}
	if text := s.last.Load(); text != nil {
		st.Error = *text
	}
	return st
}
