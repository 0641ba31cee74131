package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hermesd/gateway/store"
	"hermesd/storage"
)

// An eventRecord is the stored record of an event; its document follows in the bytes
// that it was given.
type eventRecord struct {
	ID    uint64    `json:"id"`
	Queue string    `json:"queue"`
	Key   string    `json:"key"`
	Group string    `json:"group,omitempty"`
	Due   time.Time `json:"due"`
	Added time.Time `json:"added"`
	Tries int       `json:"tries,omitempty"`
	Aside string    `json:"aside,omitempty"`

	doc []byte
}

func (e eventRecord) queued() store.QueuedEvent {
	return store.QueuedEvent{
		Event: store.Event{Queue: e.Queue, Key: e.Key, Group: e.Group, Doc: json.RawMessage(bytes.Clone(e.doc)), Due: e.Due},
		ID:    e.ID, Added: e.Added, Tries: e.Tries, Aside: e.Aside,
	}
}

// decodeEvent decodes the record under k. Its document is valid until the transaction
// ends.
func decodeEvent(k, v []byte) (e eventRecord, err error) {
	content, err := checkChecksum(bEvents, k, v)
	if err != nil {
		return e, err
	}
	head, doc, ok := bytes.Cut(content, []byte("\n"))
	if err := decode(bEvents, k, head, &e); err != nil {
		return e, err
	}
	if !ok || !bytes.Equal(k, eventKey(e.Queue, e.ID)) {
		return e, &storage.DamageError{Record: recordName(bEvents, k), Err: errMalformedKey}
	}
	if len(doc) > 0 {
		e.doc = doc
	}
	return e, nil
}

// hasEvents reports whether there was ever an event: the first one creates the buckets.
func (r reader) hasEvents() bool { return r.bucket(bEvents) != nil }

// event returns an event; ok is false if it is not there.
func (r reader) event(queue string, id uint64) (e eventRecord, ok bool, err error) {
	k := eventKey(queue, id)
	v := r.bucket(bEvents).Get(k)
	if v == nil {
		return e, false, nil
	}
	e, err = decodeEvent(k, v)
	return e, err == nil, err
}

// indexedEvent returns the event to which the entry of the index under k refers.
func (r reader) indexedEvent(k []byte, queue string, id uint64) (eventRecord, error) {
	e, ok, err := r.event(queue, id)
	if err == nil && !ok {
		err = &storage.DamageError{Record: recordName(bEventIndex, k), Err: errNoEvent}
	}
	return e, err
}

// EnqueueEvents adds events to their queues and stores a value under key, unless that is
// "", in one write.
func (s *Store) EnqueueEvents(ctx context.Context, events []store.Event, key string, value []byte) error {
	return s.do(ctx, "enqueue events", eventsSize(events)+len(value), func(b *batch) error {
		if err := b.addEvents(events); err != nil || key == "" {
			return err
		}
		return b.setValue(key, value)
	})
}

