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

// How long things are kept after they have ended, and how many of them.
const (
	keepKeys = 72 * time.Hour
	keepDone = 7 * 24 * time.Hour
	keepMost = 100_000
)

// One transaction of Prune looks at scanChunk records and forgets pruneChunk.
const (
	pruneChunk = 500
	scanChunk  = 5000
)

// Prune forgets what is older than its retention. It does so in small
// transactions, so that others do not wait for it.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	p := pruner{now: now}
	for _, stage := range []func(*batch, *prunedBucket) error{p.ages, p.entries, p.rows, p.turns} {
		var at prunedBucket
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

// A pruner knows what is too old.
type pruner struct{ now time.Time }

// A prunedBucket is how far a stage has come.
type prunedBucket struct {
	from []byte
	done bool
}

// A retention is what becomes of a record.
type retention int

const (
	keep retention = iota
	forget
	stop // it and all that follow are too young
)

// walk judges the records of a bucket from where p stands on, and returns the
// keys of those to forget.
func (p *prunedBucket) walk(b *batch, bucket string, judge func(k, content []byte, err error) retention) [][]byte {
	var keys [][]byte
	c := b.bucket(bucket).Cursor()
	k, v := c.Seek(p.from)
	for n := 0; k != nil; k, v = c.Next() {
		if n++; n > scanChunk || len(keys) == pruneChunk {
			p.from = bytes.Clone(k)
			return keys
		}
		content, err := checkChecksum(bucket, k, v)
		switch judge(k, content, err) {
		case forget:
			keys = append(keys, bytes.Clone(k))
		case stop:
			p.done = true
			return keys
		}
	}
	p.done = true
	return keys
}

// over is the highest id of a bucket that is one too many.
func over(b *batch, bucket string) uint64 {
	last := b.bucket(bucket).Sequence()
	return last - min(last, keepMost)
}

func (p pruner) ages(b *batch, at *prunedBucket) error {
	cutoff := p.now.Add(-keepKeys).UnixNano()
	var seen [][]byte
	keys := at.walk(b, bAges, func(_, content []byte, err error) retention {
		if err != nil || len(content) < 8 {
			return keep // Verify names it
		}
		if int64(binary.BigEndian.Uint64(content)) >= cutoff {
			return stop
		}
		seen = append(seen, bytes.Clone(content[8:]))
		return forget
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

func (p pruner) entries(b *batch, at *prunedBucket) error {
	cutoff, most := p.now.Add(-keepDone), over(b, bEntries)
	keys := at.walk(b, bEntries, func(k, content []byte, err error) retention {
		var e inbox.Entry
		if err != nil || json.Unmarshal(content, &e) != nil {
			return keep // Verify names it
		}
		switch tooMany := keyID(k) <= most; {
		case e.State == inbox.Done && (tooMany || e.Ended.Before(cutoff)):
			return forget
		case !tooMany && !e.Accepted.Before(cutoff):
			return stop
		}
		return keep
	})
	for _, k := range keys {
		if err := b.delete(bEntries, k); err != nil {
			return err
		}
	}
	return nil
}

func (p pruner) rows(b *batch, at *prunedBucket) error {
	cutoff, most := p.now.Add(-keepDone), over(b, bRows)
	dead := make(map[uint64]bool)
	keys := at.walk(b, bRows, func(k, content []byte, err error) retention {
		var r outbox.Row
		if err != nil || json.Unmarshal(content, &r) != nil {
			return keep // Verify names it
		}
		switch tooMany := keyID(k) <= most; {
		case r.Terminal() && (tooMany || r.Settled.Before(cutoff)):
			dead[keyID(k)] = r.DeadLetter()
			return forget
		case !tooMany && !r.Created.Before(cutoff):
			return stop
		}
		return keep
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
		b.dead--
	}
	return nil
}

func (p pruner) turns(b *batch, at *prunedBucket) error {
	cutoff, most := p.now.Add(-keepDone), over(b, bEntries)
	keys := at.walk(b, bTurns, func(_, content []byte, err error) retention {
		var t turnRecord
		if err != nil || json.Unmarshal(content, &t) != nil {
			return keep // Verify names it
		}
		tooMany := len(t.Entries) > 0 && uint64(slices.Max(t.Entries)) <= most
		switch {
		case !t.Ended.IsZero() && (tooMany || t.Ended.Before(cutoff)):
			return forget
		case !tooMany && !t.Began.Before(cutoff):
			return stop
		}
		return keep
	})
	for _, k := range keys {
		if err := b.delete(bTurns, k); err != nil {
			return err
		}
	}
	return nil
}
