package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"hermesd/gateway/chat"
	"hermesd/storage"
)

// ErrClosed is the error of all operations on a closed store.
var ErrClosed = errors.New("storage/bolt: store is closed")

// maxBatch is the approximate number of bytes that one transaction writes at most. A
// single larger operation gets a transaction of its own.
const maxBatch = 4 << 20

// An op is an operation that waits for the writer.
type op struct {
	name string
	size int // approximate number of bytes it will write
	// run executes the operation in a transaction. It may be called several
	// times, each time in a new transaction, so it must reset its results each
	// time. An error before anything was written is a rejection.
	run func(b *batch) error
	// exclusive, if not nil, is called instead of run, outside of any
	// transaction.
	exclusive  func() error
	isTaken    atomic.Bool // set once, by the writer that runs it or by the caller that gives up
	done       chan struct{}
	hasWritten bool
	err        error
}

// do submits run to the writer and waits until its changes are on disk. If ctx
// ends before the writer has started it, run is never called.
func (s *Store) do(ctx context.Context, name string, size int, run func(b *batch) error) error {
	return s.submit(ctx, &op{name: name, size: size, run: run, done: make(chan struct{})})
}

// write is do with a result, which is zero after an error.
func write[T any](ctx context.Context, s *Store, name string, size int, run func(b *batch) (T, error)) (T, error) {
	var none, result T
	err := s.do(ctx, name, size, func(b *batch) (err error) { result, err = run(b); return err })
	if err != nil {
		return none, err
	}
	return result, nil
}

// runExclusive has the writer call f while no transaction is open.
func (s *Store) runExclusive(ctx context.Context, name string, f func() error) error {
	return s.submit(ctx, &op{name: name, exclusive: f, done: make(chan struct{})})
}

