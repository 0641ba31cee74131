package bolt

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// A queueHead is the row at the front of a queue, not counting rows that are
// held for the operator.
type queueHead struct {
	row      outbox.Row // ID 0: only held rows
	oldestID uint64     // ID of the oldest row; 0: the queue is empty
}

// A mirror is the part of the unfinished records that the store keeps in
// memory. It shows the last commit.
type mirror struct {
	mu sync.RWMutex // guards the following fields

	waiting      map[inbox.Lane]int
	totalWaiting int // sum of waiting
	claimed      int
	queues       map[chat.Address]queueHead // queues that are not empty
	liveRows     int
	deadRows     int
	accepted     uint64
	// inFlight contains the rows with an attempt that was returned to a caller
	// and is not settled.
	inFlight map[outbox.ID]bool
	events   map[string]*eventQueue // by name
}

func newMirror() *mirror {
	return &mirror{
		waiting: make(map[inbox.Lane]int), queues: make(map[chat.Address]queueHead),
		inFlight: make(map[outbox.ID]bool), events: make(map[string]*eventQueue),
	}
}

// apply applies the changes of a committed batch.
func (m *mirror) apply(b *batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l, n := range b.waiting {
		m.addWaiting(l, n)
	}
	m.claimed += b.claimed
	m.liveRows += b.liveRows
	m.deadRows += b.deadRows
	m.accepted += uint64(b.accepted)
	for a, h := range b.heads {
		m.setHead(a, h)
	}
	for id, on := range b.inFlight {
		if on {
			m.inFlight[id] = true
		} else {
			delete(m.inFlight, id)
		}
	}
	m.applyEvents(b.events)
}

func (m *mirror) addWaiting(l inbox.Lane, n int) {
	m.totalWaiting += n
	if remaining := m.waiting[l] + n; remaining > 0 {
		m.waiting[l] = remaining
	} else {
		delete(m.waiting, l)
	}
}

func (m *mirror) setHead(a chat.Address, h queueHead) {
	if h.oldestID == 0 {
		delete(m.queues, a)
		return
	}
	m.queues[a] = h
}

// takeHead returns the head of a queue for Next if an attempt is registered for
// it. needsAttempt means that the head is due and has no attempt yet.
func (m *mirror) takeHead(to chat.Address, now time.Time) (r outbox.Row, wait time.Duration, ok, needsAttempt bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r = m.queues[to].row
	switch {
	case r.ID == 0:
		return outbox.Row{}, 0, false, false
	case m.inFlight[r.ID]:
		return outbox.Row{}, 0, false, false
	case r.State == outbox.Attempting:
		m.inFlight[r.ID] = true
		return r, 0, true, false
	case r.TimeUntilDue(now) > 0:
		return outbox.Row{}, r.TimeUntilDue(now), false, false
	case r.State == outbox.Uncertain:
		return r, 0, true, false
	}
	return outbox.Row{}, 0, false, true
}

// load replaces everything except the counters of the process by the state that
// r shows.
func (m *mirror) load(r reader) error {
	n := newMirror()
	if err := n.loadLanes(r); err != nil {
		return err
	}
	if err := n.loadQueues(r); err != nil {
		return err
	}
	for range r.scan(bDead, nil) {
		n.deadRows++
	}
	n.events = r.countEvents()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.totalWaiting, m.claimed = n.waiting, n.totalWaiting, n.claimed
	m.queues, m.liveRows, m.deadRows, m.events = n.queues, n.liveRows, n.deadRows, n.events
	return nil
}

func (m *mirror) loadLanes(r reader) error {
	for k, v := range r.scan(bLanes, nil) {
		l, _, err := parseLaneKey(k)
		if err != nil {
			continue // Verify reports it
		}
		if p, err := parseLanePosition(k, v); err == nil && p.isClaimed {
			m.claimed++
			continue
		}
		m.addWaiting(l, 1)
	}
	return nil
}

func (m *mirror) loadQueues(r reader) error {
	for range r.scan(bQueues, nil) {
		m.liveRows++
	}
	for _, a := range r.addresses() {
		h, err := r.headOf(a)
		var d *damagedRow
		if errors.As(err, &d) {
			// The first write to the queue ends the damaged row.
			h = queueHead{oldestID: uint64(d.id), row: outbox.Row{ID: d.id, State: outbox.Queued}}
		} else if err != nil {
			return err
		}
		m.queues[a] = h
	}
	return nil
}

// addresses returns the queues, ordered by their oldest row.
func (m *mirror) addresses() []chat.Address {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]chat.Address, 0, len(m.queues))
	for a := range m.queues {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b chat.Address) int {
		return cmp.Compare(m.queues[a].oldestID, m.queues[b].oldestID)
	})
	return list
}