// NextEvents returns the first waiting event of each group, if it is due, at most max,
// those that are due longest first and not in except, and when the next one becomes due.
func (s *Store) NextEvents(ctx context.Context, queue string, max int, except ...uint64) (due []store.QueuedEvent, next time.Time, err error) {
	view := func() error {
		return s.view(ctx, "read events of "+queue, func(r reader) (err error) {
			due, next, err = r.nextEvents(queue, max, except)
			return err
		})
	}
	if err = view(); isDamage(err) && !errors.Is(err, errPanic) {
		reason := err
		if err = s.do(ctx, "repair events", maxBatch, func(b *batch) error { return b.rebuildEvents(reason) }); err == nil {
			err = view()
		}
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return due, next, nil
}

func (r reader) nextEvents(queue string, max int, except []uint64) (due []store.QueuedEvent, next time.Time, err error) {
	if !r.hasEvents() {
		return nil, time.Time{}, nil
	}
	now := time.Now()
	for k, v := range r.scan(bEventIndex, dueIndexPrefix(queue)) {
		if _, err := checkChecksum(bEventIndex, k, v); err != nil {
			return nil, next, err
		}
		if slices.Contains(except, keyID(k)) {
			continue
		}
		at := dueInIndex(k)
		if at.After(now) || len(due) > 0 && len(due) >= max {
			return due, at, nil
		}
		e, err := r.indexedEvent(k, queue, keyID(k))
		if err != nil {
			return nil, next, err
		}
		due = append(due, e.queued())
	}
	return due, time.Time{}, nil
}

// QueuedEvents returns all events of a queue in order of their ID; with groups only those
// that wait in them, one group after the other. Those that cannot be read are omitted;
// Verify reports them.
func (s *Store) QueuedEvents(ctx context.Context, queue string, groups ...string) ([]store.QueuedEvent, error) {
	return read(ctx, s, "list events of "+queue, func(r reader) (list []store.QueuedEvent, err error) {
		if !r.hasEvents() {
			return nil, nil
		}
		for _, group := range groups {
			for k := range r.scan(bEventIndex, append(groupIndexPrefix(eventGroup{boundedKey(queue), boundedKey(group)}), '0')) {
				if e, ok, err := r.event(queue, keyID(k)); ok && err == nil {
					list = append(list, e.queued())
				}
			}
		}
		if len(groups) > 0 {
			return list, nil
		}
		for k, v := range r.scan(bEvents, eventPrefix(queue)) {
			if e, err := decodeEvent(k, v); err == nil {
				list = append(list, e.queued())
			}
		}
		return list, nil
	})
}

// LastEvent returns the ID of the newest event of a queue; 0 if there is none. It counts
// also one that cannot be read.
func (s *Store) LastEvent(ctx context.Context, queue string) (uint64, error) {
	return read(ctx, s, "read the last event of "+queue, func(r reader) (uint64, error) {
		if !r.hasEvents() {
			return 0, nil
		}
		c, prefix := r.bucket(bEvents).Cursor(), eventPrefix(queue)
		k, _ := c.Seek(eventKey(queue, math.MaxUint64)) // the first key after the queue
		if k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
		if !bytes.HasPrefix(k, prefix) {
			return 0, nil
		}
		return keyID(k), nil
	})
}

// SettleEvent stores what came of telling an event.
func (s *Store) SettleEvent(ctx context.Context, t store.EventSettlement) error {
	name := fmt.Sprintf("settle event %d of %s", t.ID, t.Queue)
	return s.do(ctx, name, 1024+len(t.Doc)+len(t.Value), func(b *batch) error {
		return b.repairing(func() error { return b.settleEvent(t) })
	})
}

func (b *batch) settleEvent(t store.EventSettlement) error {
	if !b.hasEvents() {
		return nil
	}
	e, ok, err := b.event(t.Queue, t.ID)
	if err != nil || !ok {
		return err
	}
	if t.Done {
		err = b.removeEvent(e)
	} else {
		next := e
		next.Tries++
		next.Aside, next.Due = t.Aside, b.dueAt(t.Due)
		if t.Doc != nil {
			next.doc = t.Doc
		}
		if t.Accepted {
			next.Group = store.AcceptedGroup(e.Group)
		}
		err = b.replaceEvent(e, next)
	}
	for _, id := range t.Merged {
		if err != nil {
			return err
		}
		var ok bool
		if e, ok, err = b.event(t.Queue, id); ok {
			err = b.removeEvent(e)
		}
	}
	if err != nil || t.Key == "" {
		return err
	}
	return b.setValue(t.Key, t.Value)
}

// RetryEvents makes events due now, also those that are set aside; without ids all of
// the queue.
func (s *Store) RetryEvents(ctx context.Context, queue string, ids ...uint64) (int, error) {
	return s.changeEvents(ctx, "retry events of "+queue, queue, ids, func(b *batch, e eventRecord) error {
		if e.Aside == "" && !e.Due.After(b.now) {
			return nil
		}
		next := e
		next.Aside, next.Due = "", b.now
		return b.replaceEvent(e, next)
	})
}

// DropEvents deletes events; without ids all of the queue.
func (s *Store) DropEvents(ctx context.Context, queue string, ids ...uint64) (int, error) {
	return s.changeEvents(ctx, "drop events of "+queue, queue, ids, (*batch).removeEvent)
}

// changeEvents calls change with events of a queue, without ids with all, and returns
// their number.
func (s *Store) changeEvents(ctx context.Context, name, queue string, ids []uint64, change func(*batch, eventRecord) error) (int, error) {
	return write(ctx, s, name, maxBatch, func(b *batch) (n int, err error) {
		if !b.hasEvents() {
			return 0, nil
		}
		err = b.repairing(func() error {
			n = 0
			list := ids
			if len(ids) == 0 {
				for _, k := range b.keys(bEvents, eventPrefix(queue)) {
					list = append(list, keyID(k))
				}
			}
			for _, id := range list {
				e, ok, err := b.event(queue, id)
				if err == nil && ok {
					n++
					err = change(b, e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		return n, err
	})
}

// EventCounts returns the counts of a queue. It does not access the disk.
func (s *Store) EventCounts(queue string) store.EventCounts { return s.mirror.eventCounts(queue) }

// addEvents adds events to their queues.
func (b *batch) addEvents(events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	for _, name := range eventBuckets() {
		if _, err := b.tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return b.repairing(func() error {
		for _, e := range events {
			if err := b.addEvent(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// addEvent adds an event in the place of the one with the same key.
func (b *batch) addEvent(e store.Event) error {
	k := keyIndexKey(e.Queue, e.Key)
	before, err := b.get(bEventIndex, k)
	if err != nil {
		return err
	}
	if before != nil {
		old, err := b.indexedEvent(k, e.Queue, keyID(before))
		if err == nil {
			err = b.removeEvent(old)
		}
		if err != nil {
			return err
		}
	}
	if e.Reschedules {
		if err := b.rescheduleGroup(e); err != nil {
			return err
		}
	}
	id, err := b.nextID(bEvents)
	if err != nil {
		return err
	}
	return b.putEvent(eventRecord{
		ID: id, Queue: e.Queue, Key: e.Key, Group: e.Group, Due: b.dueAt(e.Due), Added: b.now.Round(0), doc: e.Doc,
	})
}

// rescheduleGroup makes the first waiting event of the group of e due when e is, unless it
// is due already or was told before.
func (b *batch) rescheduleGroup(e store.Event) error {
	r := eventRecord{Queue: e.Queue, Group: e.Group}
	first, err := b.firstWaiting(r.group())
	if err != nil || first.id == 0 || first.due <= nanos(b.now) {
		return err
	}
	r.ID = first.id
	old, err := b.indexedEvent(r.groupIndexKey(), e.Queue, first.id)
	if err != nil || old.Tries > 0 {
		return err
	}
	next := old
	next.Due, next.Added = b.dueAt(e.Due), b.now.Round(0)
	return b.replaceEvent(old, next)
}

// dueAt returns when an event is due that is not to be told before t.
func (b *batch) dueAt(t time.Time) time.Time {
	if t.IsZero() {
		t = b.now
	}
	return t.UTC().Round(0) // without the reading of the monotonic clock
}

// dropGroup deletes the events of a group in all queues.
func (b *batch) dropGroup(group string) error {
	if !b.hasEvents() {
		return nil
	}
	return b.repairing(func() error {
		for _, k := range b.keys(bEventIndex, appendField([]byte{indexGroup}, boundedKey(group))) {
			g, _, id, err := parseGroupIndexKey(k)
			if err != nil {
				return &storage.DamageError{Record: recordName(bEventIndex, k), Err: err}
			}
			e, err := b.indexedEvent(k, g.queue, id)
			if err == nil {
				err = b.removeEvent(e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func eventsSize(events []store.Event) (n int) {
	for _, e := range events {
		n += len(e.Doc) + 1024
	}
	return n
}
