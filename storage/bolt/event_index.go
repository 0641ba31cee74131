package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"hermesd/gateway/store"
	"hermesd/storage"
)

// Kinds of entries in bucket eventindex, the first byte of a key.
const (
	indexKey   = 'k' // queue, key: the ID
	indexGroup = 'g' // group, queue, '0' if it waits or '1' if it is set aside, ID: an eventEntry
	indexDue   = 'd' // queue, due, ID of the first waiting event of each group
)

var (
	errNoEvent    = errors.New("event is missing")
	errEventIndex = errors.New("mismatch with the index of events")
)

// An eventGroup is a group of a queue, with the names that are in keys.
type eventGroup struct{ queue, group string }

func (e eventRecord) group() eventGroup { return eventGroup{boundedKey(e.Queue), boundedKey(e.Group)} }

// An eventEntry is what the index knows about an event.
type eventEntry struct {
	id         uint64 // 0: no event
	due, added int64  // in nanoseconds since 1970
	bytes      int64  // of the document
}

func (e eventRecord) entry() eventEntry {
	return eventEntry{e.ID, nanos(e.Due), nanos(e.Added), int64(len(e.doc))}
}

// nanos returns t in nanoseconds since 1970, or the nearest number there is.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return t.UnixNano()
}

func (e eventEntry) content() []byte {
	var v []byte
	for _, n := range []int64{e.due, e.added, e.bytes} {
		v = binary.BigEndian.AppendUint64(v, uint64(n))
	}
	return v
}

func eventPrefix(queue string) []byte { return appendField(nil, boundedKey(queue)) }

func eventKey(queue string, id uint64) []byte {
	return binary.BigEndian.AppendUint64(eventPrefix(queue), id)
}

func keyIndexKey(queue, key string) []byte {
	return append(appendField([]byte{indexKey}, boundedKey(queue)), boundedKey(key)...)
}

func groupIndexPrefix(g eventGroup) []byte {
	return appendField(appendField([]byte{indexGroup}, g.group), g.queue)
}

func (e eventRecord) groupIndexKey() []byte {
	state := byte('0')
	if e.Aside != "" {
		state = '1'
	}
	return binary.BigEndian.AppendUint64(append(groupIndexPrefix(e.group()), state), e.ID)
}

func parseGroupIndexKey(k []byte) (g eventGroup, aside bool, id uint64, err error) {
	if g.group, k, err = cutField(k[1:]); err != nil {
		return g, false, 0, err
	}
	if g.queue, k, err = cutField(k); err != nil {
		return g, false, 0, err
	}
	if len(k) != 9 || k[0] != '0' && k[0] != '1' {
		return g, false, 0, errMalformedKey
	}
	return g, k[0] == '1', keyID(k), nil
}

func dueIndexPrefix(queue string) []byte {
	return appendField([]byte{indexDue}, boundedKey(queue))
}

func dueIndexKey(queue string, e eventEntry) []byte {
	k := binary.BigEndian.AppendUint64(dueIndexPrefix(queue), uint64(e.due)^1<<63) // also before 1970 in order
	return binary.BigEndian.AppendUint64(k, e.id)
}

// dueInIndex returns the due time in a key of kind indexDue.
func dueInIndex(k []byte) time.Time {
	if len(k) < 16 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(k[len(k)-16:])^1<<63)).UTC()
}

// groupEntry decodes an entry of kind indexGroup.
func groupEntry(k, v []byte) (g eventGroup, aside bool, e eventEntry, err error) {
	content, err := checkChecksum(bEventIndex, k, v)
	if err == nil {
		g, aside, e.id, err = parseGroupIndexKey(k)
	}
	if err == nil && len(content) != 24 {
		err = errTruncated
	}
	if err != nil {
		if !isDamage(err) {
			err = &storage.DamageError{Record: recordName(bEventIndex, k), Err: err}
		}
		return g, aside, e, err
	}
	for i, n := range []*int64{&e.due, &e.added, &e.bytes} {
		*n = int64(binary.BigEndian.Uint64(content[8*i:]))
	}
	return g, aside, e, nil
}

// firstWaiting returns the first event of a group that waits.
func (r reader) firstWaiting(g eventGroup) (eventEntry, error) {
	for k, v := range r.scan(bEventIndex, append(groupIndexPrefix(g), '0')) {
		_, _, e, err := groupEntry(k, v)
		return e, err
	}
	return eventEntry{}, nil
}

