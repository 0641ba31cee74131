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

	"hermesd/gateway/store"
)

// Options are the settings of a store. The zero value selects the defaults.
type Options struct {
	// Lease is how long a claim is valid after its last step; 0: 5 minutes. A
	// claim of this process that was neither ended nor renewed within this time
	// can be claimed again.
	Lease time.Duration
	// MaxBytes is the maximum size of the file; 0: no limit. Writes that need
	// more fail.
	MaxBytes int64
	// ReadOnly, if not nil, is why the file cannot be written. The file must exist and is
	// not changed: claims and attempts of earlier processes stay. All writes fail with
	// this error.
	ReadOnly error
	// OnDamage, if not nil, is called with the error of each damaged record
	// that was moved out of the way so that its queue can continue. The writer
	// goroutine calls it: it must not call the store.
	OnDamage func(error)
	// OnNoSpace, if not nil, is called after a write that failed because the disk
	// or a quota is full. It must not block or call the store.
	OnNoSpace func()
	// OnUnknown, if not nil, is called with the error of a commit of which it is not
	// known whether it is on disk, before its operations are answered. Nothing is
	// written from then on, and all errors are chat.ErrOutcomeUnknown: the store must
	// be closed and opened again, as after a crash. It must not block or call the store.
	OnUnknown func(error)
	// OnCommit, if not nil, is called after each committed transaction with its
	// duration and the number of bytes of the pages it allocated. The writer
	// goroutine calls it: it must not block.
	OnCommit func(took time.Duration, bytes int64)
}

// A Store is an open store file. Its methods may be called from any goroutine.
type Store struct {
	opts  Options
	path  string
	epoch uint64

	dbMu sync.RWMutex // write-locked to replace db, read-locked to read from it
	db   *bbolt.DB    // nil: closed, or reopening failed; only the writer changes it
	// broken is not nil if nothing more is written: the store must be opened again.
	broken error

	mirror *mirror

	queueMu   sync.Mutex // guards pending and isClosing
	pending   []*op
	isClosing bool

	wake       chan struct{}
	writerDone chan struct{} // closed when the writer has returned

	turnCount uint64 // number of turns created by this process; used by the writer only
	commits   atomic.Uint64
	writes    atomic.Uint64
	lastError atomic.Pointer[string]
	// The following fields belong to the writer, except probeScheduled: see
	// recordFailure.
	probeScheduled atomic.Bool
	probeTimer     *time.Timer
	probeSize      int
	closeOnce      sync.Once
	closeErr       error // result of Close
}

// Open opens the store at path, or creates it if there is none. Claims of
// earlier processes expire: their entries can be claimed again, and rows whose
// delivery attempt was in progress become uncertain.
//
// The error is a *storage.NewerError if a newer version wrote the file, a
// *storage.LockedError if another process has it open, and a
// *storage.DamageError if it cannot be read.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if o.Lease == 0 {
		o.Lease = 5 * time.Minute
	}
	s := &Store{opts: o, path: path, mirror: newMirror(), wake: make(chan struct{}, 1), writerDone: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.closeFile())
	}
	go s.runWriter()
	return s, nil
}

// Close writes the pending operations and closes the file. Claims that have not
// ended count as crashed when the store is opened again. Close may be called
// more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.queueMu.Lock()
		s.isClosing = true
		s.queueMu.Unlock()
		s.signal()
		<-s.writerDone
		s.dbMu.Lock()
		defer s.dbMu.Unlock()
		if err := s.closeFile(); err != nil {
			s.closeErr = fmt.Errorf("close %s: %w", s.path, err)
		}
	})
	return s.closeErr
}

// closeFile closes the file. The caller makes sure that it is not in use.
func (s *Store) closeFile() error {
	db := s.db
	s.db = nil
	if db == nil || errors.Is(s.broken, errPanic) { // bbolt would wait for a lock that it holds
		return nil
	}
	return recoverPanics(db.Close)
}

// view runs f in a read transaction.
func (s *Store) view(ctx context.Context, name string, f func(r reader) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err := recoverPanics(func() error {
		return s.db.View(func(tx *bbolt.Tx) error { return f(reader{tx}) })
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read is view with a result.
func read[T any](ctx context.Context, s *Store, name string, f func(r reader) (T, error)) (result T, err error) {
	err = s.view(ctx, name, func(r reader) (err error) { result, err = f(r); return err })
	return result, err
}

// Stats returns the counters and gauges of the store. It does not wait for
// writes.
func (s *Store) Stats() store.Stats {
	st := store.Stats{Epoch: s.epoch, Commits: s.commits.Load(), Writes: s.writes.Load()}
	m := s.mirror
	m.mu.RLock()
	st.Accepted, st.Waiting, st.Claimed, st.Outbox, st.Dead = m.accepted, m.totalWaiting, m.claimed, m.liveRows, m.deadRows
	m.mu.RUnlock()
	if info, err := os.Stat(s.path); err == nil {
		st.Bytes = info.Size()
	}
	if text := s.lastError.Load(); text != nil {
		st.Error = *text
	}
	return st
}