func (s *Store) submit(ctx context.Context, o *op) error {
	name := o.name
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	s.queueMu.Lock()
	if s.isClosing {
		s.queueMu.Unlock()
		return fmt.Errorf("%s: %w", name, ErrClosed)
	}
	s.pending = append(s.pending, o)
	s.queueMu.Unlock()
	s.signal()
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.isTaken.CompareAndSwap(false, true) {
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

// runWriter is the only goroutine that writes. Close waits for it.
func (s *Store) runWriter() {
	defer close(s.writerDone)
	defer func() {
		if s.probeTimer != nil {
			s.probeTimer.Stop()
		}
	}()
	debug.SetPanicOnFault(true) // a damaged file must not end the process
	for range s.wake {
		for {
			ops, closing := s.takePending()
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

// takePending returns the pending operations, up to maxBatch.
func (s *Store) takePending() (ops []*op, closing bool) {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	size := 0
	for len(s.pending) > 0 {
		o := s.pending[0]
		if len(ops) > 0 && (size+o.size > maxBatch || o.exclusive != nil || ops[0].exclusive != nil) {
			break
		}
		s.pending = s.pending[1:]
		if o.isTaken.CompareAndSwap(false, true) {
			ops = append(ops, o)
			size += o.size
		}
	}
	return ops, s.isClosing
}

// commit runs ops in one transaction and answers them. An op that fails after
// it has written is answered, and the others run again without it.
func (s *Store) commit(ops []*op) {
	if o := ops[0]; o.exclusive != nil {
		o.err = recoverPanics(o.exclusive)
		close(o.done)
		return
	}
	for len(ops) > 0 {
		failed, err := s.tryCommit(ops)
		if failed == nil {
			for _, o := range ops {
				if err != nil && (o.err == nil || o.hasWritten) {
					o.err = err
				}
				close(o.done)
			}
			return
		}
		s.recordFailure(failed.err, failed)
		ops = slices.DeleteFunc(ops, func(o *op) bool { return o == failed })
		close(failed.done)
	}
}

// tryCommit runs ops in one transaction. If an op failed after it had written
// something, it returns that op, and nothing has been stored. Otherwise err is
// the result of the commit.
func (s *Store) tryCommit(ops []*op) (failed *op, err error) {
	if err := s.ensureOpen(); err != nil {
		s.recordFailure(err, ops...)
		return nil, err
	}
	began := time.Now()
	tx, err := s.db.Begin(true)
	if err != nil {
		s.recordFailure(err, ops...)
		s.reopenAfterFailure()
		return nil, err
	}
	b := s.newBatch(tx)
	wrote := 0
	for _, o := range ops {
		before := b.writes
		o.err = recoverPanics(func() error { return o.run(b) })
		o.hasWritten = b.writes != before
		if o.hasWritten {
			wrote++
		}
		if o.err != nil && o.hasWritten {
			return o, s.rollback(b)
		}
	}
	if b.writes == 0 {
		err := s.rollback(b)
		s.mirror.apply(b)
		s.reportDamage(b.damage)
		return nil, err
	}
	if err := recoverPanics(b.findHeads); err != nil {
		s.recordFailure(err, ops...)
		return nil, errors.Join(err, s.rollback(b))
	}
	id := tx.ID()
	if err := recoverPanics(tx.Commit); err != nil {
		err = s.commitFailed(b, id, fmt.Errorf("write to disk: %w", err))
		s.recordFailure(err, ops...)
		return nil, err
	}
	s.commits.Add(1)
	s.writes.Add(uint64(wrote))
	s.mirror.apply(b)
	s.recordError(nil)
	s.reportCommit(tx, began)
	s.reportDamage(b.damage)
	return nil, nil
}

// commitFailed returns the error of the operations of a failed commit, the id-th. bbolt
// writes and syncs all other pages before the meta page, which makes them valid. If the
// newest valid meta page is of an earlier commit, nothing has been stored and the store
// continues. Otherwise a power cut may or may not undo the commit until it was synced,
// as the next process does when it starts an epoch.
func (s *Store) commitFailed(b *batch, id int, err error) error {
	_ = s.rollback(b) // bbolt has rolled back, unless it panicked
	newest := 0
	readErr := recoverPanics(func() error {
		if s.broken != nil {
			return s.broken
		}
		return s.db.View(func(tx *bbolt.Tx) error { newest = tx.ID(); return nil })
	})
	switch unmapped := errors.Is(readErr, bolterrors.ErrInvalidMapping); {
	case unmapped, readErr == nil && newest < id && errors.Is(err, errPanic):
		s.reopenAfterFailure()
	case readErr != nil || newest >= id:
		s.broken = fmt.Errorf("%w: %w", chat.ErrOutcomeUnknown, err)
		if s.opts.OnUnknown != nil {
			s.opts.OnUnknown(s.broken)
		}
		return s.broken
	}
	return err
}

// rollback ends a transaction that bbolt has not ended. If bbolt cannot, its
// locks stay held and it must not be used again.
func (s *Store) rollback(b *batch) error {
	err := recoverPanics(func() error {
		if b.tx.DB() == nil {
			return nil
		}
		return b.tx.Rollback()
	})
	if err != nil {
		s.broken = fmt.Errorf("store is unusable until the daemon is restarted: %w", err)
	}
	return err
}

// errPanic is the error of a panic in bbolt. Where its text is shown, no check has
// found the page.
var errPanic = errors.New("its pages contradict each other")

// recoverPanics calls f and converts a panic to an error: bbolt panics where
// its pages make no sense, and reading a file that has become shorter is a
// fault.
func recoverPanics(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &storage.DamageError{Record: "the file", Err: fmt.Errorf("%w (%v)", errPanic, p)}
		}
	}()
	return f()
}

// recordError stores the last error for Stats; nil clears it.
func (s *Store) recordError(err error) {
	if err == nil {
		if s.lastError.Load() != nil {
			s.lastError.Store(nil)
		}
		return
	}
	text := err.Error()
	s.lastError.Store(&text)
}

// reportCommit reports a committed transaction to OnCommit.
func (s *Store) reportCommit(tx *bbolt.Tx, began time.Time) {
	if s.opts.OnCommit != nil {
		stats := tx.Stats()
		s.opts.OnCommit(time.Since(began), stats.GetPageAlloc())
	}
}

// reportDamage reports damaged records to OnDamage.
func (s *Store) reportDamage(damage []error) {
	if s.opts.OnDamage == nil {
		return
	}
	for _, err := range damage {
		s.opts.OnDamage(err)
	}
}

const (
	// probeDelay is the time between a failed write and the write probe.
	probeDelay = time.Second
	// maxProbeSize is the maximum number of bytes of a write probe.
	maxProbeSize = 1 << 20
)

// keyWriteProbe is the key in bucket values that the write probe uses.
const keyWriteProbe = "recover"

// recordFailure is recordError for operations that were not written. Stats
// returns the error until the same amount has been written. If there is no
// other write, the store writes a probe by itself, so that clients that wait
// for its recovery need not wait for a message.
func (s *Store) recordFailure(err error, ops ...*op) {
	s.recordError(err)
	if s.opts.OnNoSpace != nil && isNoSpace(err) {
		s.opts.OnNoSpace()
	}
	for _, o := range ops {
		s.probeSize = max(s.probeSize, min(o.size, maxProbeSize))
	}
	if s.probeScheduled.CompareAndSwap(false, true) {
		s.probeTimer = time.AfterFunc(probeDelay, s.probeWrite)
	}
}

// isNoSpace reports whether err says that the disk or a quota is full. bbolt formats
// some errors of the system into its own.
func isNoSpace(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return strings.Contains(err.Error(), "not enough space on the disk") // Windows
}

// probeWrite writes as much as could not be written, and deletes it again.
func (s *Store) probeWrite() {
	s.probeScheduled.Store(false) // a failure schedules the next probe
	ctx := context.Background()
	err := s.do(ctx, "probe write", maxProbeSize, func(b *batch) error {
		return b.put(bValues, []byte(keyWriteProbe), make([]byte, s.probeSize))
	})
	if err != nil {
		return // Stats returns the error
	}
	_ = s.do(ctx, "probe write", 0, func(b *batch) error {
		s.probeSize = 0
		return b.delete(bValues, []byte(keyWriteProbe))
	})
}