// eventChanges are the changes of the events in a batch.
type eventChanges struct {
	counts map[string]store.EventCounts // by queue: what is added to its counts
	// heads has the first waiting event of each group that changed: before the batch,
	// and after indexHeads in it.
	heads map[eventGroup]eventEntry
	// rebuilt is set if the index was built again; all has the counts then.
	rebuilt bool
	all     map[string]*eventQueue
}

// changeGroup notes that the group of e changes, and counts.
func (b *batch) changeGroup(e eventRecord, sign int) error {
	if b.events == nil {
		b.events = &eventChanges{counts: make(map[string]store.EventCounts), heads: make(map[eventGroup]eventEntry)}
	}
	g := e.group()
	if _, ok := b.events.heads[g]; !ok {
		first, err := b.firstWaiting(g)
		if err != nil {
			return err
		}
		b.events.heads[g] = first
	}
	n := b.events.counts[g.queue]
	n.Bytes += int64(sign * len(e.doc))
	if e.Aside == "" {
		n.Waiting += sign
	} else {
		n.Aside += sign
	}
	b.events.counts[g.queue] = n
	return nil
}

// putEvent stores a new event.
func (b *batch) putEvent(e eventRecord) error {
	if err := b.changeGroup(e, 1); err != nil {
		return err
	}
	head, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s of %s: %w", e.Key, e.Queue, err)
	}
	if err := b.put(bEvents, eventKey(e.Queue, e.ID), append(append(head, '\n'), e.doc...)); err != nil {
		return err
	}
	return b.putEventIndex(e)
}

func (b *batch) putEventIndex(e eventRecord) error {
	if err := b.put(bEventIndex, keyIndexKey(e.Queue, e.Key), idKey(e.ID)); err != nil {
		return err
	}
	return b.put(bEventIndex, e.groupIndexKey(), e.entry().content())
}

func (b *batch) removeEvent(e eventRecord) error {
	if err := b.changeGroup(e, -1); err != nil {
		return err
	}
	if err := b.delete(bEvents, eventKey(e.Queue, e.ID)); err != nil {
		return err
	}
	return b.deleteAll(bEventIndex, [][]byte{keyIndexKey(e.Queue, e.Key), e.groupIndexKey()})
}

func (b *batch) replaceEvent(old, next eventRecord) error {
	next.doc = bytes.Clone(next.doc) // the removal may move it
	if err := b.removeEvent(old); err != nil {
		return err
	}
	return b.putEvent(next)
}

// indexHeads indexes the first waiting events of the groups that changed by their due
// time.
func (b *batch) indexHeads() error {
	if b.events == nil {
		return nil
	}
	if err := b.repairing(b.indexChangedHeads); err != nil {
		return err
	}
	if b.events.rebuilt {
		b.events.all = b.countEvents()
	}
	return nil
}

func (b *batch) indexChangedHeads() error {
	for g, before := range b.events.heads {
		after, err := b.firstWaiting(g)
		if err != nil {
			return err
		}
		if after == before {
			continue
		}
		if before.id != 0 {
			if err := b.delete(bEventIndex, dueIndexKey(g.queue, before)); err != nil {
				return err
			}
		}
		if after.id != 0 {
			if err := b.put(bEventIndex, dueIndexKey(g.queue, after), nil); err != nil {
				return err
			}
		}
		b.events.heads[g] = after
	}
	return nil
}

// repairing calls f, which must be repeatable. If records are damaged it calls f again
// without them.
func (b *batch) repairing(f func() error) error {
	err := f()
	if !isDamage(err) {
		return err
	}
	if err := b.rebuildEvents(err); err != nil {
		return err
	}
	return f()
}

// rebuildEvents moves the events that cannot be read out of the way and builds the
// index of the others.
func (b *batch) rebuildEvents(reason error) error {
	b.damage = append(b.damage, reason)
	b.events = &eventChanges{counts: make(map[string]store.EventCounts), heads: make(map[eventGroup]eventEntry), rebuilt: true}
	b.writes++
	delete(b.bucketsInUse, bEventIndex)
	if err := b.tx.DeleteBucket([]byte(bEventIndex)); err != nil {
		return fmt.Errorf("delete the index of events: %w", err)
	}
	if _, err := b.tx.CreateBucket([]byte(bEventIndex)); err != nil {
		return fmt.Errorf("create the index of events: %w", err)
	}
	damaged := make(map[string]error)
	var readable []eventRecord
	for k, v := range b.scan(bEvents, nil) {
		e, err := decodeEvent(k, v)
		if err != nil {
			damaged[string(k)] = err
			continue
		}
		readable = append(readable, e)
	}
	for _, e := range readable {
		b.events.heads[e.group()] = eventEntry{} // indexHeads finds it
		if err := b.putEventIndex(e); err != nil {
			return err
		}
	}
	for k, err := range damaged {
		if err := b.saveDamaged(bEvents, []byte(k), err); err != nil {
			return err
		}
		if err := b.delete(bEvents, []byte(k)); err != nil {
			return err
		}
	}
	return nil
}

