package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// An Event is something that is to be told to an outside service. It is stored in the
// write that makes it known here, so that it is told if and only if that write happened.
type Event struct {
	Queue string
	// Key is unique in the queue: an event with the key of a waiting one replaces it and
	// is then the newest.
	Key string
	// Group is a name whose events are told in order, one after the other, except those
	// that are settled as accepted: they have an order of their own.
	Group string
	Doc   json.RawMessage // opaque to the store
	Due   time.Time       // not before; zero: at once
	// Reschedules: the first event of the group that waits is due when this one is, and
	// counts as added now, unless it is due already or was told before.
	Reschedules bool
}

// A QueuedEvent is an event in its queue.
type QueuedEvent struct {
	Event
	ID    uint64 // in the order of their addition
	Added time.Time
	Tries int    // settlements that were not the last
	Aside string // why it is not told until somebody retries it; "" if it waits
}

// acceptedGroup begins the group of events that were accepted.
const acceptedGroup = "accepted:"

// AcceptedGroup returns the group that the events of a group have after they were accepted.
func AcceptedGroup(group string) string {
	return acceptedGroup + strings.TrimPrefix(group, acceptedGroup)
}

// Events keeps events until they were told. An event stays until it is settled as done,
// or dropped.
type Events interface {
	// EnqueueEvents adds events to their queues and stores a value under key, unless that is
	// "", in one write; see Values.
	EnqueueEvents(ctx context.Context, events []Event, key string, value []byte) error
	// NextEvents returns the events that may be told now: of each group the first that
	// waits, if it is due, at most max (at least 1), those that are due longest first, without those
	// with the IDs in except. next is when the next one becomes due; zero if none waits, and the
	// past if there are more than max.
	NextEvents(ctx context.Context, queue string, max int, except ...uint64) (due []QueuedEvent, next time.Time, err error)
	// SettleEvent stores what came of telling an event. It does nothing if the event is
	// not there any more.
	SettleEvent(ctx context.Context, s EventSettlement) error
	// QueuedEvents returns all events of a queue in order of their ID; with groups only those
	// that wait in them, one group after the other.
	QueuedEvents(ctx context.Context, queue string, groups ...string) ([]QueuedEvent, error)
	// LastEvent returns the ID of the newest event of a queue; 0 if there is none. It reads
	// no other event.
	LastEvent(ctx context.Context, queue string) (uint64, error)
	// RetryEvents makes events due now, also those that are set aside; without ids all of
	// the queue. It returns their number.
	RetryEvents(ctx context.Context, queue string, ids ...uint64) (int, error)
	// DropEvents deletes events; without ids all of the queue. It returns their number.
	DropEvents(ctx context.Context, queue string, ids ...uint64) (int, error)
	// EventCounts returns the counts of a queue. It does not access the disk.
	EventCounts(queue string) EventCounts
}

// An EventSettlement is what came of telling an event.
type EventSettlement struct {
	Queue string
	ID    uint64
	// Done: it was told. Otherwise it is set aside if Aside has a reason, else it is told
	// again at Due.
	Done  bool
	Aside string
	// Accepted: it does not hold up the other events of its group any more.
	Accepted bool
	Due      time.Time
	Doc      json.RawMessage // replaces that of the event; nil: it stays
	// Merged are IDs of other events of the queue that are deleted, because Doc has what
	// they say.
	Merged []uint64
	// Key and Value, if Key is not "", store a value in the same write; see Values.
	Key   string
	Value []byte
}

// EventCounts counts the events of a queue.
type EventCounts struct {
	Waiting, Aside int
	Bytes          int64     // of the documents
	Oldest         time.Time // when the oldest that waits was added; zero if none waits
}
