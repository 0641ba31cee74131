package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"hermesd/gateway/session"
)

// Forget takes a session out that the store has deleted, for good: what a
// Follower has read of it before and still hands in is not taken. An id is never
// given to a second session. The bytes are in the file until Compact.
func (x *Index) Forget(ctx context.Context, id session.ID) error {
	x.gone.Store(id, true)
	return x.Delete(ctx, id)
}

// forgotten reports whether nothing of a session may be taken any more.
func (x *Index) forgotten(id session.ID) bool {
	_, gone := x.gone.Load(id)
	return gone
}

// Compact writes the file anew without what was deleted: neither texts nor words
// of it are left in it. Searches wait meanwhile.
func (x *Index) Compact(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return fmt.Errorf("compact the search index: %w", sql.ErrConnDone)
	case x.broken.Load():
		return ErrDamaged
	}
	if err := x.compact(ctx); err != nil {
		if damage(err) {
			x.broken.Store(true)
			return fmt.Errorf("compact the search index: %w", ErrDamaged)
		}
		return fmt.Errorf("compact the search index: %w", err)
	}
	return nil
}

var errReading = errors.New("somebody reads the file; try again")

// compact merges the words into one list, without those of deleted rows, and
// empties the log of changes into a file that was written anew.
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
