package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"hermesd/storage"
)

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("storage/bolt: the store is closed")

// An op is one operation that waits for the writer.
type op struct {
	name string
	size int // bytes it will write, roughly
	// run does it in a transaction. It may be called several times, each time in
	// a new transaction, so it sets its results anew each time. An error after
	// nothing was written is a refusal.
	run func(b *batch) error
	// alone, if set, is done instead of run, outside of any transaction.
	alone func() error
	taken atomic.Bool // by the writer, or by a caller who does not wait any more
	done  chan struct{}
	wrote bool
	err   error
}

// do hands run to the writer and waits until it is on disk. If ctx ends before
// the writer has taken it up it never will be.
func (s *Store) do(ctx context.Context, name string, size int, run func(b *batch) error) error {
	return s.submit(ctx, &op{name: name, size: size, run: run, done: make(chan struct{})})
}

// exclusive has the writer call f while it writes nothing.
func (s *Store) exclusive(ctx context.Context, name string, f func() error) error {
	return s.submit(ctx, &op{name: name, alone: f, done: make(chan struct{})})
}

func (s *Store) submit(ctx context.Context, o *op) error {
	name := o.name
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	s.qmu.Lock()
	if s.closing {
		s.qmu.Unlock()
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	s.gathered = append(s.gathered, o)
	s.qmu.Unlock()
	s.signal()
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
		<-o.done
	}
	if o.err != nil {
		return fmt.Errorf("%s: %w", name, o.err)
	}
	return nil
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write is the one goroutine that writes. Close waits for it.
func (s *Store) write() {
	defer close(s.written)
	defer func() {
		if s.attempt != nil {
			s.attempt.Stop()
		}
	}()
	debug.SetPanicOnFault(true) // a damaged file must not end the process
	for range s.wake {
		for {
			ops, closing := s.gather()
			if len(ops) > 0 {
				s.commit(ops)
				continue
			}
			if closing {
				return
			}
			break
		}
	}
}

// gather takes what waits, up to the size of a batch.
func (s *Store) gather() (ops []*op, closing bool) {
	s.qmu.Lock()
	defer s.qmu.Unlock()
	size := 0
	for len(s.gathered) > 0 {
		o := s.gathered[0]
		if len(ops) > 0 && (size+o.size > s.o.MaxBatch || o.alone != nil || ops[0].alone != nil) {
			break
		}
		s.gathered = s.gathered[1:]
		if o.taken.CompareAndSwap(false, true) {
			ops = append(ops, o)
			size += o.size
		}
	}
	return ops, s.closing
}

// commit runs ops in one transaction and answers them. An op that fails
// half-way is answered and the others run again without it.
func (s *Store) commit(ops []*op) {
	if o := ops[0]; o.alone != nil {
		o.err = guarded(o.alone)
		close(o.done)
		return
	}
	for len(ops) > 0 {
		failed, err := s.try(ops)
		if failed == nil {
			for _, o := range ops {
				if err != nil && (o.err == nil || o.wrote) {
					o.err = err
				}
				close(o.done)
			}
			return
		}
		s.noteFailure(failed.err, failed)
		ops = slices.DeleteFunc(ops, func(o *op) bool { return o == failed })
		close(failed.done)
	}
}

// try runs ops in one transaction. It returns the op that failed after it had
// written something, if there is one; then nothing has happened. Else err is
// what became of the commit.
func (s *Store) try(ops []*op) (failed *op, err error) {
	if err := s.ready(); err != nil {
		s.noteFailure(err, ops...)
		return nil, err
	}
	began := time.Now()
	tx, err := s.db.Begin(true)
	if err != nil {
		s.noteFailure(err, ops...)
		s.reopenAfterFailure(nil)
		return nil, err
	}
	b := s.newBatch(tx)
	wrote := 0
	for _, o := range ops {
		before := b.writes
		o.err = guarded(func() error { return o.run(b) })
		o.wrote = b.writes != before
		if o.wrote {
			wrote++
		}
		if o.err != nil && o.wrote {
			return o, s.rollback(b)
		}
	}
	if b.writes == 0 {
		err := s.rollback(b)
		s.mirror.apply(b)
		return nil, err
	}
	if err := guarded(b.finish); err != nil {
		s.noteFailure(err, ops...)
		return nil, errors.Join(err, s.rollback(b))
	}
	before := s.backupMeta(tx)
	if err := guarded(tx.Commit); err != nil {
		err = fmt.Errorf("write to disk: %w", err)
		s.noteFailure(err, ops...)
		_ = s.rollback(b) // bbolt has done it, unless it panicked
		s.reopenAfterFailure(before)
		return nil, err
	}
	s.commits.Add(1)
	s.writes.Add(uint64(wrote))
	s.mirror.apply(b)
	s.note(nil)
	s.measure(tx, began)
	s.tell(b.damage)
	return nil, nil
}

// rollback ends a transaction that bbolt has not ended. If bbolt cannot, its
// locks stay held, and it must not be touched again.
func (s *Store) rollback(b *batch) error {
	err := guarded(func() error {
		if b.tx.DB() == nil {
			return nil
		}
		return b.tx.Rollback()
	})
	if err != nil {
		s.broken = fmt.Errorf("the file cannot be used until the daemon is restarted: %w", err)
	}
	return err
}

var errPanic = errors.New("panic")

// guarded turns a panic into an error: bbolt panics where its pages make no
// sense, and reading a file that became shorter is a fault.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &storage.DamageError{Record: "the file", Err: fmt.Errorf("%w: %v", errPanic, p)}
		}
	}()
	return f()
}

// note keeps the last failure for Stats, until a write succeeds.
func (s *Store) note(err error) {
	if err == nil {
		if s.last.Load() != nil {
			s.last.Store(nil)
		}
		return
	}
	text := err.Error()
	s.last.Store(&text)
}

// measure reports a transaction that was written.
func (s *Store) measure(tx *bbolt.Tx, began time.Time) {
	if s.o.OnCommit != nil {
		stats := tx.Stats()
		s.o.OnCommit(time.Since(began), stats.GetPageAlloc())
	}
}

// tell reports damage that was set aside.
func (s *Store) tell(damage []error) {
	if s.o.OnDamage == nil {
		return
	}
	for _, err := range damage {
		s.o.OnDamage(err)
	}
}
