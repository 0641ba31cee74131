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
	for i, k := range keys {
		if err := b.delete(bAges, k); err != nil {
			return err
		}
		if err := b.delete(bKeys, seen[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p pruner) pruneEntries(b *batch, at *pruneCursor) error {
	cutoff, excess := p.now.Add(-doneRetention), maxExcessID(b, bEntries)
	keys := at.scan(b, bEntries, func(k, content []byte, err error) retention {
		var e inbox.Entry
		if err != nil || json.Unmarshal(content, &e) != nil {
			return retain // Verify reports it
		}
		switch tooMany := keyID(k) <= excess; {
		case e.State == inbox.Done && (tooMany || e.Ended.Before(cutoff)):
			return remove
		case !tooMany && !e.Accepted.Before(cutoff):
			return stop
		}
		return retain
	})
	for _, k := range keys {
		if err := b.delete(bEntries, k); err != nil {
			return err
		}
	}
	return nil
}

func (p pruner) pruneRows(b *batch, at *pruneCursor) error {
	cutoff, excess := p.now.Add(-doneRetention), maxExcessID(b, bRows)
	dead := make(map[uint64]bool)
	keys := at.scan(b, bRows, func(k, content []byte, err error) retention {
		var r outbox.Row
		if err != nil || json.Unmarshal(content, &r) != nil {
			return retain // Verify reports it
		}
		switch tooMany := keyID(k) <= excess; {
		case r.Terminal() && (tooMany || r.Settled.Before(cutoff)):
			dead[keyID(k)] = r.DeadLetter()
			return remove
		case !tooMany && !r.Created.Before(cutoff):
			return stop
		}
		return retain
	})
	for _, k := range keys {
		if err := b.delete(bRows, k); err != nil {
			return err
		}
		if !dead[keyID(k)] {
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
	cutoff, excess := p.now.Add(-doneRetention), maxExcessID(b, bEntries)
	keys := at.scan(b, bTurns, func(_, content []byte, err error) retention {
		var t turnRecord
		if err != nil || json.Unmarshal(content, &t) != nil {
			return retain // Verify reports it
		}
		tooMany := len(t.Entries) > 0 && uint64(slices.Max(t.Entries)) <= excess
		switch {
		case !t.Ended.IsZero() && (tooMany || t.Ended.Before(cutoff)):
			return remove
		case !tooMany && !t.Began.Before(cutoff):
			return stop
		}
		return retain
	})
	for _, k := range keys {
		if err := b.delete(bTurns, k); err != nil {
			return err
		}
	}
	return nil
}