// An eventQueue is what the mirror keeps of a queue of events.
type eventQueue struct {
	counts store.EventCounts // without Oldest
	heads  map[string]eventEntry
}

func (q *eventQueue) setHead(group string, e eventEntry) {
	if e.id == 0 {
		delete(q.heads, group)
		return
	}
	q.heads[group] = e
}

// countEvents returns the queues as they are stored.
func (r reader) countEvents() map[string]*eventQueue {
	queues := make(map[string]*eventQueue)
	if !r.hasEvents() {
		return queues
	}
	for k, v := range r.scan(bEventIndex, []byte{indexGroup}) {
		g, aside, e, err := groupEntry(k, v)
		if err != nil {
			continue // Verify reports it
		}
		q := eventQueueOf(queues, g.queue)
		q.counts.Bytes += e.bytes
		if aside {
			q.counts.Aside++
			continue
		}
		q.counts.Waiting++
		if _, ok := q.heads[g.group]; !ok {
			q.setHead(g.group, e)
		}
	}
	return queues
}

func eventQueueOf(queues map[string]*eventQueue, name string) *eventQueue {
	q := queues[name]
	if q == nil {
		q = &eventQueue{heads: make(map[string]eventEntry)}
		queues[name] = q
	}
	return q
}

// applyEvents applies the changes of a committed batch. The caller holds mu.
func (m *mirror) applyEvents(c *eventChanges) {
	switch {
	case c == nil:
		return
	case c.rebuilt:
		m.events = c.all
		return
	}
	for name, n := range c.counts {
		q := eventQueueOf(m.events, name)
		q.counts.Waiting += n.Waiting
		q.counts.Aside += n.Aside
		q.counts.Bytes += n.Bytes
	}
	for g, first := range c.heads {
		eventQueueOf(m.events, g.queue).setHead(g.group, first)
	}
}

func (m *mirror) eventCounts(queue string) store.EventCounts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	q := m.events[boundedKey(queue)]
	if q == nil {
		return store.EventCounts{}
	}
	n := q.counts
	var oldest eventEntry // is the first of its group
	for _, e := range q.heads {
		if oldest.id == 0 || e.id < oldest.id {
			oldest = e
		}
	}
	if oldest.id != 0 {
		n.Oldest = time.Unix(0, oldest.added).UTC()
	}
	return n
}

// checkEvent checks that the index has an event.
func (r reader) checkEvent(k []byte) error {
	e, err := decodeEvent(k, r.bucket(bEvents).Get(k))
	if err != nil {
		return err
	}
	id, err := r.get(bEventIndex, keyIndexKey(e.Queue, e.Key))
	if err != nil {
		return err
	}
	entry, err := r.get(bEventIndex, e.groupIndexKey())
	if err != nil {
		return err
	}
	if !bytes.Equal(id, idKey(e.ID)) || !bytes.Equal(entry, e.entry().content()) {
		return errEventIndex
	}
	return nil
}

// checkEventIndex checks that an entry of the index is that of an event.
func (r reader) checkEventIndex(k, content []byte) error {
	queue, rest, err := cutField(k[1:])
	if k[0] == indexGroup && err == nil {
		queue, rest, err = cutField(rest)
	}
	if err != nil {
		return err
	}
	id := keyID(rest)
	if k[0] == indexKey {
		id = keyID(content)
	}
	e, ok, err := r.event(queue, id)
	if err := missingError(err, ok, fmt.Sprintf("event %d", id)); err != nil {
		return err
	}
	first, err := r.firstWaiting(e.group())
	if err != nil {
		return err
	}
	switch {
	case k[0] == indexKey && bytes.Equal(k, keyIndexKey(e.Queue, e.Key)):
	case k[0] == indexDue && first.id == id && bytes.Equal(k, dueIndexKey(queue, first)):
	case k[0] == indexGroup && bytes.Equal(k, e.groupIndexKey()):
		if first.id == id && r.bucket(bEventIndex).Get(dueIndexKey(queue, first)) == nil {
			return errors.New("first event of its group has no due time in the index")
		}
	default:
		return errEventIndex
	}
	return nil
}
