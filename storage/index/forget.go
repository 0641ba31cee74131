package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"hermesd/gateway/session"
)

// Forget removes a deleted session permanently: rows that a Follower has read
// before and adds later are ignored. Session IDs are never reused. The bytes
// stay in the file until Compact.
func (x *Index) Forget(ctx context.Context, id session.ID) error {
	x.forgottenIDs.Store(id, true)
	return x.Delete(ctx, id)
}

// isForgotten reports whether rows of a session must be ignored.
func (x *Index) isForgotten(id session.ID) bool {
	_, ok := x.forgottenIDs.Load(id)
	return ok
}

// Compact rewrites the file without deleted texts and words. Searches wait
// meanwhile. After Remove there is nothing to rewrite.
func (x *Index) Compact(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isClosed {
		return fmt.Errorf("compact the search index: %w", sql.ErrConnDone)
	}
	if err := x.Fault(); err != nil {
		return unlessRemoved(err)
	}
	if err := x.compact(ctx); err != nil {
		if isDamage(err) {
			x.fault.Store(&ErrDamaged)
			return fmt.Errorf("compact the search index: %w", ErrDamaged)
		}
		return fmt.Errorf("compact the search index: %w", err)
	}
	return nil
}

// unlessRemoved returns err, or nil if it is ErrNoSpace: then nothing is stored that
// had to be deleted.
func unlessRemoved(err error) error {
	if errors.Is(err, ErrNoSpace) {
		return nil
	}
	return err
}

var errReading = errors.New("file is being read; try again")

// compact merges the word lists without those of deleted rows, rewrites the
// file and truncates the write-ahead log.
func (x *Index) compact(ctx context.Context) error {
	for _, q := range []string{"INSERT INTO fts(fts) VALUES ('optimize')", "VACUUM"} {
		if _, err := x.write.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	var busy, log, done int
	if err := x.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done); err != nil {
		return err
	}
	if busy != 0 {
		return errReading
	}
	return nil
}
