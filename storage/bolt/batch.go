package bolt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/storage"
)

// A batch is one transaction on its way to its commit, and what the mirror
// will learn of it.
type batch struct {
	reader
	s      *Store
	now    time.Time
	writes int // puts and deletes so far
	used   map[string]*bbolt.Bucket

	// What follows reaches the mirror after the commit.
	waiting map[inbox.Lane]int // by how much the counts change
	claimed int
	live    int
	dead    int
	fresh   int
	queues  map[chat.Address]bool // whose head may be another now
	heads   map[chat.Address]head
	handed  map[outbox.ID]bool // marks to set or take away
	damage  []error
}

func (s *Store) newBatch(tx *bbolt.Tx) *batch {
	return &batch{
		reader: reader{tx}, s: s, now: time.Now().UTC(),
		used:    make(map[string]*bbolt.Bucket),
		waiting: make(map[inbox.Lane]int), queues: make(map[chat.Address]bool), handed: make(map[outbox.ID]bool),
	}
}

func (b *batch) bucketFor(name string) *bbolt.Bucket {
	bk, ok := b.used[name]
	if !ok {
		bk = b.bucket(name)
		if appended(name) {
			bk.FillPercent = 0.95
		}
		b.used[name] = bk
	}
	return bk
}

func (b *batch) put(bucket string, key, content []byte) error {
	b.writes++
	if err := b.bucketFor(bucket).Put(key, addChecksum(bucket, key, content)); err != nil {
		return fmt.Errorf("put %s: %w", recordName(bucket, key), err)
	}
	return nil
}

func (b *batch) save(bucket string, key []byte, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", recordName(bucket, key), err)
	}
	return b.put(bucket, key, content)
}

func (b *batch) delete(bucket string, key []byte) error {
	b.writes++
	if err := b.bucketFor(bucket).Delete(key); err != nil {
		return fmt.Errorf("delete %s: %w", recordName(bucket, key), err)
	}
	return nil
}

// next returns the next id of a bucket.
func (b *batch) next(bucket string) (uint64, error) {
	b.writes++
	return b.bucketFor(bucket).NextSequence()
}

// setAside keeps the bytes of a damaged record apart, so that the record can be
// replaced, and remembers to tell of it.
func (b *batch) setAside(bucket string, key []byte, why error) error {
	if raw := b.bucket(bucket).Get(key); raw != nil {
		kept := append([]byte(nil), raw...)
		if err := b.put(bDamaged, append([]byte(bucket+"\x00"), key...), kept); err != nil {
			return err
		}
	}
	b.damage = append(b.damage, why)
	return nil
}

func isDamage(err error) bool {
	var d *storage.DamageError
	return errors.As(err, &d)
}

// finish works out the heads of the queues that changed.
func (b *batch) finish() error {
	b.heads = make(map[chat.Address]head, len(b.queues))
	for a := range b.queues {
		h, err := b.head(a)
		if err != nil {
			return err
		}
		b.heads[a] = h
	}
	return nil
}
