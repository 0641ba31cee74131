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

// A batch is a write transaction and the changes of the mirror that follow its
// commit.
type batch struct {
	reader
	s            *Store
	now          time.Time
	writes       int // number of puts and deletes so far
	bucketsInUse map[string]*bbolt.Bucket

	// The mirror applies the following fields after the commit.
	waiting  map[inbox.Lane]int // changes of the counts
	claimed  int
	liveRows int
	deadRows int
	accepted int
	queues   map[chat.Address]bool // queues whose head may have changed
	heads    map[chat.Address]queueHead
	inFlight map[outbox.ID]bool // true: set, false: clear
	damage   []error
	events   *eventChanges // nil: none
}

func (s *Store) newBatch(tx *bbolt.Tx) *batch {
	return &batch{
		reader: reader{tx}, s: s, now: time.Now().UTC(),
		bucketsInUse: make(map[string]*bbolt.Bucket),
		waiting:      make(map[inbox.Lane]int), queues: make(map[chat.Address]bool), inFlight: make(map[outbox.ID]bool),
	}
}

func (b *batch) bucketFor(name string) *bbolt.Bucket {
	bk, ok := b.bucketsInUse[name]
	if !ok {
		bk = b.bucket(name)
		if isAppendMostly(name) {
			bk.FillPercent = 0.95
		}
		b.bucketsInUse[name] = bk
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

func (b *batch) deleteAll(bucket string, keys [][]byte) error {
	for _, k := range keys {
		if err := b.delete(bucket, k); err != nil {
			return err
		}
	}
	return nil
}

// nextID returns the next ID of a bucket.
func (b *batch) nextID(bucket string) (uint64, error) {
	b.writes++
	return b.bucketFor(bucket).NextSequence()
}

// saveDamaged copies the bytes of a damaged record to bucket damaged, so that
// the record can be replaced, and schedules the report of reason.
func (b *batch) saveDamaged(bucket string, key []byte, reason error) error {
	if raw := b.bucket(bucket).Get(key); raw != nil {
		content := append([]byte(nil), raw...)
		if err := b.put(bDamaged, append([]byte(bucket+"\x00"), key...), content); err != nil {
			return err
		}
	}
	b.damage = append(b.damage, reason)
	return nil
}

func isDamage(err error) bool {
	var d *storage.DamageError
	return errors.As(err, &d)
}

// findHeads determines the heads of the queues that changed, and of the groups of events.
func (b *batch) findHeads() error {
	b.heads = make(map[chat.Address]queueHead, len(b.queues))
	for a := range b.queues {
		h, err := b.readableHead(a)
		if err != nil {
			return err
		}
		b.heads[a] = h
	}
	return b.indexHeads()
}
