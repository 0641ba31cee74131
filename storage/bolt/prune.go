package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// Retention times after the end of a record, and the maximum number of records
// per bucket.
const (
	keyRetention  = 72 * time.Hour
	doneRetention = 7 * 24 * time.Hour
	maxKept       = 100_000
)

// One transaction of Prune reads at most scanChunk records and deletes at most
// pruneChunk.
const (
	pruneChunk = 500
	scanChunk  = 5000
)

// Prune deletes records whose retention time is over at now. It uses small
// transactions, so that other operations do not wait for it.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	p := pruner{now: now}
	for _, stage := range []func(*batch, *pruneCursor) error{p.pruneKeys, p.pruneEntries, p.pruneRows, p.pruneTurns} {
		var at pruneCursor
		for !at.done {
			next := at
			err := s.do(ctx, "prune", pruneChunk*256, func(b *batch) error {
				next = at
				return stage(b, &next)
			})
			if err != nil {
				return err
			}
			at = next
		}
	}
	return nil
}

// A pruner deletes the records that are too old at now.
type pruner struct{ now time.Time }

// A pruneCursor is the progress of a stage.
type pruneCursor struct {
	next []byte
	done bool
}

// A retention is the decision about a record.
type retention int

const (
	retain retention = iota
	remove
	stop // this record and all later ones are too young
)

// scan classifies the records of a bucket from the position of p on, and
// returns the keys of those to delete.
func (p *pruneCursor) scan(b *batch, bucket string, classify func(k, content []byte, err error) retention) [][]byte {
	var keys [][]byte
	c := b.bucket(bucket).Cursor()
	k, v := c.Seek(p.next)
	for n := 0; k != nil; k, v = c.Next() {
		if n++; n > scanChunk || len(keys) == pruneChunk {
			p.next = bytes.Clone(k)
			return keys
		}
		content, err := checkChecksum(bucket, k, v)
		switch classify(k, content, err) {
		case remove:
			keys = append(keys, bytes.Clone(k))
		case stop:
			p.done = true
			return keys
		}
	}
	p.done = true
	return keys
}

// maxExcessID returns the highest ID of a bucket that exceeds the maximum
// number of records.
func maxExcessID(b *batch, bucket string) uint64 {
	last := b.bucket(bucket).Sequence()
	return last - min(last, maxKept)
}

func (p pruner) pruneKeys(b *batch, at *pruneCursor) error {
	cutoff := p.now.Add(-keyRetention).UnixNano()
	var seen [][]byte
	keys := at.scan(b, bAges, func(_, content []byte, err error) retention {
		if err != nil || len(content) < 8 {
			return retain // Verify reports it
		}
		if int64(binary.BigEndian.Uint64(content)) >= cutoff {
			return stop
		}
		seen = append(seen, bytes.Clone(content[8:]))
		return remove
	})
	if err := b.deleteAll(bAges, keys); err != nil {
		return err
	}
	return b.deleteAll(bKeys, seen)
}

// scanRecords returns the keys of the records that are done, and too many or too old.
// describe returns the properties of a record, which began and perhaps ended at times.
func scanRecords[T any](p pruner, at *pruneCursor, b *batch, bucket string, describe func(k []byte, rec T) (isDone, tooMany bool, began, ended time.Time)) [][]byte {
	cutoff := p.now.Add(-doneRetention)
	return at.scan(b, bucket, func(k, content []byte, err error) retention {
		var rec T
		if err != nil || json.Unmarshal(content, &rec) != nil {
			return retain // Verify reports it
		}
		isDone, tooMany, began, ended := describe(k, rec)
		switch {
		case isDone && (tooMany || ended.Before(cutoff)):
			return remove
		case !tooMany && !began.Before(cutoff):
			return stop
		}
		return retain
	})
}

func (p pruner) pruneEntries(b *batch, at *pruneCursor) error {
	excess := maxExcessID(b, bEntries)
	return b.deleteAll(bEntries, scanRecords(p, at, b, bEntries, func(k []byte, e inbox.Entry) (bool, bool, time.Time, time.Time) {
		return e.State == inbox.Done, keyID(k) <= excess, e.Accepted, e.Ended
	}))
}

func (p pruner) pruneRows(b *batch, at *pruneCursor) error {
	excess := maxExcessID(b, bRows)
	for _, k := range scanRecords(p, at, b, bRows, func(k []byte, r outbox.Row) (bool, bool, time.Time, time.Time) {
		return r.Terminal(), keyID(k) <= excess, r.Created, r.Settled
	}) {
		if err := b.delete(bRows, k); err != nil {
			return err
		}
		if b.bucket(bDead).Get(k) == nil {
			continue
		}
		if err := b.delete(bDead, k); err != nil {
			return err
		}
		b.deadRows--
	}
	return nil
}

func (p pruner) pruneTurns(b *batch, at *pruneCursor) error {
	excess := maxExcessID(b, bEntries)
	return b.deleteAll(bTurns, scanRecords(p, at, b, bTurns, func(_ []byte, t turnRecord) (bool, bool, time.Time, time.Time) {
		tooMany := len(t.Entries) > 0 && uint64(slices.Max(t.Entries)) <= excess
		return !t.Ended.IsZero(), tooMany, t.Began, t.Ended
	}))
}
