package ingest

import (
	"encoding/json"
	"strings"
	"sync"
)

// An item is one event as the gateway told it.
type item struct {
	kind string
	raw  json.RawMessage
}

// A EventQueue is the events that wait to be taken in. What does not fit is dropped,
// and comes back from the history.
type EventQueue struct {
	wake     chan struct{}
	maxItems int
	maxBytes int

	mu    sync.Mutex // guards what follows
	items []item
	bytes int
	lost  bool
}

// NewEventQueue returns an empty feed that holds so many events and bytes of what
// people say.
func NewEventQueue(items, bytes int) *EventQueue {
	return &EventQueue{wake: make(chan struct{}, 1), maxItems: items, maxBytes: bytes}
}

// Push puts an event behind the others. It never waits. What tells of guilds
// and channels is few, and always fits.
func (f *EventQueue) Push(kind string, raw json.RawMessage) {
	said := strings.HasPrefix(kind, "MESSAGE_") || strings.HasPrefix(kind, "INTERACTION_")
	f.mu.Lock()
	if said && (len(f.items) >= f.maxItems || f.bytes+len(raw) > f.maxBytes) {
		f.lost = true
	} else {
		f.items = append(f.items, item{kind, raw})
		f.bytes += len(raw)
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what waits; lost says that something was dropped behind it.
func (f *EventQueue) take() (items []item, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, lost = f.items, f.lost
	f.items, f.bytes, f.lost = nil, 0, false
	return items, lost
}
