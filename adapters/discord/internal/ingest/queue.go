package ingest

import (
	"encoding/json"
	"strings"
	"sync"
)

// An item is one event as received from the gateway.
type item struct {
	kind string
	raw  json.RawMessage
}

// An EventQueue holds events that wait to be processed. Events that do not fit
// are dropped and backfilled later. Its methods are safe for concurrent use.
type EventQueue struct {
	wake     chan struct{}
	maxItems int
	maxBytes int

	mu    sync.Mutex // guards the fields below
	items []item
	bytes int
	lost  bool
}

// NewEventQueue returns an empty queue that holds up to the given number of
// events and bytes of user events.
func NewEventQueue(items, bytes int) *EventQueue {
	return &EventQueue{wake: make(chan struct{}, 1), maxItems: items, maxBytes: bytes}
}

// Push appends an event. It never blocks. Events about guilds and channels are
// few and always fit.
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

// take returns the queued events; lost is true if events were dropped after
// them.
func (f *EventQueue) take() (items []item, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, lost = f.items, f.lost
	f.items, f.bytes, f.lost = nil, 0, false
	return items, lost
}
